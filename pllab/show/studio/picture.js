// The plots on one axis: which times are in view, and what is pointed at or selected. It keeps no setting: those are
// traits, which `get` reads.

class Picture {
  constructor(studio) {
    this.studio = studio;
    this.runs = [];
    this.plots = [];
    this.frame = null; // the times in view, or null for all
    this.pointed = null; // { run, i, microbatch, way } of an action, { run, gap } of idle time
    this.isPinned = false;
    this.playhead = null;
    this.axis = element("canvas", { "aria-hidden": "true" });
    this.foot = element("div", { class: "pl-axis" }, this.axis);
    this.node = element("div", { class: "pl-plots" }, this.foot);
  }
  get(trait) {
    return this.studio.get(trait);
  }
  get steady() {
    return Boolean(this.get("steady"));
  }
  measureOf(run) {
    return this.steady ? run.steady : run.step;
  }

  // Runs and their plots
  read(runs) {
    this.runs = runs;
    const [first, ...rest] = this.plots;
    const hadKeys = rest.slice(Math.max(0, runs.length - 1)).some(({ pic }) => pic === document.activeElement);
    while (this.plots.length > runs.length) this.plots.pop().node.remove();
    if (hadKeys) first.pic.focus({ preventScroll: true });
    while (this.plots.length < runs.length) this.addPlot();
    this.pointed = this.playhead = null;
    this.isPinned = false;
    if (this.get("selected")) this.followSelected();
    if (this.frame && this.frame[1] > this.whole()[1]) this.frame = null;
  }
  addPlot() {
    const plot = new Plot(this, this.plots.length);
    const on = (name, react, how) => plot.pic.addEventListener(name, this.studio.safely((event) => react.call(this, plot, event)), how);
    on("pointermove", this.hover);
    on("pointerleave", () => this.isPinned || this.point(null));
    on("pointerdown", this.grab);
    on("pointerup", this.drop);
    on("pointercancel", () => (this.held = null));
    on("wheel", this.roll, { passive: false });
    this.plots.push(plot);
    this.foot.before(plot.node);
  }

  // Drawing
  measure() {
    this.em = parseFloat(getComputedStyle(this.node).fontSize);
  }
  draw() {
    for (const plot of this.plots) plot.draw();
    if (this.plots[0].scale) drawAxis(this.axis, this.plots[0].scale, this.paints);
  }
  mark() {
    for (const plot of this.plots) plot.mark();
    this.studio.tell();
  }
  memoryNow() {
    return { steady: this.steady, most: mostHeld(this.runs), changes: this.get("options").changes };
  }
  whole() {
    return wholeOf(this.runs, this.steady);
  }
  windowNow() {
    return this.frame ?? this.whole();
  }

  // Pointing
  point(pointed) {
    const same = (key) => pointed?.[key] === this.pointed?.[key];
    if (["run", "i", "gap"].every(same)) return;
    this.pointed = pointed;
    this.mark();
  }
  pointAt(run, i) {
    this.point({ run, i, microbatch: this.runs[run].actions.microbatch[i], way: true });
  }
  /** The actions of a plot that are lit, or null if all are. */
  litIn(number) {
    const { actions, links } = this.runs[number];
    if (this.pointed?.way) {
      const lit = new Set();
      for (let i = 0; i < actions.count; i += 1) if (actions.microbatch[i] === this.pointed.microbatch) lit.add(i);
      return lit;
    }
    if (this.pointed?.run !== number) return null;
    const { i, rank } = this.pointed.gap;
    const isLast = i === actions.first[rank + 1];
    return new Set(isLast ? [] : [i, links.sender(i)].filter((one) => one !== undefined));
  }
  /** Let go of what is pointed at and of the moment that is played; true if there was anything. */
  release() {
    const isHeld = this.pointed !== null || this.playhead !== null;
    this.studio.foot.pause();
    this.isPinned = false;
    this.pointed = this.playhead = null;
    if (this.get("selected")) this.studio.set("selected", "");
    this.mark();
    return isHeld;
  }
  pin(number, i) {
    this.isPinned = true;
    this.pointAt(number, i);
    const { start, end } = this.runs[number].actions;
    if (this.frame && (start[i] < this.frame[0] || end[i] > this.frame[1])) {
      this.pan((start[i] - (this.frame[0] + this.frame[1]) / 2) / (this.frame[1] - this.frame[0]));
    }
    if (number === 0) this.studio.set("selected", labelOf(this.runs[0].actions, i, true));
  }
  followSelected() {
    const { actions } = this.runs[0];
    const wanted = this.get("selected");
    if (!wanted) return this.pointed?.run === 0 && this.pointed.way && this.point(null);
    const i = Array.from({ length: actions.count }, (_, one) => one).find((one) => labelOf(actions, one, true) === wanted);
    if (i === undefined) return null;
    this.isPinned = true;
    return this.pointAt(0, i);
  }
  /** Arrow keys: along a rank, from rank to rank, and from plot to plot. */
  walk(number, ranks, along) {
    const { actions } = this.runs[number];
    const now = this.pointed?.way && this.pointed.run === number ? this.pointed.i : null;
    if (!actions.count) return;
    if (now === null) return this.pin(number, 0);
    const rank = actions.rank[now];
    if (along) return this.pin(number, Math.min(actions.first[rank + 1] - 1, Math.max(actions.first[rank], now + along)));
    const goal = rank + ranks;
    if (goal < 0 || goal >= actions.numRanks) return this.plots[number + ranks]?.pic.focus();
    const middle = (actions.start[now] + actions.end[now]) / 2;
    return this.pin(number, Math.max(actions.first[goal], lastStarted(actions, goal, middle)));
  }

  // Mouse: pointing follows, a click keeps, a drag moves what is zoomed
  hover(plot, event) {
    if (this.held) return this.drag(plot, event);
    if (this.isPinned || this.playhead !== null) return null;
    const { found } = plot.spot(event);
    if (found?.i === undefined || found.rank !== undefined) return this.point(found ? { run: plot.number, gap: found } : null);
    return this.pointAt(plot.number, found.i);
  }
  grab(plot, event) {
    if (event.button) return;
    this.held = { x: event.clientX, frame: this.frame, moved: false };
    try {
      plot.pic.setPointerCapture(event.pointerId);
    } catch { /* the pointer is gone already */ }
  }
  drag(plot, event) {
    const by = this.held.x - event.clientX;
    this.held.moved ||= Math.abs(by) >= 4;
    if (this.held.moved && this.held.frame) this.look(this.held.frame.map((time) => time + by / plot.scale.perSecond));
  }
  drop(plot, event) {
    const { held } = this;
    this.held = null;
    if (!held || held.moved) return;
    const { found } = plot.spot(event);
    const isAgain = this.isPinned && this.pointed?.run === plot.number && found?.i === this.pointed.i;
    this.release();
    if (!found || isAgain) return;
    if (found.rank === undefined) this.pin(plot.number, found.i);
    else {
      this.isPinned = true;
      this.point({ run: plot.number, gap: found });
    }
  }
  roll(plot, event) {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (!event.ctrlKey && !this.studio.isLarge && !(this.frame && sideways)) return; // the notebook scrolls
    event.preventDefault();
    if (sideways && !event.ctrlKey) this.pan(sideways / plot.scale.inner);
    else this.zoom(Math.exp(event.deltaY / 300), plot.spot(event).time);
  }

  // Zoom
  look(to) {
    const whole = this.whole();
    const all = whole[1] - whole[0];
    const size = to && Math.min(all, Math.max(all / 2000, to[1] - to[0]));
    const from = to && Math.min(whole[1] - size, Math.max(whole[0], to[0]));
    this.frame = !to || size >= all * 0.999 ? null : [from, from + size];
    this.draw();
    this.studio.tell();
  }
  zoom(factor, anchor) {
    const [from, to] = this.windowNow();
    const chosen = this.pointed?.way && this.runs[this.pointed.run].actions.start[this.pointed.i];
    const middle = anchor ?? chosen ?? (from + to) / 2;
    this.look([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }
  pan(share) {
    if (this.frame) this.look(this.frame.map((time) => time + share * (this.frame[1] - this.frame[0])));
  }
}

/** A run on screen: its numbers from Python, its actions, and what follows from them when it is asked for. */
function runOf(numbers, actions) {
  const run = { ...numbers, actions, links: linksOf(actions), held: [], staged: actions.numStages > actions.numRanks };
  const later = (name, make) => Object.defineProperty(run, name, { configurable: true, get: () => {
    const value = make();
    Object.defineProperty(run, name, { value });
    return value;
  } });
  later("gaps", () => gapsOf(run, false));
  later("steadyGaps", () => gapsOf(run, true));
  later("forward", () => forwardOf(run));
  return run;
}
