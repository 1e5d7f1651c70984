// The index map: draws one of the maps that Python made. Sliders and keys choose; words come from Python.

class MapView extends View {
  constructor(context) {
    super(context, "index-map", "Index map");
    this.prefix = uniqueName("map");
    this.numSamples = this.get("num_samples");
    this.numColumns = this.get("num_columns");
    this.worlds = this.get("world_sizes");
    this.addControls();
    this.addGrid();
    this.info = element("p", { class: "pl-info" });
    const legend = element("p", { class: "pl-legend" });
    legend.append("r1 s2: rank 1 loads it in step 2. Thick edge: loaded more than once. Dashed edge: loaded by nobody.");
    this.pictures = [this.grid, this.info, legend];
    this.root.append(this.live, this.grid, this.info, this.table, this.tools, legend);
    this.root.addEventListener("keydown", this.safely(this.press));
    this.follow(["world_size", "epoch", "remainder"], this.show);
    this.follow(["sample"], this.point);
    this.begin();
  }
  get map() {
    return this.get("maps")[`${this.get("world_size")}/${this.get("remainder")}`][this.get("epoch")];
  }
  addControls() {
    const slider = (last, use) =>
      element("input", { type: "range", min: 0, max: last, step: 1, input: (event) => use(Number(event.target.value)) });
    this.ranks = slider(this.worlds.length - 1, (at) => this.set("world_size", this.worlds[at]));
    this.epochs = slider(this.get("num_epochs") - 1, (at) => this.set("epoch", at));
    this.policy = element("select", { change: () => this.set("remainder", this.policy.value) });
    this.policy.append(...this.get("remainders").map((name) => element("option", { value: name }, name)));
    [this.ranksText, this.epochsText] = [element("span"), element("span")];
    this.tools = toolsOf(
      "Index map",
      element("label", {}, this.ranksText, this.ranks),
      element("label", {}, this.epochsText, this.epochs),
      element("label", {}, "Left over: ", this.policy),
      ...this.viewButtons,
    );
  }
  addGrid() {
    this.grid = element("div", {
      class: "pl-map", role: "grid", tabindex: 0, "aria-readonly": "true",
      "aria-label": `Index map: ${this.numSamples} samples in the order of the data set. Arrow keys choose a sample.`,
      style: `--pl-columns: ${this.numColumns}`,
    });
    this.cells = Array.from({ length: this.numSamples }, (_, sample) =>
      element("div", { id: `${this.prefix}-${sample}`, role: "gridcell", click: () => this.set("sample", sample) }));
    for (let start = 0; start < this.numSamples; start += this.numColumns) {
      const row = this.cells.slice(start, start + this.numColumns);
      this.grid.append(element("div", { role: "row", class: "pl-row" }, ...row));
    }
  }

  // What is shown
  show() {
    const map = this.map;
    this.cells.forEach((cell, sample) => this.paint(cell, sample, map));
    this.say(map.summary);
    this.ranks.value = this.worlds.indexOf(this.get("world_size"));
    this.epochs.value = this.get("epoch");
    this.policy.value = this.get("remainder");
    this.ranksText.textContent = `Ranks: ${this.get("world_size")}`;
    this.epochsText.textContent = `Epoch: ${this.get("epoch")}`;
    this.ranks.setAttribute("aria-valuetext", String(this.get("world_size")));
    this.fillTable();
    this.point();
    this.isReady();
  }
  paint(cell, sample, { owners, marks, sentences }) {
    const [who, paints] = [owners[sample], this.get("paints")];
    const colours = who.length ? paints[who[0][0] % paints.length] : { fill: "", text: "" };
    cell.className = `pl-sample${who.length ? "" : " pl-nobody"}${who.length > 1 ? " pl-again" : ""}`;
    cell.style.background = colours.fill;
    cell.style.color = colours.text;
    cell.setAttribute("aria-label", sentences[sample]);
    const number = element("span", { class: "pl-number", "aria-hidden": "true" }, String(sample));
    cell.replaceChildren(number, element("b", { "aria-hidden": "true" }, marks[sample]));
  }
  point() {
    const sample = this.get("sample");
    this.cells.forEach((cell, index) => cell.classList.toggle("pl-chosen", index === sample));
    this.grid.setAttribute("aria-activedescendant", this.cells[sample].id);
    this.info.textContent = this.map.sentences[sample];
  }
  tableView() {
    return tableOf("Samples of every rank and step", ["Rank", "Step", "Samples"], this.map.rows);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const sample = this.get("sample");
    const to = {
      ArrowLeft: sample - 1, ArrowRight: sample + 1, ArrowUp: sample - this.numColumns, ArrowDown: sample + this.numColumns,
      Home: 0, End: this.numSamples - 1,
    }[event.key];
    if (to === undefined) return;
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (event.target !== this.grid) return; // a slider's, the list's or the table's own
    event.preventDefault();
    if (to >= 0 && to < this.numSamples) this.set("sample", to);
  }
}

export default widgetOf(MapView);
