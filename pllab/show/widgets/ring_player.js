// The ring player: ranks on a circle, and the messages of one step on their way. Moments and words come from Python.

/** Where things are, in pixels: the first rank at the top, the next ones clockwise. */
function ringGeometry(width, numRanks, numLines, isLarge) {
  const disc = Math.max(27, 9 * numLines);
  const wide = Math.max(105, disc * numRanks); // more ranks, a larger ring, so that messages fit between them
  const scale = Math.min(isLarge ? 1.6 : 1, width / (2 * (wide + disc) + 106));
  const [radius, node] = [wide * scale, disc * scale];
  const height = 2 * (radius + node) + 46 * scale;
  const angle = (rank) => (2 * Math.PI * rank) / numRanks - Math.PI / 2;
  const at = (rank, far = radius) => [width / 2 + far * Math.cos(angle(rank)), height / 2 + far * Math.sin(angle(rank))];
  return { width, height, radius, node, at, numRanks, font: 13 * scale };
}

/** A rank holds a number, or a line for each chunk. */
const linesOf = (held) => held.split("\n");

class RingView extends SteppedView {
  constructor(context) {
    super(context, "ring", "Ring", 1200);
    this.picture = element("div", { class: "pl-ring-picture", role: "group", tabindex: 0 });
    this.pictures = [this.picture];
    const tools = toolsOf("Player", this.back, this.play, this.forth, ...this.viewButtons);
    this.root.append(this.titleLine(), this.picture, this.table, this.live, tools);
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

  // Drawing
  draw() {
    const moment = this.moments[this.step];
    const g = ringGeometry(this.picture.clientWidth || 640, moment.held.length, linesOf(moment.held[0]).length, this.isLarge);
    const way = shape("circle", { class: "pl-ring-way", cx: g.width / 2, cy: g.height / 2, r: g.radius });
    const ranks = moment.held.map((held, rank) => this.rankOf(g, rank, held));
    const arrows = moment.hops.map((hop) => this.arrowOf(g, hop)); // all below the words, where they cross
    const hops = moment.hops.map((hop) => this.hopOf(g, hop));
    const drawn = { width: g.width, height: g.height, "font-size": g.font, role: "presentation" };
    this.picture.replaceChildren(shape("svg", drawn, way, ...arrows, ...hops, ...ranks));
  }
  rankOf(g, rank, held) {
    const [x, y] = g.at(rank);
    const [left, top] = g.at(rank, g.radius + g.node + 0.9 * g.font);
    const side = Math.sign(Math.round(left - g.width / 2)); // names beside the ring stand clear of it
    const lines = linesOf(held);
    const longest = Math.max(...lines.map((line) => line.length));
    const size = Math.min(1.15 * g.font, (1.6 * g.node) / (0.65 * longest), (1.5 * g.node) / (1.1 * lines.length));
    const line = (text, at) => {
      const down = 1.1 * size * (at - (lines.length - 1) / 2);
      return shape("text", { class: "pl-ring-held", x, y: y + down, "font-size": size }, text);
    };
    return shape(
      "g",
      { role: "img", "aria-label": `rank ${rank} holds ${lines.join(" ")}` },
      shape("circle", { class: "pl-ring-rank", cx: x, cy: y, r: g.node }),
      ...lines.map(line),
      shape("text", { class: "pl-ring-name", x: left + side * 1.1 * g.font, y: top }, `rank ${rank}`),
    );
  }
  wayOf(g, hop) {
    const [from, to] = [g.at(hop.source), g.at(hop.to)];
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    const [dx, dy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
    // Two ranks send to each other along one line: each message keeps to its own side of it.
    const aside = g.numRanks === 2 ? 0.55 * g.node : 0;
    const along = (far) => [from[0] + dx * far - dy * aside, from[1] + dy * far + dx * aside];
    return { length, dx, dy, along };
  }
  arrowOf(g, hop) {
    const { length, dx, dy, along } = this.wayOf(g, hop);
    const [begin, tip] = [along(g.node + 2), along(length - g.node - 4)];
    const neck = along(length - g.node - 4 - 0.8 * g.font);
    const side = 0.4 * g.font;
    const head = [tip, [neck[0] - dy * side, neck[1] + dx * side], [neck[0] + dy * side, neck[1] - dx * side]];
    return shape(
      "g",
      { "aria-hidden": "true" },
      shape("line", { class: "pl-ring-arrow", x1: begin[0], y1: begin[1], x2: neck[0], y2: neck[1] }),
      shape("polygon", { class: "pl-ring-head", points: head.map((point) => point.join(",")).join(" ") }),
    );
  }
  hopOf(g, hop) {
    const { length, along } = this.wayOf(g, hop);
    const apart = Math.abs(hop.source - hop.to);
    const isNext = apart === 1 || apart === g.numRanks - 1;
    const [mx, my] = along((isNext ? 0.45 : 0.3) * length); // long ways cross in the middle
    const [w, h] = [Math.max(1.9, 0.62 * hop.text.length + 0.9) * g.font, 1.6 * g.font];
    return shape(
      "g",
      { class: "pl-ring-hop", role: "img", "aria-label": `rank ${hop.source} sends ${hop.text} to rank ${hop.to}` },
      shape("rect", { class: "pl-ring-message", x: mx - w / 2, y: my - h / 2, width: w, height: h, rx: 3 }),
      shape("text", { class: "pl-ring-words", x: mx, y: my }, hop.text),
    );
  }

  // What is shown
  show() {
    if (!this.picture.hidden) this.draw();
    this.say(this.moments[this.step].sentence);
    this.showPlayer();
    this.markLine(this.step, "pl-runs");
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
    const headings = ["Step", "Messages", ...this.moments[0].held.map((_, rank) => `Rank ${rank} holds`)];
    const rows = this.moments.map(({ hops, held }, at) => {
      const sent = hops.map((hop) => `${hop.source} to ${hop.to}: ${hop.text}`).join("; ");
      return [at ? String(at) : "start", sent || "none", ...held];
    });
    return tableOf(this.get("view").title, headings, rows);
  }
}

export default widgetOf(RingView);
