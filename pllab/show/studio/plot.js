// One schedule: its name and numbers, and its picture in two layers. The lower one has work, idle time and memory; the
// upper one what is pointed at, so that following a micro-batch draws a handful of boxes.

class Plot {
  constructor(studio, number) {
    this.studio = studio;
    this.number = number;
    this.name = element("strong", { class: "pl-name" });
    this.big = element("span", { class: "pl-big" });
    this.of = element("span", { class: "pl-of" });
    this.rest = element("span", { class: "pl-rest" });
    this.base = element("canvas", { "aria-hidden": "true" });
    this.above = element("canvas", { class: "pl-above", "aria-hidden": "true" });
    this.pic = element("div", { class: "pl-pic", role: "application", tabindex: 0, "aria-roledescription": "timeline" }, this.base, this.above);
    this.node = element("section", { class: "pl-plot" }, element("div", { class: "pl-head" }, this.name, this.big, this.of, this.rest), this.pic);
  }
  get run() {
    return this.studio.runs[this.number];
  }
  get gaps() {
    return this.studio.steady ? this.run.steadyGaps : this.run.gaps;
  }

  // Words
  showHead() {
    const { run, studio } = this;
    const measure = studio.measureOf(run);
    this.name.textContent = run.name;
    this.big.textContent = writePercent(measure.bubble_fraction);
    this.big.classList.toggle("pl-none", measure.bubble_fraction < 5e-4);
    this.big.title = `idle over all time of the ranks; idle over busy time is ${writePercent(measure.bubble_overhead)}`;
    const held = Math.max(...run.most_held);
    const [length, more] = this.differences(measure, held);
    const holds = `holds ${writeCount(held)}${this.number ? "" : " micro-batches"}${more}`;
    this.of.textContent = `bubble fraction, ${run.engine}`;
    this.rest.replaceChildren(`${studio.steady ? "a step every" : "one step"} ${writeSeconds(measure.length_s)}${length} \u00b7 `, holds);
    this.pic.setAttribute("aria-label", `${run.title}, ${run.engine}: bubble fraction ${this.big.textContent}. Arrow keys follow a micro-batch, plus and minus zoom, space plays.`);
  }
  /** What the second schedule has less or more than the first, and a measured run over its prediction. */
  differences(measure, held) {
    const first = this.studio.runs[0];
    if (!this.number) return ["", ""];
    const [seconds, count] = [measure.length_s - this.studio.measureOf(first).length_s, held - Math.max(...first.most_held)];
    if (this.run.is_measured) return [`, ${(measure.length_s / this.studio.measureOf(first).length_s).toFixed(2)} times the prediction`, ""];
    const than = (difference, text) => (Math.abs(difference) < 1e-6 * measure.length_s ? ", the same" : `, ${text} ${difference < 0 ? "less" : "more"}`);
    return [than(seconds, writeSeconds(Math.abs(seconds))), Math.abs(count) < 1e-6 ? "" : than(count, writeCount(Math.abs(count)))];
  }

  // Drawing
  measure() {
    this.size = [this.pic.clientWidth, this.pic.clientHeight];
  }
  scaleFor(view) {
    const { run, studio } = this;
    const forward = Math.min(...studio.runs.map((one) => one.forward));
    return scaleOf(...this.size, studio.em, run.actions.numRanks, view, forward, run.actions.numRanks > 16);
  }
  draw() {
    const { run, studio } = this;
    const scale = (this.scale = this.scaleFor(studio.windowNow()));
    if (!this.size[0] || scale.pitch < 1) return;
    const ctx = fitCanvas(this.base, scale.width, scale.height);
    drawRows(ctx, scale, run.actions.numRanks, studio.paints);
    clipTo(ctx, scale.left - 1, 0, scale.inner + 2, scale.height);
    this.drawRun(ctx, scale);
    ctx.restore();
    if (scale.bars) drawBars(ctx, run, scale, studio.paints, studio.memoryNow());
    this.mark();
  }
  drawRun(ctx, scale) {
    const { run, studio } = this;
    drawSlab(ctx, run, scale, studio.paints, studio.steady);
    drawBoxes(ctx, run, scale, studio.paints, studio.steady);
    drawWaits(ctx, run, scale, studio.paints, this.gaps);
    if (!scale.bars) drawMemory(ctx, run, scale, studio.paints, studio.memoryNow());
    drawPhases(ctx, run, scale, studio.paints, studio.steady);
  }

  // The layer above
  mark() {
    const { scale, studio } = this;
    if (!scale || scale.pitch < 1) return;
    const ctx = fitCanvas(this.above, scale.width, scale.height);
    clipTo(ctx, scale.left - 1, 0, scale.inner + 2, scale.height);
    this.markLit(ctx, studio.litIn(this.number));
    if (studio.playhead !== null) this.markPlayhead(ctx);
    ctx.restore();
  }
  veil(ctx, from, to) {
    const { scale } = this;
    ctx.globalAlpha = 0.62;
    ctx.fillStyle = this.studio.paints.look.ground;
    ctx.fillRect(from, scale.top, to - from, scale.height - scale.top);
    ctx.globalAlpha = 1;
  }
  markLit(ctx, lit) {
    if (!lit) return;
    const { scale, run, studio } = this;
    const fillOf = (i) => studio.paints.lit(run.actions.kind[i], isLater(run.actions, i));
    this.veil(ctx, scale.left - 1, scale.left + scale.inner + 1);
    eachBox(run, scale, 0, (i, x, width) => {
      if (lit.has(i)) drawBox(ctx, run, scale, studio.paints, i, x, width, fillOf(i));
    });
    drawLabels(ctx, run, scale, studio.paints, lit);
    const chosen = studio.pointed;
    if (chosen?.way) this.markWay(ctx, chosen.microbatch);
    if (chosen?.run === this.number) this.markChosen(ctx, chosen);
  }
  /** Lines from stage to stage and back, each with a halo. */
  markWay(ctx, microbatch) {
    const { scale, run, studio } = this;
    const way = wayOf(run.actions, run.links, microbatch);
    const fine = scale.box < 12;
    const middle = (i) => scale.y(run.actions.rank[i]) + scale.box / 2;
    for (const [width, ink] of [[fine ? 4.5 : 6, () => studio.paints.look.ground], [fine ? 2 : 2.5, (i) => studio.paints.outline(run.actions.kind[i])]]) {
      way.slice(1).forEach((i, at) => {
        const [from, to] = [scale.x(run.actions.end[way[at]]), scale.x(run.actions.start[i])];
        if (run.actions.rank[way[at]] === run.actions.rank[i] && to - from < 2) return;
        this.drawHop(ctx, [from - 2, middle(way[at])], [to + 2, middle(i)], width, ink(i), !fine);
      });
    }
  }
  drawHop(ctx, [x1, y1], [x2, y2], width, ink, hasEnds) {
    const bend = Math.max(6, (x2 - x1) / 2);
    Object.assign(ctx, { strokeStyle: ink, fillStyle: ink, lineWidth: width });
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    ctx.stroke();
    if (!hasEnds || width > 3) return;
    ctx.beginPath();
    ctx.arc(x1, y1, 3.2, 0, 7);
    ctx.arc(x2, y2, 3.2, 0, 7);
    ctx.fill();
  }
  /** The chosen action's outline, and its rank's wait before it with its cause. */
  markChosen(ctx, { i, gap }) {
    const { scale, run, studio } = this;
    const wait = gap ?? this.gaps.find((one) => one.i === i && one.rank === run.actions.rank[i]);
    if (wait) this.markWait(ctx, wait);
    if (i === undefined) return;
    const [x, end] = [Math.round(scale.x(run.actions.start[i])), Math.round(scale.x(run.actions.end[i]))];
    ctx.strokeStyle = studio.paints.look.ink;
    ctx.lineWidth = 2;
    ctx.strokeRect(x + 1, Math.round(scale.y(run.actions.rank[i])) + 1, Math.max(2, end - x - 2), Math.round(scale.box) - 2);
  }
  markWait(ctx, gap) {
    const { scale, run, studio } = this;
    const [from, to] = [Math.max(scale.left, scale.x(gap.from)), Math.min(scale.left + scale.inner, scale.x(gap.to))];
    const y = Math.round(scale.y(gap.rank));
    ctx.fillStyle = studio.paints.idle;
    ctx.fillRect(from, y, to - from, Math.round(scale.box));
    const sender = gap.i < run.actions.first[gap.rank + 1] ? run.links.sender(gap.i) : undefined;
    const long = writeSeconds(gap.to - gap.from);
    const words = sender === undefined ? [`idle ${long}`, long] : [`waits ${long} for ${labelOf(run.actions, sender, true)}`, `waits ${long}`, long];
    ctx.font = studio.paints.font(Math.round(scale.em * 0.86), 650);
    ctx.textAlign = "center";
    ctx.fillStyle = studio.paints.look.on_idle;
    const text = words.find((one) => ctx.measureText(one).width + 8 < to - from);
    if (text && scale.box > scale.em * 0.8) ctx.fillText(text, (from + to) / 2, y + scale.box / 2 + 0.5);
  }
  markPlayhead(ctx) {
    const { scale, studio } = this;
    const x = Math.max(scale.left, scale.x(studio.playhead));
    this.veil(ctx, x, scale.left + scale.inner + 1);
    ctx.fillStyle = studio.paints.look.over;
    ctx.fillRect(x - 1.5, scale.top - 5, 3, scale.height);
  }
  // Where the pointer is
  spot(event) {
    const box = this.base.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const isInside = x >= this.scale.left && x <= this.scale.left + this.scale.inner;
    return isInside ? spotAt(this.run, this.gaps, this.scale.rank(y), this.scale.time(x)) : null;
  }
}
