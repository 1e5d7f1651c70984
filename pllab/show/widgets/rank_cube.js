// The cube of ranks: a box for each rank, coloured and lettered by its group along the chosen axis. Words come from Python.

class RankCubeView extends View {
  constructor(context) {
    super(context, "rank-cube", "Ranks");
    this.prefix = uniqueName("rank");
    this.grid = element("div", { class: "pl-blocks", role: "grid", tabindex: 0, "aria-readonly": "true" });
    this.pictures = [this.grid];
    this.choice = element("select", { "aria-label": "Axis", change: () => this.choose("axis", this.choice.selectedIndex) });
    this.verdict = element("p", { class: "pl-verdict", "aria-live": "polite" });
    const tools = toolsOf("View", element("label", {}, "Axis ", this.choice), ...this.viewButtons);
    this.root.append(this.titleLine(), tools, this.grid, this.table, this.verdict, this.live);
    this.grid.addEventListener("keydown", this.safely(this.press));
    this.follow(["view"], this.showView);
    this.follow(["axis", "cell"], this.show);
    this.begin();
  }
  get axes() {
    return this.get("view").axes;
  }
  get ranks() {
    return this.get("view").ranks;
  }
  /** The group of a rank along an axis: its number, letter, kind and ranks. */
  groupOf(axis, rank) {
    const at = axis.groups.findIndex((group) => group.includes(rank));
    return { letter: axis.letters[at], kind: axis.kinds[at], ranks: axis.groups[at], isAcross: axis.across[at] };
  }
  placeOf(rank) {
    return this.axes.map(({ name }, at) => `${name} ${this.ranks[rank].place[at]}`).join(", ");
  }
  wordsOf(rank) {
    const axis = this.axes[this.get("axis")];
    const { letter, ranks, isAcross } = this.groupOf(axis, rank);
    const hosts = isAcross ? "across hosts" : `on host ${this.ranks[rank].host}`;
    return `rank ${rank} is ${this.placeOf(rank)}; its ${axis.name} group ${letter} has ranks ${ranks.join(", ")}, ${hosts}`;
  }

  // Drawing: a block for each outermost coordinate, in it a row for each middle one
  draw() {
    const [outer, rows, columns] = this.get("view").sizes;
    const blocks = Array.from({ length: outer }, (_, block) => {
      const lines = Array.from({ length: rows }, (_, row) => this.rowOf((block * rows + row) * columns, columns));
      const name = `${this.axes[0].name} ${block}`;
      return element("div", { class: "pl-block", role: "rowgroup", "aria-label": name }, ...lines);
    });
    this.grid.replaceChildren(...blocks);
    this.grid.setAttribute("aria-label", `Ranks, ${this.get("view").title}. Up and down choose an axis, left and right a rank.`);
  }
  rowOf(first, columns) {
    const cells = Array.from({ length: columns }, (_, column) => this.cellOf(first + column));
    return element("div", { class: "pl-row", role: "row" }, ...cells);
  }
  cellOf(rank) {
    const { letter, kind, isAcross } = this.groupOf(this.axes[this.get("axis")], rank);
    const style = `--fill: var(--look-${kind}); --line: var(--look-${kind}-line)`;
    return element(
      "div",
      {
        class: `pl-rank${isAcross ? " pl-across" : ""}`, role: "gridcell", id: `${this.prefix}-${rank}`, style,
        "aria-label": this.wordsOf(rank), click: () => this.choose("cell", rank),
      },
      element("strong", {}, rank),
      element("span", { class: "pl-letter" }, letter),
      element("span", { class: "pl-host" }, `host ${this.ranks[rank].host}`),
    );
  }

  // What is shown
  show() {
    const [axis, cell] = [this.get("axis"), this.get("cell")];
    this.draw();
    this.choice.selectedIndex = axis;
    const mine = this.groupOf(this.axes[axis], cell).ranks;
    this.grid.querySelectorAll(".pl-rank").forEach((node, rank) => {
      node.classList.toggle("pl-chosen", rank === cell);
      node.classList.toggle("pl-mate", mine.includes(rank));
    });
    this.grid.setAttribute("aria-activedescendant", `${this.prefix}-${cell}`);
    this.verdict.textContent = this.axes[axis].sentence;
    this.say(this.wordsOf(cell));
    this.markLine(cell, "pl-runs");
  }
  showView() {
    const view = this.get("view");
    this.title.textContent = view.title;
    this.summary.textContent = view.summary;
    this.choice.replaceChildren(...this.axes.map(({ name }) => element("option", {}, name)));
    this.fillTable();
    super.showView();
    this.isReady();
  }
  tableView() {
    const names = this.axes.map(({ name }) => name);
    const rows = this.ranks.map(({ place, host }, rank) => {
      const groups = this.axes.map((axis) => this.groupOf(axis, rank)).map(({ letter, ranks }) => `${letter}: ${ranks.join(", ")}`);
      return [String(rank), String(host), ...place.map(String), ...groups];
    });
    return tableOf(this.get("view").title, ["Rank", "Host", ...names, ...names.map((name) => `${name} group`)], rows);
  }

  choose(trait, to) {
    const count = trait === "axis" ? this.axes.length : this.ranks.length;
    this.set(trait, Math.min(count - 1, Math.max(0, to)));
  }
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [cell, axis] = [this.get("cell"), this.get("axis")];
    const moves = {
      ArrowLeft: ["cell", cell - 1], ArrowRight: ["cell", cell + 1], Home: ["cell", 0], End: ["cell", Infinity],
      ArrowUp: ["axis", axis - 1], ArrowDown: ["axis", axis + 1],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(...moves[event.key]);
  }
}

export default widgetOf(RankCubeView);
