// The schedule editor: blocks that are dragged or moved by keys. Python works out the outcome of a move.

const GUIDE = "Drag a block along its rank. Keys: arrows choose a block; Alt+Left or Right moves it one place; S splits a B " +
  "or merges I and W; Ctrl+Z and Ctrl+Y undo and redo.";
const LEAST = 10; // pixels of a block: a digit below its letter
const [GAPS, WORDS] = [60, 300]; // pixels above and below the ranks on a projector; words grow
const ASKED = { // what a button asks Python for, and its text
  undo: "Undo", redo: "Redo", reset: "Reset", clear: "Empty the board", split_all: "Split every B", run: "Run it",
};
const SWATCHES = { later: "later stage of its rank", critical: "critical path", idle: "idle", held: "micro-batches held", limit: "memory limit" };
const KEYS = { // on a block
  ArrowLeft: (view) => view.step(-1), ArrowRight: (view) => view.step(1), Home: (view) => view.step(-Infinity), End: (view) => view.step(Infinity),
  ArrowUp: (view) => view.climb(-1), ArrowDown: (view) => view.climb(1), s: (view) => view.splitOrMerge(),
  "Alt+ArrowLeft": (view) => view.send("move", { id: view.current, by: -1 }),
  "Alt+ArrowRight": (view) => view.send("move", { id: view.current, by: 1 }),
};
const KEYS_OF_ALL = { "Ctrl+z": "undo", "Ctrl+Z": "redo", "Ctrl+y": "redo" }; // from buttons too

class EditorView extends View {
  constructor(context) {
    super(context, "editor");
    this.help = element("p", { class: "pl-help", id: uniqueName("editor") }, GUIDE);
    this.nodes = new Map(); // the block of each action, kept so that it can glide to its new place
    this.current = this.get("view").focus; // the block that Tab reaches
    this.addBoard();
    this.addButtons();
    this.addWords();
    this.lay();
    this.listenToEvents();
    this.follow(["view"], this.show);
    this.followWidth(this.board, this.show);
    this.stops.push(() => this.drag.end(false));
    this.begin();
    this.isReady();
  }
  send(verb, details = {}) {
    this.model.send({ verb, ...details });
  }

  // Parts
  addBoard() {
    this.grid = element("div", { class: "pl-rows", role: "grid", "aria-label": "Schedule: a row for each rank", "aria-describedby": this.help.id });
    this.edges = shape("svg", { class: "pl-edges", "aria-hidden": "true" });
    this.marks = element("div", { class: "pl-marks", "aria-hidden": "true" });
    this.ticks = element("div", { class: "pl-axis", "aria-hidden": "true" });
    this.board = element("div", { class: "pl-board" }, element("div", { class: "pl-canvas" }, this.grid, this.marks, this.edges, this.ticks));
    this.drag = new Dragging(this.board, (id, to) => this.send("move", { id, to }));
  }
  addButtons() {
    const press = (text, act) => buttonOf(text, this.safely(act));
    this.splitOne = press("Split", this.splitOrMerge);
    this.buttons = Object.fromEntries(Object.entries(ASKED).map(([verb, text]) => [verb, press(text, () => this.send(verb))]));
  }
  addWords() {
    this.score = element("strong", { class: "pl-score" });
    this.built = element("strong", { class: "pl-built" });
    this.bar = element("p", { class: "pl-bar" });
    this.verdict = element("div", { class: "pl-verdict", "aria-live": "polite", "aria-atomic": "true" });
    this.axis = element("p", { class: "pl-axis-name" });
    this.trouble = element("p", { class: "pl-error", role: "alert", hidden: true });
    this.busy = element("p", { class: "pl-busy", role: "status" });
    this.measured = element("p", { class: "pl-measured" });
    const keyOf = (kind) => element("span", {}, boxOf("b", { kind, text: kind }), ` ${this.theme.names[kind]}`);
    const swatchOf = ([look, text]) => element("span", { class: `pl-of-${look}` }, element("i", { class: `pl-${look}` }), ` ${text}`);
    this.legend = element("p", { class: "pl-legend" }, ...[..."FBIW"].map(keyOf), ...Object.entries(SWATCHES).map(swatchOf));
  }
  lay() {
    const { undo, redo, reset, clear, split_all, run } = this.buttons;
    this.root.append(
      element("div", { class: "pl-top" }, element("p", { class: "pl-title" }, this.title, " ", this.summary, " ", this.built), this.bar), this.verdict, this.board, this.axis, this.legend, this.live,
      element("div", { class: "pl-bars" }, toolsOf("History", undo, redo, reset, clear), toolsOf("Backward", this.splitOne, split_all),
        toolsOf("Try it", run), toolsOf("View", this.projector)),
      this.trouble, this.busy, this.measured, this.help,
    );
  }
  listenToEvents() {
    const on = (node, name, react) => node.addEventListener(name, this.safely(react));
    on(this.root, "keydown", this.onKey);
    on(this.board, "focusin", ({ target }) => target.dataset.id && this.choose(target.dataset.id));
    for (const [name, react] of Object.entries(this.drag.events)) on(this.board, name, react);
  }

  // What is shown
  show() {
    const view = this.get("view");
    this.places = new Map(view.rows.flatMap(({ blocks }, rank) => blocks.map((block, place) => [block.id, { rank, place, block }])));
    const had = this.grid.contains(document.activeElement) ? document.activeElement : null;
    this.tell(view);
    if (this.board.clientWidth) this.draw(view);
    this.choose(this.nearest(view.focus));
    this.keepFocus(had);
  }
  tell(view) {
    const { can } = view;
    this.title.textContent = view.title;
    this.summary.textContent = view.summary;
    this.built.textContent = view.built;
    this.score.textContent = view.score || (view.par && (view.is_legal ? "not yet complete" : "no score while illegal"));
    this.score.hidden = !this.score.textContent;
    const numbers = view.has_times ? view.numbers : ["no makespan and no bubble, because it cannot run"];
    this.bar.replaceChildren(this.score, ...[view.par, ...numbers].filter(Boolean).map((text) => element("span", {}, text)));
    this.verdict.classList.toggle("pl-illegal", !view.is_legal);
    if (this.verdict.textContent !== view.verdict.join("")) this.verdict.replaceChildren(...view.verdict.map((text) => element("p", {}, text)));
    this.say(view.said);
    this.trouble.textContent = view.trouble;
    this.trouble.hidden = !view.trouble;
    this.busy.textContent = view.busy;
    this.measured.textContent = view.measured;
    this.axis.textContent = view.axis;
    const isLater = view.rows.some(({ blocks }) => blocks.some((block) => block.is_later));
    const looks = { unlimited: view.limit === null, untimed: !view.has_times, low: view.rows.length > 5, plain: !isLater };
    for (const [look, isOn] of Object.entries(looks)) this.root.classList.toggle(`pl-${look}`, isOn);
    for (const [verb, button] of Object.entries(this.buttons)) allow(button, can[verb] && !(verb === "run" && view.busy));
    this.buttons.run.hidden = !can.has_run;
  }

  // Drawing
  draw(view) {
    const { left, right, scale, large, pad } = (this.sizes = this.measure(view));
    this.board.style.scrollPaddingLeft = `${left}px`; // the names of the ranks stay in sight and would hide a block
    this.board.firstChild.style.width = `${left + view.end * scale + right}px`;
    this.grid.style.paddingTop = `${pad}px`;
    while (this.grid.children.length < view.rows.length) this.grid.append(rowOf(this.grid.children.length));
    for (const [id, node] of this.nodes) if (!this.places.has(id)) (node.remove(), this.nodes.delete(id));
    view.rows.forEach((row, rank) => this.fillRow(row, this.grid.children[rank], view));
    this.drawEdges(view);
    this.drag.redraw();
    const at = (node, time) => (Object.assign(node.style, { left: `${left + time * scale}px` }), node);
    const every = Math.ceil((large * 40) / ((view.ticks[1]?.at ?? view.end) * scale));
    const ticks = view.has_times ? view.ticks.filter((_, number) => number % every === 0) : [];
    this.ticks.replaceChildren(...ticks.map((tick) => at(element("span", {}, tick.text), tick.at)));
    this.marks.replaceChildren(...view.marks.map((mark) => at(element("div", { class: `pl-mark pl-${mark.look}` }, element("span", {}, mark.text)), mark.at)));
  }
  /** Sizes in pixels: as wide as the board, and wider where a block could not hold a number; many ranks are low. */
  measure(view) {
    const sizes = view.rows.length > 5 ? [24, 12, 9, 20] : [34, 18, 22, 26];
    const hasRun = view.rows.some((row) => row.measured.length);
    const rank = sizes[0] + (hasRun ? sizes[1] + 3 : 0) + sizes[2] + 13; // with the gaps
    const grown = growth();
    const fitting = (innerHeight - GAPS - WORDS * grown) / (rank * view.rows.length + sizes[3]);
    const large = this.isLarge ? Math.min(1.6 * grown, Math.max(1, fitting)) : 1;
    const lengths = view.rows.flatMap(({ blocks }) => blocks.map(({ start, end }) => end - start)).filter((one) => one > 0).sort((a, b) => a - b);
    const [left, right] = [88 * large, 15 * large]; // right: half of the last number of the axis
    const room = (this.board.clientWidth || 700) - left - right;
    const middle = lengths[lengths.length >> 1] ?? view.end;
    const shortest = Math.max(lengths[0] ?? view.end, middle / 6); // one that takes almost no time widens nothing
    const scale = Math.max(room / view.end, Math.min((LEAST * large) / shortest, 8000 / view.end));
    const [block, measured, memory, pad] = sizes.map((size) => size * large);
    const ran = hasRun ? measured : 0;
    const isFull = view.rows.every(({ ready }) => !ready.length);
    const until = isFull ? Math.max(...view.rows.flatMap(({ blocks }) => blocks.map(({ end }) => end))) : view.end; // of idle time
    return { left, right, scale, until, large, pad, block, ran, memory, font: 13 * (large > 1 ? 1.31 * grown : 1) };
  }
  fillRow(row, line, view) {
    const { left, scale, until, block, ran: high } = this.sizes;
    const [head, lanes] = line.children;
    const [track, ran, stairs] = lanes.children;
    head.style.width = `${left}px`;
    [head.children[1].textContent, head.children[2].textContent] = [row.held, row.ran];
    head.classList.toggle("pl-over", row.is_over);
    row.blocks.forEach((one, place) => {
      const node = this.placeBlock(one, view);
      if (track.children[place] !== node) track.insertBefore(node, track.children[place]); // read in this order
    });
    track.querySelector(".pl-next")?.remove();
    if (row.ready.length) track.append(this.nextOf(row));
    Object.assign(track.style, { height: `${block}px`, width: `${until * scale}px` });
    Object.assign(ran.style, { height: `${high}px`, width: `${view.end * scale}px` });
    ran.hidden = !high;
    ran.replaceChildren(...row.measured.map((span) => this.fit(boxOf("span", span), span, high)));
    this.drawMemory(stairs, row, view);
  }
  placeBlock(block, view) {
    if (!this.nodes.has(block.id)) this.nodes.set(block.id, boxOf("div", block, { role: "gridcell", tabindex: -1, "data-id": block.id }));
    const node = this.fit(this.nodes.get(block.id), block, this.sizes.block);
    const isWrong = view.edges.flat().includes(block.id);
    node.classList.add("pl-block");
    node.classList.toggle("pl-critical", block.is_critical);
    node.classList.toggle("pl-wrong", isWrong);
    node.setAttribute("aria-invalid", String(isWrong));
    node.setAttribute("aria-label", block.said);
    return node;
  }
  /** What a rank may do next on a board that is not full: buttons behind its last block. */
  nextOf({ blocks, ready }) {
    const left = (blocks.at(-1)?.end ?? 0) * this.sizes.scale + 4;
    const place = ({ id, kind, text }) =>
      element("button", { type: "button", class: "pl-work", "data-kind": kind, style: paintOf(kind), "data-next": id, click: this.safely(() => this.send("place", { id })) }, text);
    return element("div", { class: "pl-next", role: "gridcell", style: `left: ${left}px` }, ...ready.map(place));
  }
  /** Put a box at its time, with as much of its label as it has room for. */
  fit(node, span, height) {
    const { scale, font } = this.sizes;
    const width = Math.max(8, (span.end - span.start) * scale);
    const label = labelThatFits(span.text, width, height, height < 20 ? font * 0.85 : font, this.get("view").digits);
    Object.assign(node.style, { left: `${span.start * scale}px`, width: `${width}px`, fontSize: `${label.scale}em` });
    node.replaceChildren(...label.lines.map((line) => element("b", {}, line)));
    return node;
  }
  drawMemory(stairs, row, view) {
    const { scale, memory: height } = this.sizes;
    const width = view.end * scale;
    const y = (count) => height - 1 - (Math.max(0, count) / view.most) * (height - 5);
    const steps = [...new Map(row.memory)].map(([time, count]) => `H${time * scale}V${y(count)}`).join("");
    const parts = [shape("path", { class: "pl-stairs", d: `M0 ${y(0)}${steps}H${width}V${y(0)}Z` })];
    if (view.limit !== null) parts.push(shape("path", { class: "pl-limit", d: `M0 ${y(view.limit)}H${width}` }));
    fill(stairs, { width, height }, []);
    stairs.classList.toggle("pl-over", row.is_over);
    stairs.replaceChildren(...parts);
  }
  /** A dashed arrow from each action that must run first to the one that is too early. */
  drawEdges(view) {
    const { left, scale, block: height, pad } = this.sizes;
    const marker = `${this.help.id}-arrow`;
    const tip = shape("marker", { id: marker, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" },
      shape("path", { d: "M0 0L8 4L0 8Z", class: "pl-head-of-edge" }));
    const boxOfAction = (id) => {
      const { rank, block } = this.places.get(id);
      const top = this.grid.children[rank].offsetTop;
      return { rank, x: left + ((block.start + block.end) / 2) * scale, top, bottom: top + height };
    };
    const lines = view.edges.filter((pair) => pair.every((id) => this.places.has(id))).flatMap(([need, waiting]) => {
      const d = curveOf(boxOfAction(need), boxOfAction(waiting), pad);
      return [shape("path", { class: "pl-halo", d }), shape("path", { class: "pl-edge", "data-edge": `${need}-${waiting}`, d, "marker-end": `url(#${marker})` })];
    });
    this.edges.replaceChildren(tip, ...lines);
  }

  // Choosing and moving a block
  nearest(focus) {
    const same = [this.current, this.current.replace("B", "I"), this.current.replace(/[IW]/, "B")];
    return [...same, focus, ...this.places.keys()].find((id) => this.places.has(id)) ?? "";
  }
  /** A block that moved lost the focus that it had; a next move that was made hands it on. */
  keepFocus(had) {
    if (!had) return;
    const [next, block] = [this.grid.querySelector("[data-next]"), this.nodes.get(this.current)];
    ((had.dataset.next ? next ?? block : block ?? next) ?? this.buttons.undo).focus();
  }
  /** Make a block the one that Tab reaches and that the split button is about. */
  choose(id) {
    this.current = id;
    for (const [other, node] of this.nodes) node.setAttribute("tabindex", other === id ? 0 : -1);
    const change = this.places.get(id)?.block.change;
    this.splitOne.textContent = change || "Split";
    allow(this.splitOne, change);
  }
  step(by) {
    const { rank, place } = this.places.get(this.current);
    const row = this.get("view").rows[rank].blocks;
    this.nodes.get(row[Math.min(row.length - 1, Math.max(0, place + by))].id).focus();
  }
  climb(by) {
    const { rank, block } = this.places.get(this.current);
    const others = this.get("view").rows[rank + by]?.blocks ?? [];
    const off = ({ start, end }) => Math.abs(start + end - block.start - block.end);
    if (others.length) this.nodes.get(others.reduce((best, one) => (off(one) < off(best) ? one : best)).id).focus();
  }
  splitOrMerge() {
    this.send(/[IW]/.test(this.current) ? "merge" : "split", { id: this.current });
  }
  /** Our keys stop here: JupyterLab would take them, and Alt+Left would leave the page. */
  onKey(event) {
    const name = `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${event.altKey ? "Alt+" : ""}${event.key}`;
    const isOnBlock = Boolean(event.target.closest(".pl-block"));
    const cancel = name === "Escape" && this.drag.held && (() => this.drag.end(false));
    const verb = KEYS_OF_ALL[name];
    const act = cancel || (verb && (() => this.send(verb))) || (isOnBlock && KEYS[name === "S" ? "s" : name]);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act(this);
  }
}

/** The empty row of a rank: its name, what it holds and which engine ran; its blocks, measured blocks and memory. */
function rowOf(rank) {
  const head = element("div", { class: "pl-head", role: "rowheader" }, element("strong", {}, `rank ${rank}`), element("span"), element("span"));
  const track = element("div", { class: "pl-track pl-idle", role: "presentation" });
  const ran = element("div", { class: "pl-ran", "aria-hidden": "true" });
  const memory = shape("svg", { class: "pl-memory", "aria-hidden": "true" });
  const lanes = element("div", { class: "pl-lanes", role: "presentation" }, track, ran, memory);
  return element("div", { class: "pl-row", role: "row", "aria-label": `rank ${rank}` }, head, lanes);
}

/** A box of work, empty or with a text. */
function boxOf(tag, { kind, text, is_later: isLater }, more = {}) {
  return element(tag, { class: "pl-work", "data-kind": kind, style: paintOf(kind, isLater), ...more }, text);
}

/** An arrow between two blocks: over the row if both are in it, otherwise from the one's side to the other's. */
function curveOf(a, b, pad) {
  if (a.rank === b.rank) return `M${a.x} ${a.top}C${a.x} ${a.top - pad} ${b.x} ${b.top - pad} ${b.x} ${b.top - 1}`;
  const [y, z] = a.rank < b.rank ? [a.bottom, b.top - 1] : [a.top, b.bottom + 1];
  const middle = (y + z) / 2;
  return `M${a.x} ${y}C${a.x} ${middle} ${b.x} ${middle} ${b.x} ${z}`;
}

/** A button that cannot be used keeps the focus; pressed, it makes Python say why. */
function allow(button, isOn) {
  button.setAttribute("aria-disabled", String(!isOn));
}

export default widgetOf(EditorView);
