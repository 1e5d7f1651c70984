// The cut editor: draws bars and cut lines, moves a line. Sums and words come from Python.

const CUT_STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, Home: -Infinity, End: Infinity };

class CutView extends View {
  constructor(context) {
    super(context, "cut-editor", "Layers");
    this.layers = this.get("layers");
    this.best = this.get("best");
    this.dragged = -1; // index of the line under the mouse button
    this.bars = [];
    this.lines = [];
    this.title.textContent = this.get("title");
    this.picture = element("div", { class: "pl-cut-picture" });
    const help = element("p", { class: "pl-help" }, "Drag a line, or choose it with Tab and move it with the arrow keys.");
    this.pictures = [this.picture, help];
    const bestToggle = toggleOf(this.model, "show_best", "Show the best cut");
    this.showBestButton = bestToggle[1];
    const tools = toolsOf("Cut editor", ...(this.best.cuts ? [bestToggle[0]] : []), ...this.viewButtons);
    this.root.append(this.titleLine(), this.picture, this.live, this.table, help, tools);
    this.follow(["cuts", "show_best"], this.show);
    this.followWidth(this.picture, this.draw);
    this.begin();
  }
  /** The stages that the cuts make, each with its first layer, its end and its run from Python. */
  get stages() {
    const ends = [0, ...this.get("cuts"), this.layers.length];
    const runs = this.get("runs");
    return ends.slice(1).map((end, stage) => ({ stage, start: ends[stage], end, ...runs[`${ends[stage]}-${end}`] }));
  }
  /** Move a cut to a place: at least one layer after the cut before it, and one before the next. */
  move(index, place) {
    const cuts = this.get("cuts");
    const [low, high] = [(cuts[index - 1] ?? 0) + 1, (cuts[index + 1] ?? this.layers.length) - 1];
    const to = Math.min(high, Math.max(low, place));
    if (to !== cuts[index]) this.set("cuts", cuts.map((cut, at) => (at === index ? to : cut)));
  }

  // Drawing
  draw(width) {
    const scale = this.isLarge ? 1.6 : 1;
    const g = { width, row: 26 * scale, font: 13 * scale, left: 78 * scale, right: Math.min(230 * scale, width * 0.38) };
    g.bar = Math.max(30, width - g.left - g.right - 84 * scale);
    this.geometry = g;
    const top = Math.max(...this.layers.map((layer) => layer.cost)) || 1;
    this.bars = this.layers.map((layer, index) => this.barOf(layer, index, Math.max(1, (layer.cost / top) * g.bar)));
    this.lines = this.get("cuts").map((_, index) => this.lineOf(index));
    this.sums = shape("g", { "aria-hidden": "true" });
    const svg = shape("svg", { width, height: this.layers.length * g.row + 8, "font-size": g.font });
    svg.append(...this.bars, this.sums, ...this.lines);
    this.picture.replaceChildren(svg);
    this.show();
    this.isReady();
  }
  barOf(layer, index, size) {
    const g = this.geometry;
    const middle = (index + 0.5) * g.row + 4;
    return shape(
      "g",
      { class: "pl-layer", "aria-hidden": "true" },
      shape("text", { x: g.left - 8, y: middle, "text-anchor": "end" }, layer.name),
      shape("rect", { class: "pl-box", x: g.left, y: middle - g.row * 0.36, width: size, height: g.row * 0.72 }),
      shape("text", { x: g.left + size + 6, y: middle }, layer.text),
    );
  }
  lineOf(index) {
    const { width } = this.geometry;
    const attributes = {
      class: "pl-cut", role: "slider", tabindex: 0, "aria-orientation": "vertical", "aria-label": `Cut ${index + 1}`,
      ...this.eventsOf(index),
    };
    const end = width - 6;
    return shape(
      "g",
      attributes,
      shape("rect", { class: "pl-catch", x: 0, y: -12, width, height: 24 }),
      shape("path", { class: "pl-line", d: `M6 0H${end}` }),
      shape("path", { class: "pl-knob", d: `M${end - 18} 0l9 -9l9 9l-9 9z` }),
    );
  }
  sumOf(stage, isSlowest) {
    const g = this.geometry;
    const x = g.width - g.right;
    const [from, to] = [stage.start * g.row + 10, stage.end * g.row - 2];
    const words = `stage ${stage.stage}: ${stage.text}${isSlowest ? ", slowest" : ""}`;
    const bracket = shape("path", { d: `M${x - 8} ${from}h8V${to}h-8` });
    const text = shape("text", { x: x + 8, y: (from + to) / 2 }, words);
    return shape("g", { class: isSlowest ? "pl-sum pl-slowest" : "pl-sum" }, bracket, text);
  }

  // What is shown for the present cut
  show() {
    const all = this.stages;
    const slowest = all.reduce((most, stage) => (stage.cost > most.cost ? stage : most));
    const isSlowest = (index) => index >= slowest.start && index < slowest.end;
    this.bars.forEach((bar, index) => {
      bar.classList.toggle("pl-slowest", isSlowest(index));
      bar.querySelector("rect").setAttribute("style", paintOf(isSlowest(index) ? "B" : "F"));
    });
    this.sums?.replaceChildren(...all.map((stage) => this.sumOf(stage, stage === slowest)), ...this.bestLines());
    this.lines.forEach((line, index) => this.placeLine(line, index, all));
    const words = [`The slowest stage is stage ${slowest.stage}, ${slowest.words}`];
    if (this.get("show_best")) words.push(slowest.cost <= this.best.cost * (1 + 1e-9) ? this.best.praise : this.best.words);
    this.say(words.join(" "));
    this.fillTable();
    this.showBestButton();
  }
  placeLine(line, index, all) {
    const place = all[index].end;
    line.setAttribute("transform", `translate(0 ${place * this.geometry.row + 4})`);
    line.setAttribute("aria-valuemin", all[index].start + 1);
    line.setAttribute("aria-valuemax", all[index + 1].end - 1);
    line.setAttribute("aria-valuenow", place);
    line.setAttribute("aria-valuetext", `after ${this.layers[place - 1].name}`);
  }
  bestLines() {
    const { row, width } = this.geometry;
    const cuts = this.get("show_best") ? this.best.cuts : [];
    return cuts.map((cut) => shape("path", { class: "pl-best", d: `M6 ${cut * row + 4}H${width - 6}` }));
  }
  tableView() {
    const all = this.stages;
    const most = Math.max(...all.map((stage) => stage.cost));
    const slowest = all.find((stage) => stage.cost === most);
    const rows = this.layers.map((layer, index) => {
      const stage = all.find(({ end }) => index < end);
      return [layer.name, layer.text, `stage ${stage.stage}`, stage.text, stage === slowest ? "slowest" : ""];
    });
    const caption = `${this.layers.length} layers in ${all.length} stages`;
    return tableOf(caption, ["Layer", "Cost", "Stage", "Cost of the stage", "Slowest"], rows);
  }
  showView() {
    super.showView();
    if (!this.picture.hidden && this.picture.clientWidth) this.draw(this.picture.clientWidth);
  }

  // Mouse and keys of one line
  eventsOf(index) {
    const stop = () => { this.dragged = -1; };
    return {
      keydown: this.safely((event) => this.press(event, index)),
      pointerdown: this.safely((event) => {
        this.dragged = index;
        event.currentTarget.setPointerCapture(event.pointerId);
      }),
      pointermove: this.safely((event) => {
        if (this.dragged !== index) return;
        const y = event.clientY - this.picture.firstChild.getBoundingClientRect().top - 4;
        this.move(index, Math.round(y / this.geometry.row));
      }),
      pointerup: stop,
      pointercancel: stop,
    };
  }
  press(event, index) {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in CUT_STEPS)) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    this.move(index, this.get("cuts")[index] + CUT_STEPS[event.key]);
  }
}

export default widgetOf(CutView);
