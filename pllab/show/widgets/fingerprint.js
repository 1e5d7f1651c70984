// The gradient fingerprint: a cell for each parameter. All words and verdicts come from Python.

class FingerprintView extends View {
  constructor(context) {
    super(context, "fingerprint", "Gradients");
    this.prefix = uniqueName("print");
    this.ways = this.get("ways");
    this.numCells = this.ways[0].cells.length;
    const ratios = this.ways.flatMap((way) => way.cells.map((cell) => Math.min(8, Math.abs(cell.ratio))));
    this.top = Math.max(2, ...ratios); // right end of the bars
    this.title.textContent = this.get("title");
    this.addParts();
    this.grid.addEventListener("keydown", this.safely(this.press));
    this.follow(["way"], this.show);
    this.follow(["cell"], this.showCell);
    this.begin();
  }
  get way() {
    return this.ways[this.get("way")];
  }
  addParts() {
    const options = this.ways.map((way) => element("option", {}, way.name));
    this.choice = element("select", { "aria-label": "Way", change: () => this.choose("way", this.choice.selectedIndex) }, ...options);
    this.row = element("div", { class: "pl-cells", role: "row" });
    this.grid = element("div", {
      class: "pl-grid", role: "grid", tabindex: 0, "aria-readonly": "true",
      "aria-label": "Parameters. Left and right choose a parameter, up and down another way.",
    }, this.row);
    this.pictures = [this.grid];
    this.verdict = element("p", { class: "pl-verdict", "aria-live": "polite" });
    const tools = toolsOf("View", element("label", {}, "Way ", this.choice), ...this.viewButtons);
    this.root.append(this.titleLine(), tools, this.grid, this.table, this.verdict, this.live);
  }
  choose(trait, to) {
    const count = trait === "cell" ? this.numCells : this.ways.length;
    this.set(trait, Math.min(count - 1, Math.max(0, to)));
  }

  cellOf(cell, index) {
    const bar = element("span", { class: "pl-bar", style: `width: ${(100 * Math.min(this.top, Math.abs(cell.ratio))) / this.top}%` });
    const one = element("span", { class: "pl-one", style: `left: ${100 / this.top}%` });
    return element(
      "div",
      {
        class: `pl-cell pl-${cell.kind}`, role: "gridcell", id: `${this.prefix}-${index}`, "aria-label": cell.words,
        click: () => this.choose("cell", index),
      },
      element("span", { class: "pl-name" }, cell.name),
      element("span", { class: "pl-ratio" }, cell.text),
      element("span", { class: "pl-space", "aria-hidden": "true" }, bar, one),
    );
  }
  show() {
    const { name, cells, verdict } = this.way;
    this.choice.selectedIndex = this.get("way");
    this.row.replaceChildren(...cells.map((cell, index) => this.cellOf(cell, index)));
    this.verdict.textContent = `${name}: ${verdict}`;
    this.fillTable();
    this.showCell();
    this.isReady();
  }
  showCell() {
    const index = this.get("cell");
    [...this.row.children].forEach((node, at) => node.classList.toggle("pl-chosen", at === index));
    this.grid.setAttribute("aria-activedescendant", `${this.prefix}-${index}`);
    this.say(this.way.cells[index].words);
  }
  tableView() {
    const rows = this.way.cells.map((cell) => [cell.name, cell.text, cell.words]);
    return tableOf(`${this.way.name}: ${this.get("title")}`, ["Parameter", "Ratio", "In words"], rows);
  }
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [cell, way] = [this.get("cell"), this.get("way")];
    const moves = {
      ArrowLeft: ["cell", cell - 1], ArrowRight: ["cell", cell + 1], Home: ["cell", 0], End: ["cell", Infinity],
      ArrowUp: ["way", way - 1], ArrowDown: ["way", way + 1],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(...moves[event.key]);
  }
}

export default widgetOf(FingerprintView);
