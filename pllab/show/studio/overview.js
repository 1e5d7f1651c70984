// All families at the present sizes as points, bubble against memory or time against memory; a click loads one.

class Overview {
  constructor(studio) {
    this.studio = studio;
    this.points = new Map(); // family -> its run, without actions
    this.asking = null;
    this.byTime = false;
    this.swap = buttonOf("", () => this.turn(), { class: "pl-swap" });
    this.chart = shape("svg", { role: "group", "aria-label": "All families" });
    this.legend = element("div", { class: "pl-legend" });
    this.strip = element("div", { class: "pl-strip" });
    this.keys = element("p", { class: "pl-keys" });
    this.keys.innerHTML = "<b>1</b>\u2013<b>5</b> tour \u00b7 <b>arrows</b> follow \u00b7 <b>b</b> barrier \u00b7 <b>s</b> shades \u00b7 <b>f</b> full screen";
    this.node = element("aside", { class: "pl-rail", "aria-label": "Overview" }, element("strong", {}, "All families, simulated"), this.swap, this.chart, this.legend, this.keys, this.strip);
  }
  turn() {
    this.byTime = !this.byTime;
    this.draw();
  }

  // Asking: one family at a time, so that an input never waits for long
  ask() {
    const { studio } = this;
    this.points = new Map(studio.families.map(({ name }) => [name, studio.known(studio.settingNow({ family: name, compare: "" }))]).filter(([, run]) => run));
    for (const run of studio.runs) if (!run.is_measured) this.points.set(run.name, run);
    this.asking = studio.families.filter(({ name, is_searched }) => !is_searched && !this.points.has(name)).map(({ name }) => name);
    this.next();
  }
  next() {
    const name = this.asking?.shift();
    if (name) this.studio.model.send({ about: this.studio.settingNow({ family: name, compare: "" }) });
  }
  hear({ about, run }) {
    const { family } = JSON.parse(about);
    if (about !== this.studio.settingNow({ family, compare: "" })) return; // of an earlier setting
    this.studio.keepKnown(about, run);
    if (run) this.points.set(family, run);
    this.next();
    this.draw();
  }

  // Drawing, once the plots are painted: it is read after them
  drawSoon() {
    cancelAnimationFrame(this.soon);
    this.soon = requestAnimationFrame(() => setTimeout(this.studio.safely(() => this.draw())));
  }
  draw() {
    const { studio } = this;
    if (!studio.paints || !studio.root.isConnected) return;
    this.swap.textContent = this.byTime ? "step time against memory" : "bubble against memory";
    this.swap.title = `show ${this.byTime ? "the bubble" : "the step time"} instead`;
    const points = [...this.points].map(([name, run]) => {
      const measure = studio.measureOf(run);
      return { name, run, x: Math.max(...run.most_held), y: this.byTime ? measure.length_s : measure.bubble_fraction, share: measure.bubble_fraction };
    });
    this.drawStrip(points);
    const box = this.chart.getBoundingClientRect();
    if (box.width > 40 && box.height > 60 && points.length) this.drawChart(points, box.width, box.height);
    this.drawLegend();
  }
  roleOf(name) {
    return name === this.studio.get("family") ? "pl-on" : name === this.studio.get("compare") ? "pl-vs" : "";
  }
  /** Whose name is placed first: those on screen, then those of the tour. */
  rankOf(name) {
    const role = this.roleOf(name);
    return { role, first: role ? 0 : this.studio.options.tour.includes(name) ? 1 : 2 };
  }
  load(name, event) {
    const { studio } = this;
    if (event.shiftKey) studio.load({ compare: name }, event);
    else studio.load({ family: name }, event);
  }
  drawStrip(points) {
    const first = [...points].sort((one, other) => this.rankOf(one.name).first - this.rankOf(other.name).first).slice(0, 6);
    this.strip.replaceChildren(...points.filter((point) => first.includes(point)).map(({ name, x, share }) =>
      element("button", { type: "button", class: this.roleOf(name), click: (event) => this.load(name, event) }, shortOf(name), element("small", {}, `${writePercent(share)}, holds ${writeCount(x)}`))));
  }
  drawChart(points, width, height) {
    const em = parseFloat(getComputedStyle(this.chart).fontSize);
    const limit = this.studio.get("memory_limit");
    const [left, right, top, bottom] = [em * (this.byTime ? 3.8 : 2.7), width - 10, em * 0.9, height - em * 2.6];
    const [mostX, mostY] = [1.15 * Math.max(1, limit ?? 0, ...points.map(({ x }) => x)), 1.12 * Math.max(this.byTime ? 1e-9 : 0.1, ...points.map(({ y }) => y))];
    const at = { x: (held) => left + (held / mostX) * (right - left), y: (value) => bottom - (value / mostY) * (bottom - top) };
    const frame = { em, left, right, top, bottom, mostX, mostY, limit };
    this.chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const focused = this.chart.querySelector(":focus")?.dataset.family;
    this.chart.replaceChildren(...this.axes(at, frame), ...placeNames(points, at, frame, (name) => this.rankOf(name)).reverse().map((point) => this.pointOf(point))); // those on screen lie above
    const again = focused && this.chart.querySelector(`[data-family="${focused}"]`);
    if (again) this.stopAt(again, { preventScroll: true });
  }
  axes(at, { em, left, right, top, bottom, mostX, mostY, limit }) {
    const parts = [];
    const text = (words, x, y, anchor, more = {}) => parts.push(shape("text", { x, y, "text-anchor": anchor, ...more }, words));
    const [stepX, stepY] = [roundStep(mostX, 5), roundStep(mostY, 5)];
    for (let n = 0; n * stepY <= mostY; n += 1) {
      parts.push(shape("line", { class: "pl-grid", x1: left, x2: right, y1: at.y(n * stepY), y2: at.y(n * stepY) }));
      text(this.byTime ? writeSeconds(n * stepY) : `${Math.round(n * stepY * 100)} %`, left - 5, at.y(n * stepY) + em * 0.33, "end");
    }
    for (let n = 0; n * stepX <= mostX; n += 1) {
      if (limit === null || Math.abs(at.x(n * stepX) - at.x(limit)) > em * 1.4) text(writeCount(n * stepX), at.x(n * stepX), bottom + em * 1.15, "middle");
    }
    text("holds at most, micro-batches", right, bottom + em * 2.3, "end");
    if (limit === null) return parts;
    parts.unshift(shape("rect", { class: "pl-beyond", x: at.x(limit), y: top, width: Math.max(0, right - at.x(limit)), height: bottom - top }));
    parts.push(shape("line", { class: "pl-limit", x1: at.x(limit), x2: at.x(limit), y1: top, y2: bottom }));
    text(writeCount(limit), at.x(limit), bottom + em * 1.15, "middle", { class: "pl-red" });
    return parts;
  }
  pointOf({ name, x, y, run, share, label, role }) {
    const pick = (event) => this.load(name, event);
    const press = (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), event.stopPropagation(), pick(event));
    const words = `${name}: bubble fraction ${writePercent(share)}, ${writeSeconds(this.studio.measureOf(run).length_s)}, holds ${writeCount(Math.max(...run.most_held))}`;
    const isStop = name === this.studio.get("family") || (!this.points.has(this.studio.get("family")) && name === this.points.keys().next().value);
    return shape(
      "g", { class: `pl-point ${role}`, role: "button", tabindex: isStop ? 0 : -1, "aria-label": words, "data-family": name, click: pick, keydown: (event) => this.walk(event) || press(event) },
      shape("title", {}, words), shape("circle", { class: "pl-hit", cx: x, cy: y, r: 13 }),
      shape("circle", { class: "pl-dot", cx: x, cy: y, r: role ? 6 : 4.5 }), ...(label ? [shape("text", { x: label.x, y: label.y, "text-anchor": label.anchor }, shortOf(name))] : []),
    );
  }
  /** Arrow keys go from point to point. */
  walk(event) {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!by) return false;
    const all = [...this.chart.querySelectorAll(".pl-point")];
    this.stopAt(all[(all.indexOf(event.currentTarget) + by + all.length) % all.length]);
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
  /** The focus goes to a point, and Tab comes back to it. */
  stopAt(point, how) {
    for (const one of this.chart.querySelectorAll(".pl-point")) one.setAttribute("tabindex", one === point ? 0 : -1);
    point.focus(how);
  }
  drawLegend() {
    const { runs, paints, theme } = this.studio;
    const kinds = [...KINDS].map((_, kind) => kind).filter((kind) => runs.some(({ actions }) => actions.kind.includes(kind)));
    const later = runs.some((run) => run.staged);
    const swatches = kinds.map((kind) => swatchOf(paints.fill(kind, false), paints.outline(kind), KINDS[kind], theme.names[KINDS[kind]], kind));
    const stage = later ? [swatchOf(paints.fill(F, true), paints.outline(F), "", "later stage of a rank, pale", F)] : [];
    this.legend.replaceChildren(...swatches, swatchOf(paints.look.idle, paints.look.idle, "", "idle: the bubble", null), ...stage);
  }
}

function swatchOf(fill, outline, letter, words, kind) {
  const bar = kind === F ? "border-top-width:3px" : kind === B || kind === I ? "border-bottom-width:3px" : "";
  return element("span", {}, element("i", { style: `background:${fill};border-color:${outline};${bar}` }, letter), words);
}

/** A name as short as it is still understood. */
const shortOf = (name) => name.replace(/^interleaved 1F1B$/, "interleaved");

/** A place for each name where no other name, point or limit is in the way; where there is none, the point stands alone. */
function placeNames(points, at, { em, left, right, top, bottom, limit }, rankOf) {
  const placed = points.map((point) => ({ ...point, x: at.x(point.x), y: at.y(point.y), ...rankOf(point.name) }));
  const taken = placed.map(({ name, x, y }) => ({ name, from: x - 6, to: x + 6, y }));
  const line = limit === null ? -1 : at.x(limit);
  const isFree = (spot, name, wide) => spot.from >= left - 2 && spot.from + wide <= right + 8 && spot.y > top - 4 && spot.y < bottom - 2 &&
    !taken.some((other) => other.name !== name && spot.from < other.to && spot.from + wide > other.from && Math.abs(spot.y - other.y) < em * 0.95);
  for (const point of placed.sort((one, other) => one.first - other.first)) {
    const wide = shortOf(point.name).length * em * (point.role ? 0.56 : 0.5);
    const free = spotsFor(point, wide, em).filter((spot) => isFree(spot, point.name, wide));
    const spot = free.find((one) => one.from > line || one.from + wide < line) ?? free[0];
    if (!spot) continue;
    taken.push({ name: "", from: spot.from, to: spot.from + wide, y: spot.y });
    point.label = { x: spot.dx > 0 ? spot.from : spot.dx < 0 ? spot.from + wide : point.x, y: spot.y + em * 0.33, anchor: spot.dx > 0 ? "start" : spot.dx < 0 ? "end" : "middle" };
  }
  return placed;
}

/** Where a name may stand: beside its point, above or below it. */
function spotsFor({ x, y, role }, wide, em) {
  const off = role ? 11 : 8;
  return [[1, 0], [-1, 0], [0, -1.15], [0, 1.25], [1, -0.8], [-1, -0.8], [1, 0.9], [-1, 0.9], [0, -2], [0, 2.1]].map(([dx, dy]) => ({
    dx, from: dx > 0 ? x + off : dx < 0 ? x - off - wide : x - wide / 2, y: y + dy * em,
  }));
}
