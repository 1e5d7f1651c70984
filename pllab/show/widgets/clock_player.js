// The clock player: a grid of ticks and stages that follows two sliders. Ticks and words come from Python.

const SIZES = { num_batches: "Micro-batches", num_partitions: "Stages" };

/** Sizes in pixels: a column for each tick, a row for each stage. */
function clockGeometry(width, numTicks, numStages, isLarge) {
  const scale = isLarge ? 1.6 : 1;
  const left = 66 * scale;
  const column = Math.min(52 * scale, (width - left - 6) / Math.max(1, numTicks));
  const row = 32 * scale;
  return { left, column, row, font: 13 * scale, bottom: numStages * row, height: numStages * row + 26 * scale };
}

class ClockView extends SteppedView {
  constructor(context) {
    super(context, "clock", "Clock", 700);
    this.idle = uniqueName("clock-idle");
    this.sizes = Object.entries(SIZES).map(([trait, text]) => this.sizeOf(trait, text));
    this.grid = element("div", { class: "pl-clock-grid", role: "grid", tabindex: 0, "aria-readonly": "true" });
    this.pictures = [this.grid];
    this.numbers = element("p", { class: "pl-numbers", role: "status" });
    this.problem = element("p", { class: "pl-error", role: "alert", hidden: true });
    this.cells = [];
    this.marks = [];
    this.root.append(
      shape("svg", { class: "pl-patterns", width: 0, height: 0, "aria-hidden": "true" }, idlePattern(this.idle)),
      this.titleLine(),
      toolsOf("Sizes", ...this.sizes.map(({ node }) => node)),
      this.grid, this.table, this.problem, this.live, this.numbers,
      toolsOf("Player", this.back, this.play, this.forth, ...this.viewButtons),
    );
    this.listenToKeys(this.grid);
    this.follow(["step"], this.show);
    this.follow(["view"], this.showView);
    this.follow(Object.keys(SIZES), this.showSizes);
    this.followWidth(this.grid, () => { this.draw(); this.show(); });
    this.begin();
  }
  get ticks() {
    return this.get("view").ticks;
  }
  get last() {
    return Math.max(0, this.ticks.length - 1);
  }

  /** A slider with its name and its value, bound to a trait. */
  sizeOf(trait, text) {
    const value = element("output");
    const change = () => {
      this.pause();
      this.set(trait, Number(slider.value));
    };
    const slider = element("input", { type: "range", min: 1, max: this.get("limits")[trait], step: 1, "aria-label": text, input: change });
    const show = () => {
      slider.value = this.get(trait);
      value.textContent = this.get(trait);
    };
    return { node: element("label", { class: "pl-size" }, text, slider, value), show };
  }
  showSizes() {
    for (const { show } of this.sizes) show();
  }

  // Drawing: all parts of the grid are made anew when the sizes change, and marked when the tick changes
  draw() {
    const [view, numStages, numTicks] = [this.get("view"), this.get("num_partitions"), this.ticks.length];
    const g = (this.geometry = clockGeometry(this.grid.clientWidth || 640, numTicks, numStages, this.isLarge));
    this.cells = view.ticks.flatMap((pairs, tick) => pairs.map(([batch, stage]) => this.cellOf(tick, batch, stage)));
    const rows = Array.from({ length: numStages }, (_, stage) => this.rowOf(stage, numTicks));
    const every = [1, 2, 5, 10].find((one) => one * g.column >= 1.7 * g.font) ?? 20; // numbers that do not touch
    const below = { class: "pl-tick", y: g.bottom + g.font };
    this.marks = view.ticks.map((_, tick) =>
      shape("text", { ...below, x: g.left + (tick + 0.5) * g.column, "text-anchor": "middle" }, tick % every ? "" : tick));
    const word = shape("text", { ...below, x: g.left - 10, "text-anchor": "end" }, "tick");
    this.column = shape("rect", { class: "pl-column", y: 1, width: g.column, height: Math.max(0, g.bottom - 2) });
    const extras = shape("g", { "aria-hidden": "true" }, word, ...this.marks, this.column);
    const pick = (event) => this.pick(event);
    const drawn = { width: g.left + numTicks * g.column + 4, height: g.height, "font-size": g.font, role: "presentation", click: pick };
    this.grid.replaceChildren(shape("svg", drawn, ...rows, extras));
    this.grid.setAttribute("aria-label", `Clock of ${view.title}. Left and right step, space plays.`);
  }
  rowOf(stage, numTicks) {
    const g = this.geometry;
    const [name, middle] = [`stage ${stage}`, (stage + 0.5) * g.row];
    const empty = { x: g.left, y: stage * g.row + 3, width: numTicks * g.column, height: g.row - 6 };
    return shape(
      "g",
      { role: "row", "aria-label": name },
      shape("text", { class: "pl-stage", role: "rowheader", x: g.left - 10, y: middle, "text-anchor": "end" }, name),
      shape("rect", { class: "pl-empty", ...empty, fill: `url(#${this.idle})` }),
      ...this.cells.filter((cell) => cell.stage === stage).map((cell) => cell.node),
    );
  }
  cellOf(tick, batch, stage) {
    const g = this.geometry;
    const box = { x: g.left + tick * g.column, y: stage * g.row + 3, width: g.column, height: g.row - 6 };
    const node = shape(
      "g",
      { role: "gridcell", "aria-label": `tick ${tick}: micro-batch ${batch} on stage ${stage}` },
      shape("rect", { class: "pl-coming", ...box }),
      ...workShapes("F", false, box),
    );
    const text = g.column >= 3.2 * g.font ? `F${batch}` : String(batch);
    if (g.column >= text.length * g.font * 0.62 + 3) {
      const at = { x: box.x + g.column / 2, y: (stage + 0.5) * g.row, "text-anchor": "middle" };
      node.append(shape("text", { class: "pl-number", ...at, "aria-hidden": "true" }, text));
    }
    return { tick, stage, node };
  }

  // What is shown
  show() {
    const now = this.step;
    for (const { tick, node } of this.cells) {
      node.classList.toggle("pl-later", tick > now);
      node.classList.toggle("pl-runs", tick === now);
    }
    this.marks.forEach((mark, tick) => mark.classList.toggle("pl-now", tick === now));
    this.column?.setAttribute("x", this.geometry.left + now * this.geometry.column);
    this.column?.toggleAttribute("hidden", this.ticks.length === 0);
    this.say(this.get("view").sentences[now] ?? "");
    this.showPlayer();
    this.markLine(now, "pl-runs");
  }
  showView() {
    const view = this.get("view");
    this.showSizes();
    this.title.textContent = view.title;
    this.summary.textContent = view.summary;
    this.numbers.replaceChildren(...view.numbers.map((text) => element("span", {}, text)));
    this.problem.textContent = view.problem;
    this.problem.hidden = !view.problem;
    this.numbers.hidden = this.summary.hidden = Boolean(view.problem);
    this.fillTable();
    super.showView();
    this.grid.hidden ||= Boolean(view.problem);
    if (!this.grid.hidden) this.draw();
    this.show();
    this.isReady();
  }
  tableView() {
    const all = Array.from({ length: this.get("num_partitions") }, (_, stage) => stage);
    const rows = this.ticks.map((pairs, tick) => {
      const at = new Map(pairs.map(([batch, stage]) => [stage, `micro-batch ${batch}`]));
      return [String(tick), ...all.map((stage) => at.get(stage) ?? "idle")];
    });
    return tableOf(this.get("view").title, ["Tick", ...all.map((stage) => `Stage ${stage}`)], rows);
  }

  pick(event) {
    const at = event.clientX - this.grid.firstChild.getBoundingClientRect().left - this.geometry.left;
    if (at >= 0) this.seek(Math.floor(at / this.geometry.column));
  }
}

export default widgetOf(ClockView);
