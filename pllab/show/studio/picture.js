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
    if (this.frame && this.frame[1] > this.whole()[1]) this.frame = null;
  }
  addPlot() {
    const plot = new Plot(this, this.plots.length);
    const on = (name, react) => plot.pic.addEventListener(name, this.studio.safely((event) => react.call(this, plot, event)));
    on("pointermove", this.hover);
    on("pointerleave", () => this.isPinned || this.point(null));
    on("click", this.keep);
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
    this.mark();
    return isHeld;
  }
  pin(number, i) {
    this.isPinned = true;
    this.pointAt(number, i);
    const { start, end } = this.runs[number].actions;
    if (this.frame && (start[i] < this.frame[0] || end[i] > this.frame[1])) {
      const by = start[i] - (this.frame[0] + this.frame[1]) / 2;
      this.look(this.frame.map((time) => time + by));
    }
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

  // Mouse: pointing follows, a click keeps
  hover(plot, event) {
    if (this.isPinned || this.playhead !== null) return null;
    const found = plot.spot(event);
    if (found?.i === undefined || found.rank !== undefined) return this.point(found ? { run: plot.number, gap: found } : null);
    return this.pointAt(plot.number, found.i);
  }
  keep(plot, event) {
    const found = plot.spot(event);
    const isAgain = this.isPinned && this.pointed?.run === plot.number && found?.i === this.pointed.i;
    this.release();
    if (!found || isAgain) return;
    if (found.rank === undefined) this.pin(plot.number, found.i);
    else {
      this.isPinned = true;
      this.point({ run: plot.number, gap: found });
    }
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
  /** By keys and buttons, around the chosen action or the middle. */
  zoom(factor) {
    const [from, to] = this.windowNow();
    const chosen = this.pointed?.way && this.runs[this.pointed.run].actions.start[this.pointed.i];
    const middle = chosen ?? (from + to) / 2;
    this.look([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }
}

/** A run on screen: its numbers from Python, its actions, and what follows from them when it is asked for. */
function runOf(numbers) {
  const actions = readActions(numbers.actions);
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
