// The timeline player: draws the spans, moves the cursor; buttons and keys step, space plays. Words and frames come from
// Python.

const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

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
    super(context, "player");
    this.pattern = uniqueName("player-idle"); // of idle time, in the grid and in the legend
    this.run = this.get("view");
    this.spans = this.run.spans;
    this.frames = this.run.frames;
    this.numRanks = this.run.num_ranks;
    this.hasWire = this.spans.some((span) => span.kind === "C");
    this.total = this.frames[this.last].time || 1;
    this.shown = null; // the time under the cursor between two frames while playing
    this.stopPlaying = null;
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
    const name = `Timeline: ${this.run.title}. Arrow keys step, space plays.`;
    this.grid = element("div", { class: "pl-grid", role: "grid", tabindex: 0, "aria-readonly": "true", "aria-label": name });
    this.title.textContent = this.run.title;
    this.summary.textContent = this.run.summary;
    const tools = toolsOf("Player", this.back, this.play, this.forth, this.slider, this.projector);
    this.root.append(this.titleLine(), this.grid, this.live, tools, this.legend());
  }
  slab(box) {
    return shape("rect", { ...box, fill: `url(#${this.pattern})` });
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
    this.boxes = this.spans.map((span) => this.boxOf(span, x));
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
    this.grid.replaceChildren(shape("svg", attributes, idlePattern(this.pattern), ...rows, extras));
    this.reserveWords();
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
  /** Give the spoken line the room that its longest sentence takes, so that nothing moves when another is said. */
  reserveWords() {
    const line = this.live;
    line.style.minHeight = "";
    const longest = this.frames.map(({ sentence }) => sentence).sort((one, other) => other.length - one.length).slice(0, 3);
    const heights = longest.map((sentence) => ((line.textContent = sentence), line.offsetHeight));
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
  boxOf(span, x) {
    const [y, height] = this.bandOf(span.rank, span.kind);
    const left = x(span.start);
    const width = Math.max(1, x(span.end) - left);
    const cell = shape("g", { role: "gridcell" }, shape("title", {}, sentenceOf(span)));
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
    this.play.textContent = this.stopPlaying ? "Pause" : "Play";
    this.keepKeys();
  }
  showView() {
    super.showView();
    if (this.grid.clientWidth) this.draw(this.grid.clientWidth);
  }

  // Playing
  go(to) {
    this.set("step", Math.min(this.last, Math.max(0, to)));
  }
  seek(to) {
    this.pause();
    this.go(to);
  }
  toggle() {
    if (this.stopPlaying) this.pause();
    else this.start();
  }
  start() {
    if (this.step === this.last) this.go(0);
    this.live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    this.stopPlaying = playThrough(this.frame.time, this.frames.map(({ time }) => time), (time) => this.playTo(time));
    this.show();
  }
  playTo(time) {
    this.shown = time;
    const next = this.frameAt(time);
    if (next !== this.step) this.go(next);
    else this.show();
    if (next === this.last) this.pause();
  }
  pause() {
    this.stop();
    this.live.setAttribute("aria-live", "polite");
    this.show();
  }
  stop() {
    this.stopPlaying?.();
    this.stopPlaying = this.shown = null;
  }
  frameAt(time) {
    let at = 0;
    while (at < this.last && this.frames[at + 1].time <= time) at += 1;
    return at;
  }

  // Mouse and keys
  pick(event) {
    const [g, box] = [this.geometry, this.grid.firstChild.getBoundingClientRect()];
    this.seek(this.frameAt(((event.clientX - box.left - g.left) / g.inner) * this.total));
  }
  press(event) {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || !(key === " " || key in MOVES)) return;
    if (target.tagName === "BUTTON" && key === " ") return; // the button's own
    if (target === this.slider && key !== " ") return; // the slider's own
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (key === " ") this.toggle();
    else this.seek(this.step + MOVES[key]);
  }
}

export default widgetOf(PlayerView);
