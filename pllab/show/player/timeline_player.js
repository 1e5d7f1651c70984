// The timeline player: draws the spans, moves the cursor; buttons and keys step, space plays. Words and frames come from
// Python.

const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const JUMP_MS = 900; // from frame to frame, where motion is unwanted

/** Sizes in pixels for a width and a reading distance; from afar the rows share a height, and many of them scroll. */
function geometryOf(width, height, numRanks, hasWire) {
  const scale = height ? 1.6 * growth() : 1;
  const row = height ? Math.max(20, Math.min(120 * growth(), (height - 26 * scale) / numRanks)) : hasWire ? 48 : 38;
  const left = 74 * scale;
  const inner = Math.max(40, width - left - 14 * scale);
  return { scale, row, left, font: 13 * scale, inner, width, bottom: numRanks * row, height: numRanks * row + 26 * scale };
}

function sentenceOf(span) {
  return `${span.text} (${span.name}) on rank ${span.rank}: ${span.from} to ${span.to}, ${span.lasts}`;
}

class PlayerView extends View {
  constructor(context) {
    super(context, "player", "Timeline");
    this.prefix = uniqueName("player");
    this.run = this.get("view");
    this.spans = this.run.spans;
    this.frames = this.run.frames;
    this.numRanks = this.run.num_ranks;
    this.hasWire = this.spans.some((span) => span.kind === "C");
    this.total = this.frames[this.last].time || 1;
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.rank = 0; // the row whose action is spelled out
    this.shown = null; // the time under the cursor between two frames while playing
    this.timer = 0;
    this.boxes = [];
    this.addParts();
    this.stops.push(() => this.stop());
    this.root.addEventListener("keydown", this.safely(this.press));
    this.follow(["step"], this.show);
    this.followWidth(this.grid, this.draw);
    this.begin();
  }
  get last() {
    return this.frames.length - 1;
  }
  get step() {
    return Math.min(this.last, this.get("step"));
  }
  get frame() {
    return this.frames[this.step];
  }
  addParts() {
    this.back = buttonOf("Step back", () => this.seek(this.step - 1));
    this.play = buttonOf("", () => this.toggle(), { class: "pl-play" });
    this.forth = buttonOf("Step forward", () => this.seek(this.step + 1));
    const seek = () => this.seek(Number(this.slider.value));
    this.slider = element("input", { type: "range", min: 0, max: this.last, step: 1, "aria-label": "Time", input: seek });
    const name = `Timeline: ${this.run.title}. Arrow keys step, space plays, up and down choose a rank.`;
    this.grid = element("div", { class: "pl-grid", role: "grid", tabindex: 0, "aria-readonly": "true", "aria-label": name });
    this.info = element("p", { class: "pl-info" });
    this.pictures = [this.grid, this.info];
    this.title.textContent = this.run.title;
    this.summary.textContent = this.run.summary;
    const tools = toolsOf("Player", this.back, this.play, this.forth, this.slider, ...this.viewButtons);
    this.root.append(this.patterns(), this.titleLine(), this.grid, this.live, this.info, this.table, tools, this.legend());
  }
  /** The slab of idle time, apart from the grid, which is hidden while the table is shown. */
  patterns() {
    return shape("svg", { class: "pl-patterns", width: 0, height: 0, "aria-hidden": "true" }, idlePattern(`${this.prefix}-idle`));
  }
  slab(box) {
    return shape("rect", { ...box, fill: `url(#${this.prefix}-idle)` });
  }
  legend() {
    const swatch = { x: 0, y: 0, width: 22, height: 15 };
    const keyOf = (shapes, words) =>
      element("span", { class: "pl-key" }, shape("svg", { width: 22, height: 15, "aria-hidden": "true" }, ...shapes), ` ${words}`);
    const kinds = [...new Set(this.spans.map((span) => span.kind))];
    const keys = kinds.map((kind) => keyOf(workShapes(kind, false, swatch), `${kind} ${this.nameOf(kind)}`));
    const later = this.spans.find((span) => span.is_later);
    if (later) keys.push(keyOf(workShapes(later.kind, true, swatch), "later stage of its rank"));
    return element("p", { class: "pl-legend" }, ...keys, keyOf([this.slab(swatch)], "idle"));
  }
  nameOf(kind) {
    return this.theme.names[kind] ?? "illegal";
  }

  // Drawing
  draw(width) {
    const g = (this.geometry = geometryOf(width, this.isLarge && this.grid.clientHeight - 6, this.numRanks, this.hasWire));
    const x = (time) => g.left + (time / this.total) * g.inner;
    this.boxes = this.spans.map((span, index) => this.boxOf(span, index, x));
    const rows = Array.from({ length: this.numRanks }, (_, rank) => this.rowOf(rank));
    const ticks = this.run.ticks.flatMap(({ at, text }) => [
      shape("path", { class: "pl-axis", d: `M${x(at)} ${g.bottom}v5` }),
      shape("text", { class: "pl-axis-text", x: x(at), y: g.bottom + 20 * g.scale, "text-anchor": "middle" }, text),
    ]);
    this.cursor = shape("path", { class: "pl-cursor", d: `M0 0V${g.bottom + 4}` });
    const axis = shape("path", { class: "pl-axis", d: `M${g.left} ${g.bottom}h${g.inner}` });
    const pick = (event) => this.pick(event);
    const attributes = { width, height: g.height, "font-size": g.font, role: "presentation", click: pick };
    const extras = shape("g", { "aria-hidden": "true" }, axis, ...ticks, this.cursor);
    this.grid.replaceChildren(shape("svg", attributes, ...rows, extras));
    this.reserve(this.live, this.frames.map(({ sentence }) => sentence));
    this.reserve(this.info, this.spans.map(sentenceOf));
    this.show();
    this.isReady();
  }
  /** Top and height of a box within its row: communication has a strip below the work. */
  bandOf(rank, kind) {
    const { row } = this.geometry;
    const [top, full] = [rank * row + row * 0.1, row * 0.8];
    if (!this.hasWire) return [top, full];
    return kind === "C" ? [top + full * 0.62, full * 0.38] : [top, full * 0.62];
  }
  /** Give a line the room that the longest of its sentences takes, so that nothing moves when another is said. */
  reserve(line, sentences) {
    const now = line.textContent;
    line.style.minHeight = "";
    const longest = [...sentences].sort((one, other) => other.length - one.length).slice(0, 3);
    const heights = longest.map((sentence) => ((line.textContent = sentence), line.offsetHeight));
    line.textContent = now;
    line.style.minHeight = `${Math.max(...heights)}px`;
  }
  rowOf(rank) {
    const g = this.geometry;
    const [top, height] = this.bandOf(rank, "");
    const [label, y] = [`rank ${rank}`, (rank + 0.5) * g.row];
    return shape(
      "g",
      { role: "row", "aria-label": label },
      shape("text", { class: "pl-rank", role: "rowheader", x: g.left - 10, y, "text-anchor": "end" }, label),
      this.slab({ x: g.left, y: top, width: g.inner, height }),
      ...this.run.gaps.filter((gap) => gap.rank === rank).flatMap((gap) => this.gapWords(gap, top + height / 2)),
      ...this.boxes.filter((_, index) => this.spans[index].rank === rank),
    );
  }
  /** How long a rank idles, where its slab has room for it. */
  gapWords({ start, end, lasts }, y) {
    const { inner, left, font } = this.geometry;
    const width = ((end - start) / this.total) * inner;
    const text = [`idle ${lasts}`, lasts].find((words) => words.length * font * 0.52 + 8 <= width);
    const at = { x: left + ((start + end) / 2 / this.total) * inner, y, "font-size": font * 0.88, "text-anchor": "middle" };
    return text ? [shape("text", { class: "pl-gap", ...at, "aria-hidden": "true" }, text)] : [];
  }
  boxOf(span, index, x) {
    const [y, height] = this.bandOf(span.rank, span.kind);
    const left = x(span.start);
    const width = Math.max(1, x(span.end) - left);
    const hover = { mouseenter: () => this.tell(span), mouseleave: () => this.tell(null) };
    const cell = shape("g", { id: `${this.prefix}-${index}`, role: "gridcell", "aria-label": sentenceOf(span), ...hover });
    cell.append(...workShapes(span.kind, span.is_later, { x: left, y, width, height }));
    cell.append(...this.labelOf(span, { x: left + width / 2, y: y + height / 2, width, height }));
    return cell;
  }
  /** The longest form of a label that its box has room for. */
  labelOf(span, { x, y, width, height }) {
    const { font } = this.geometry;
    const size = span.kind === "C" ? Math.max(11, font * 0.8) : font;
    const { lines, scale } = labelThatFits(span.text, width, height, size, this.run.digits);
    const at = { class: "pl-label", x, "font-size": size * scale, "text-anchor": "middle", "aria-hidden": "true" };
    const rise = lines.length > 1 ? size * 0.4 : 0;
    return lines.map((line, row) => shape("text", { ...at, y: y + (row ? rise : -rise) }, line));
  }

  // What is shown at the present step
  show() {
    const { running, sentence, time } = this.frame;
    const runs = new Set(running);
    this.boxes.forEach((box, index) => box.classList.toggle("pl-running", runs.has(index)));
    const g = this.geometry;
    this.cursor?.setAttribute("transform", `translate(${g.left + ((this.shown ?? time) / this.total) * g.inner} 0)`);
    this.say(sentence);
    this.slider.value = this.step;
    this.slider.setAttribute("aria-valuetext", sentence);
    this.back.disabled = this.step === 0;
    this.forth.disabled = this.step === this.last;
    this.play.textContent = this.timer ? "Pause" : "Play";
    this.keepKeys();
    const lines = [...this.table.querySelectorAll("tbody tr")];
    lines.forEach((line, index) => line.classList.toggle("pl-running", runs.has(index)));
    if (running.length && lines.length) this.table.scrollTop = lines[running[0]].offsetTop - this.table.clientHeight / 2;
    this.tell(null);
  }
  /** Spell out an action: the one under the mouse, else the one the chosen rank runs now. */
  tell(span) {
    const current = this.frame.running.find((index) => this.spans[index].rank === this.rank);
    if (current === undefined) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", `${this.prefix}-${current}`);
    this.boxes.forEach((box, index) => box.classList.toggle("pl-chosen", index === current));
    const spoken = span ?? this.spans[current];
    this.info.textContent = spoken ? sentenceOf(spoken) : `rank ${this.rank} is idle`;
  }
  showView() {
    if (!this.table.firstChild) this.fillTable(); // made once: it may have hundreds of lines
    super.showView();
    if (!this.grid.hidden && this.grid.clientWidth) this.draw(this.grid.clientWidth);
  }
  tableView() {
    const rows = this.spans.map((span) => [`rank ${span.rank}`, `${span.text} ${span.name}`, span.from, span.to, span.lasts]);
    const headings = ["Rank", "Action", "Start", "End", "Duration"];
    return tableOf(`${this.spans.length} actions in order of start`, headings, rows);
  }

  // Playing: the whole run in 5 to 30 seconds, smoothly, or in jumps where motion is unwanted
  go(to) {
    this.set("step", Math.min(this.last, Math.max(0, to)));
  }
  seek(to) {
    this.pause();
    this.go(to);
  }
  toggle() {
    if (this.timer) this.pause();
    else this.start();
  }
  start() {
    if (this.step === this.last) this.go(0);
    this.live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    if (this.still.matches) this.jumpLater();
    else this.glide();
    this.show();
  }
  jumpLater() {
    this.timer = setTimeout(() => {
      this.go(this.step + 1);
      if (this.step === this.last) this.pause();
      else this.jumpLater();
    }, JUMP_MS);
  }
  glide() {
    const length = Math.min(30, Math.max(5, this.frames.length * 0.4)) * 1000;
    const begin = performance.now() - (this.frame.time / this.total) * length;
    const move = (now) => {
      this.shown = Math.max(this.frame.time, Math.min(this.total, ((now - begin) / length) * this.total));
      const next = this.frameAt(this.shown);
      if (next !== this.step) this.go(next);
      else this.show();
      if (next === this.last) this.pause();
      else this.timer = requestAnimationFrame(move);
    };
    this.timer = requestAnimationFrame(move);
  }
  pause() {
    this.stop();
    this.live.setAttribute("aria-live", "polite");
    this.show();
  }
  stop() {
    cancelAnimationFrame(this.timer);
    clearTimeout(this.timer);
    this.timer = 0;
    this.shown = null;
  }
  frameAt(time) {
    let at = 0;
    while (at < this.last && this.frames[at + 1].time <= time) at += 1;
    return at;
  }

  // Mouse and keys
  choose(rank) {
    this.rank = Math.min(this.numRanks - 1, Math.max(0, rank));
  }
  pick(event) {
    const [g, box] = [this.geometry, this.grid.firstChild.getBoundingClientRect()];
    this.choose(Math.floor((event.clientY - box.top) / g.row));
    this.seek(this.frameAt(((event.clientX - box.left - g.left) / g.inner) * this.total));
  }
  press(event) {
    const rows = { ArrowUp: -1, ArrowDown: 1 };
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || !(key === " " || key in MOVES || key in rows)) return;
    if (target.tagName === "BUTTON" && key === " ") return; // the button's own
    if (target === this.slider && key !== " ") return; // the slider's own
    if (target === this.table && !this.table.hidden && key !== " ") return; // scrolling
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (key === " ") this.toggle();
    else if (key in MOVES) this.seek(this.step + MOVES[key]);
    else {
      this.choose(this.rank + rows[key]);
      this.tell(null);
    }
  }
}

export default widgetOf(PlayerView);
