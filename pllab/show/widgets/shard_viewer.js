// The shard viewer: a row of matrices for each rank; what a rank has is filled. Moments and words come from Python.

const SHARD_KINDS = { whole: "F", slice: "W", term: "B", sum: "C" };

/** Where the matrices stand, in pixels: one cell size for all, so that two matrices can be compared. */
function shardGeometry(width, matrices, isLarge) {
  const scale = isLarge ? 1.6 : 1;
  const [left, gap] = [58 * scale, 14 * scale];
  const columns = matrices.reduce((sum, { cells }) => sum + cells[0].length, 0);
  const cell = Math.max(11, Math.min(30 * scale, (width - left - gap * matrices.length) / columns));
  const rows = Math.max(...matrices.map(({ cells }) => cells.length));
  return { left, gap, cell, rows, font: 13 * scale, height: rows * cell + 30 * scale, above: 22 * scale };
}

class ShardView extends SteppedView {
  constructor(context) {
    super(context, "shards", "Shards", 1600);
    this.picture = element("div", { class: "pl-shards-picture", role: "group", tabindex: 0 });
    this.pictures = [this.picture];
    const tools = toolsOf("Player", this.back, this.play, this.forth, ...this.viewButtons);
    this.root.append(this.titleLine(), this.picture, this.table, this.live, this.keyLine(), tools);
    this.listenToKeys(this.picture);
    this.follow(["step"], this.show);
    this.follow(["view"], this.showView);
    this.followWidth(this.picture, this.show);
    this.begin();
  }
  get moments() {
    return this.get("view").moments;
  }
  get last() {
    return this.moments.length - 1;
  }
  /** What the fills mean, in words. */
  keyLine() {
    const words = { whole: "whole on every rank", slice: "a slice", term: "a term of the sum", sum: "the sum of all ranks" };
    const keys = Object.entries(words).map(([has, text]) => element("span", { class: `pl-shards-key pl-shards-${has}` }, text));
    return element("p", { class: "pl-shards-keys" }, ...keys);
  }

  // Drawing
  draw() {
    const { ranks } = this.moments[this.step];
    const g = shardGeometry(this.picture.clientWidth || 640, ranks[0], this.isLarge);
    const rows = ranks.map((matrices, rank) => this.rankOf(g, rank, matrices));
    const width = rows[0].width;
    const drawn = { width, height: g.height * ranks.length, "font-size": g.font, role: "presentation" };
    this.picture.replaceChildren(shape("svg", drawn, ...rows.map(({ node }) => node)));
  }
  rankOf(g, rank, matrices) {
    const top = rank * g.height + g.above;
    const name = shape("text", { class: "pl-shards-rank", x: 0, y: top + (g.rows * g.cell) / 2 }, `rank ${rank}`);
    let left = g.left;
    const parts = matrices.map((matrix) => {
      const part = this.matrixOf(g, rank, matrix, left, top);
      left += matrix.cells[0].length * g.cell + g.gap;
      return part;
    });
    return { node: shape("g", {}, name, ...parts), width: left };
  }
  matrixOf(g, rank, matrix, left, top) {
    const cells = matrix.cells.flatMap((row, i) => row.map((text, k) => this.cellOf(g, text, left + k * g.cell, top + i * g.cell)));
    const size = { width: matrix.cells[0].length * g.cell, height: matrix.cells.length * g.cell };
    const frame = shape("rect", { class: "pl-shards-new", x: left - 2, y: top - 2, width: size.width + 4, height: size.height + 4 });
    return shape(
      "g",
      { class: `pl-shards-matrix pl-shards-${matrix.has || "away"}`, role: "img", "aria-label": this.wordsOf(rank, matrix) },
      shape("text", { class: "pl-shards-name", x: left, y: top - 9 }, matrix.name),
      ...cells,
      ...(matrix.new ? [frame] : []),
    );
  }
  cellOf(g, text, x, y) {
    const box = shape("rect", { class: text ? "pl-shards-cell" : "pl-shards-empty", x: x + 0.5, y: y + 0.5, width: g.cell - 1, height: g.cell - 1 });
    const size = Math.min(g.font, (0.9 * g.cell) / (0.62 * Math.max(2, text.length)));
    const words = shape("text", { class: "pl-shards-number", x: x + g.cell / 2, y: y + g.cell / 2, "font-size": size }, text);
    return shape("g", { "aria-hidden": "true" }, box, words);
  }
  /** A matrix in words: `rank 0, y: a term, 3 4; 1 2`. */
  wordsOf(rank, { name, has, cells }) {
    const kind = { "": "not made yet", whole: "whole", slice: "a slice", term: "a term", sum: "the sum" }[has];
    return `rank ${rank}, ${name}: ${kind}${has ? `, ${this.numbersOf(cells)}` : ""}`;
  }
  /** Rows of numbers as text, an empty place as a dash. */
  numbersOf(cells) {
    return cells.map((row) => row.map((text) => text || "–").join(" ")).join("; ");
  }

  // What is shown
  show() {
    if (!this.picture.hidden) this.draw();
    else this.fillTable();
    this.say(this.moments[this.step].sentence);
    this.showPlayer();
  }
  showView() {
    const view = this.get("view");
    this.title.textContent = view.title;
    this.summary.textContent = view.summary;
    this.picture.setAttribute("aria-label", `${view.title}. Left and right step, space plays.`);
    this.fillTable();
    super.showView();
    this.isReady();
  }
  tableView() {
    const { ranks } = this.moments[this.step];
    const headings = ["Matrix", ...ranks.map((_, rank) => `Rank ${rank} has`)];
    const rows = ranks[0].map(({ name }, at) => [name, ...ranks.map((matrices) => {
      const { has, cells } = matrices[at];
      return has ? `${has}: ${this.numbersOf(cells)}` : "not made yet";
    })]);
    return tableOf(`${this.get("view").title}, step ${this.step}`, headings, rows);
  }
}

export default widgetOf(ShardView);
