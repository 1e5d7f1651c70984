// The schedule editor: blocks that are dragged or carried by keys. Python works out the outcome of a move.

const CARRY = { ArrowLeft: -1, ArrowRight: 1, Home: -9999, End: 9999 };
const LATE_MS = 800;
const LEAST = 10; // pixels of a block: a digit below its letter
const SWATCHES = { idle: "idle", held: "micro-batches held", limit: "memory limit" };

class EditorView extends View {
  constructor(context) {
    super(context, "editor", "Schedule");
    this.prefix = uniqueName("editor");
    this.nodes = new Map(); // the block of each action, kept so that it can glide to its new place
    this.index = new Map(); // where each action stands: { rank, place, block }
    this.current = this.get("focus"); // the block that Tab reaches
    this.carried = null; // picked up by key: { id, grab }
    this.lastSent = 0; // number of the last command
    this.isLate = false;
    this.waiting = 0; // the timer that says when an answer is late
    this.offered = ""; // the CSV last put into its field; what is typed there stays until the order changes
    this.addBoard();
    this.addButtons();
    this.addWords();
    this.lay();
    this.drag = new Dragging(this);
    this.listenToEvents();
    this.follow(["view"], this.show);
    this.follow(["can", "trouble", "busy", "done"], this.tell);
    this.follow(["said"], () => { this.live.textContent = this.get("said"); });
    this.followWidth(this.board, this.show);
    this.stops.push(() => this.drag.cancel(), () => clearTimeout(this.waiting));
    this.begin();
    this.isReady();
  }
  get rows() {
    return this.get("view").rows;
  }
  /** Where an action stands, or nothing. */
  spot(id) {
    return this.index.get(id);
  }

  /** Send Python a command. Commands without an answer are sent again with it, as messages may overtake each other. */
  send(verb, details = {}) {
    const done = this.get("done");
    const unanswered = this.get("commands").filter((command) => command.n > done);
    this.lastSent = Math.max(this.lastSent, done, ...unanswered.map((command) => command.n)) + 1;
    this.trouble.textContent = ""; // so that the same trouble is said again
    this.isLate = false;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(this.safely(() => {
      this.isLate = true;
      this.tell();
    }), LATE_MS);
    this.set("commands", [...unanswered, { n: this.lastSent, verb, ...details }]);
  }

  // Parts
  addBoard() {
    const about = { role: "grid", "aria-label": "Schedule: a row for each rank", "aria-describedby": `${this.prefix}-help` };
    this.grid = element("div", { class: "pl-rows", ...about });
    this.slot = element("div", { class: "pl-slot", hidden: true });
    this.edges = shape("svg", { class: "pl-edges", "aria-hidden": "true" });
    this.ticks = element("div", { class: "pl-axis", "aria-hidden": "true" });
    this.board = element("div", { class: "pl-board" }, element("div", { class: "pl-canvas" }, this.grid, this.edges, this.ticks, this.slot));
  }
  addButtons() {
    const press = (text, act) => buttonOf(text, this.safely(act));
    const ask = (text, verb) => press(text, () => this.send(verb));
    this.splitOne = press("Split", () => this.splitOrMerge());
    this.buttons = {
      undo: ask("Undo", "undo"), redo: ask("Redo", "redo"), reset: ask("Reset", "reset"),
      split_all: ask("Split every B", "split_all"), merge_all: ask("Merge all", "merge_all"),
      run: ask("Run it", "run"), solve: ask("Ask the solver", "solve"), show_par: ask("Show the solver's order", "show_par"),
    };
    this.csv = element("textarea", { rows: 4, spellcheck: "false", "aria-label": "Schedule as CSV, a line for each rank" });
    this.load = press("Load this CSV", () => this.send("load", { text: this.csv.value }));
  }
  addWords() {
    this.score = element("p", { class: "pl-score" });
    this.verdict = element("div", { class: "pl-verdict", "aria-live": "polite", "aria-atomic": "true" });
    this.axis = element("p", { class: "pl-axis-name" });
    this.trouble = element("p", { class: "pl-error", role: "alert", hidden: true });
    this.busy = element("p", { class: "pl-busy", role: "status" });
    this.numbers = element("p", { class: "pl-numbers" });
    this.par = element("p", { class: "pl-par" });
    this.measured = element("p", { class: "pl-measured" });
    this.help = element("p", { class: "pl-help", id: `${this.prefix}-help` }, this.get("guide"));
    const keyOf = (kind) => element("span", {}, boxOf("b", { kind, text: kind }), ` ${this.theme.names[kind]}`);
    const swatchOf = ([look, text]) => element("span", { class: `pl-of-${look}` }, element("i", { class: `pl-${look}` }), ` ${text}`);
    const later = element("span", { class: "pl-of-later" }, boxOf("b", { kind: "F", text: "", is_later: true }), " later stage of its rank");
    this.legend = element("p", { class: "pl-legend" }, ...[..."FBIW"].map(keyOf), later, ...Object.entries(SWATCHES).map(swatchOf));
  }
  lay() {
    const { undo, redo, reset, split_all, merge_all, run, solve, show_par } = this.buttons;
    const summary = element("summary", {}, "CSV: copy this schedule, or paste another");
    this.pictures = [this.board, this.help, this.legend];
    this.root.append(
      element("div", { class: "pl-top" }, this.titleLine(), this.score),
      this.verdict, this.board, this.table, this.axis, this.legend, this.live,
      element("div", { class: "pl-bars" },
        toolsOf("History", undo, redo, reset), toolsOf("Backward", this.splitOne, split_all, merge_all),
        toolsOf("Try it", run, solve, show_par), toolsOf("View", ...this.viewButtons)),
      this.trouble, this.busy, this.numbers, this.par, this.measured,
      element("details", { class: "pl-csv" }, summary, this.csv, this.load), this.help,
    );
  }

  // Drawing
  draw() {
    const view = this.get("view");
    const { left, right, scale, large, pad } = (this.geometry = this.measure(view));
    this.board.style.scrollPaddingLeft = `${left}px`; // the names of the ranks stay in sight and would hide a block
    this.board.firstChild.style.width = `${left + view.end * scale + right}px`;
    this.grid.style.paddingTop = `${pad}px`;
    const before = new Map([...this.nodes].map(([id, node]) => [id, [node.style.left, node.style.width]]));
    this.fitRows(view.rows.length);
    for (const [id, node] of this.nodes) if (!this.spot(id)) (node.remove(), this.nodes.delete(id));
    view.rows.forEach((row, rank) => this.fillRow(row, rank, view));
    this.glide(before);
    this.markWrong(view);
    this.drag.show();
    const every = Math.ceil((large * 40) / ((view.ticks[1]?.at ?? view.end) * scale));
    const shown = view.ticks.filter((_, index) => index % every === 0);
    this.ticks.replaceChildren(...shown.map(({ at, text }) => element("span", { style: `left: ${left + at * scale}px` }, text)));
    this.ticks.style.visibility = view.has_times ? "" : "hidden";
  }
  /** Sizes in pixels: as wide as the board, and wider where a block could not hold a number; many ranks are low. */
  measure(view) {
    const large = this.isLarge ? 1.6 : 1;
    const blocks = view.rows.flatMap((row) => row.blocks);
    const lengths = blocks.map((block) => block.end - block.start).filter((one) => one > 0).sort((a, b) => a - b);
    const [left, right] = [88 * large, 15 * large]; // right: half of the last number of the axis
    const room = (this.board.clientWidth || 700) - left - right;
    const middle = lengths[lengths.length >> 1] ?? view.end;
    const shortest = Math.max(lengths[0] ?? view.end, middle / 6); // one that takes almost no time widens nothing
    const scale = Math.min(Math.max(Math.min(room / view.end, (90 * large) / shortest), (LEAST * large) / shortest), 8000 / view.end);
    const low = view.rows.length > 5;
    const [block, measured, memory, pad] = (low ? [24, 12, 9, 15] : [34, 18, 22, 26]).map((size) => size * large);
    const ran = view.rows.some((row) => row.measured.length) ? measured : 0;
    return { left, right, scale, large, pad, block, ran, memory, font: 13 * (large > 1 ? 1.31 : 1) };
  }
  fitRows(count) {
    while (this.grid.children.length > count) this.grid.lastChild.remove();
    while (this.grid.children.length < count) {
      const name = `rank ${this.grid.children.length}`;
      const head = element("div", { class: "pl-head", role: "rowheader" }, element("strong", {}, name), element("span"), element("span"));
      const track = element("div", { class: "pl-track pl-idle", role: "presentation" });
      const ran = element("div", { class: "pl-ran", "aria-hidden": "true" });
      const memory = shape("svg", { class: "pl-memory", "aria-hidden": "true" });
      const lanes = element("div", { class: "pl-lanes", role: "presentation" }, track, ran, memory);
      this.grid.append(element("div", { class: "pl-row", role: "row", "aria-label": name }, head, lanes));
    }
  }
  fillRow(row, rank, view) {
    const { scale, left, block, ran: high } = this.geometry;
    const [head, lanes] = this.grid.children[rank].children;
    const [track, ran, stairs] = lanes.children;
    head.style.width = `${left}px`;
    head.children[1].textContent = row.held;
    head.children[2].textContent = row.ran;
    head.classList.toggle("pl-over", row.is_over);
    row.blocks.forEach((one, place) => {
      const node = this.placeBlock(one);
      if (track.children[place] !== node) track.insertBefore(node, track.children[place]); // read in this order
    });
    track.style.height = `${block}px`;
    const ends = view.rows.flatMap((one) => one.blocks.map((block) => block.end)); // idle up to the last one's
    track.style.width = `${Math.max(...ends) * scale}px`;
    ran.style.width = `${view.end * scale}px`;
    ran.style.height = `${high}px`;
    ran.hidden = !high;
    ran.replaceChildren(...row.measured.map((span) => this.fit(boxOf("span", span), span, high)));
    this.drawMemory(stairs, row, view);
  }
  placeBlock(block) {
    if (!this.nodes.has(block.id)) {
      const node = boxOf("div", block, { role: "gridcell", tabindex: -1, "data-id": block.id });
      node.classList.add("pl-block");
      this.nodes.set(block.id, node);
    }
    const node = this.nodes.get(block.id);
    this.fit(node, block, this.geometry.block);
    node.setAttribute("aria-label", block.said);
    return node;
  }
  /** Put a box at its time, with as much of its label as it has room for. */
  fit(node, span, height) {
    const { scale, font } = this.geometry;
    const width = Math.max(8, (span.end - span.start) * scale);
    const label = labelThatFits(span.text, width, height, height < 20 ? font * 0.85 : font, this.get("view").digits);
    Object.assign(node.style, { left: `${span.start * scale}px`, width: `${width}px`, fontSize: `${label.scale}em` });
    node.replaceChildren(...label.lines.map((line) => element("b", {}, line)));
    return node;
  }
  drawMemory(stairs, row, view) {
    const { scale, memory: height } = this.geometry;
    const width = view.end * scale;
    const y = (count) => height - 1 - (Math.max(0, count) / view.most) * (height - 5);
    const steps = [...new Map(row.memory)].map(([time, count]) => `H${time * scale}V${y(count)}`).join("");
    const parts = [shape("path", { class: "pl-stairs", d: `M0 ${y(0)}${steps}H${width}V${y(0)}Z` })];
    if (view.limit !== null) parts.push(shape("path", { class: "pl-limit", d: `M0 ${y(view.limit)}H${width}` }));
    fill(stairs, { width, height }, []);
    stairs.classList.toggle("pl-over", row.is_over);
    stairs.replaceChildren(...parts);
  }
  /** Let blocks that moved glide there, unless the reader's system asks for less motion. */
  glide(before) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [id, [left, width]] of before) {
      const node = this.nodes.get(id);
      if (!node || node.style.left === left) continue;
      node.animate([{ left, width }, { left: node.style.left, width: node.style.width }], { duration: 180, easing: "ease-out" });
    }
  }
  markWrong(view) {
    drawEdges(this, view);
    const wrong = new Set(view.edges.flat());
    for (const [id, node] of this.nodes) {
      node.classList.toggle("pl-wrong", wrong.has(id));
      node.setAttribute("aria-invalid", String(wrong.has(id)));
    }
  }

  // Choosing a block
  nearest(id) {
    const other = [id, id.replace("B", "I"), id.replace(/[IW]/, "B"), this.get("focus")].find((one) => this.spot(one));
    return other ?? this.rows[0].blocks[0].id;
  }
  choose(id, takeFocus) {
    this.current = id;
    for (const [other, node] of this.nodes) node.setAttribute("tabindex", other === id ? 0 : -1);
    if (takeFocus && document.activeElement !== this.nodes.get(id)) this.nodes.get(id)?.focus();
    const { change } = this.spot(id).block;
    this.splitOne.textContent = change || "Split";
    allow(this.splitOne, change);
  }
  step(key) {
    const { rank, place } = this.spot(this.current);
    const row = this.rows[rank].blocks;
    if (key in CARRY) return this.choose(row[Math.min(row.length - 1, Math.max(0, place + CARRY[key]))].id, true);
    const other = this.rows[rank + (key === "ArrowDown" ? 1 : -1)]?.blocks;
    if (!other?.length) return;
    const off = (block) => Math.abs(block.start + block.end - row[place].start - row[place].end);
    this.choose(other.reduce((best, block) => (off(block) < off(best) ? block : best)).id, true);
  }
  splitOrMerge() {
    this.send(/[IW]/.test(this.current) ? "merge" : "split", { id: this.current });
  }

  // Keys and pointer
  listenToEvents() {
    const on = (name, react) => this.board.addEventListener(name, this.safely(react));
    this.root.addEventListener("keydown", this.safely(this.onAnyKey));
    on("keydown", this.onKey);
    on("focusin", ({ target }) => target.dataset.id && this.choose(target.dataset.id, false));
    on("focusout", ({ relatedTarget: to }) => this.carried && to && !this.board.contains(to) && this.putDown("dropped."));
    for (const [name, react] of Object.entries(this.drag.events)) on(name, react);
    this.csv.addEventListener("keydown", (event) => event.stopPropagation()); // letters are text here, and no shortcuts
  }
  /** Keys of the whole widget: undo and redo work from its buttons too. */
  onAnyKey(event) {
    const verb = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[event.key.toLowerCase()];
    if (event.altKey || !(event.ctrlKey || event.metaKey) || !verb) return;
    event.preventDefault();
    event.stopPropagation();
    this.send(verb);
  }
  onKey(event) {
    if (event.ctrlKey || event.metaKey || !this.useKey(event.key, event.altKey)) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would take the key, and Alt+Left would leave the page
  }
  /** Do what a key on a block asks for; false for a key that is not ours. */
  useKey(key, withAlt) {
    if (this.drag.isOn) return key === "Escape" && (this.drag.cancel(), true);
    if (this.carried) return this.carry(key);
    if (withAlt) return /^Arrow(Left|Right)$/.test(key) && (this.send("move", { id: this.current, by: CARRY[key] }), true);
    if (key in CARRY || key === "ArrowUp" || key === "ArrowDown") this.step(key);
    else if (key === " ") this.pickUp();
    else if (key === "s" || key === "S") this.splitOrMerge();
    else return false;
    return true;
  }
  carry(key) {
    const { id, grab } = this.carried;
    if (key in CARRY) this.send("move", { id, by: CARRY[key], grab });
    else if (key === "Enter" || key === " ") this.putDown("dropped.");
    else if (key === "Escape") {
      this.send("cancel", { id, grab });
      this.putDown("");
    }
    return key !== "Tab"; // which leaves the board and drops the block
  }
  pickUp() {
    this.carried = { id: this.current, grab: Date.now() };
    this.nodes.get(this.current).classList.add("pl-lifted");
    this.live.textContent = `${this.current} picked up. Left and right carry it, Enter drops it, Escape puts it back.`;
  }
  putDown(words) {
    this.nodes.get(this.carried.id)?.classList.remove("pl-lifted");
    if (words) this.live.textContent = `${this.carried.id} ${words}`;
    this.carried = null;
  }
  /** A block is taken by the pointer. */
  grip(id) {
    if (this.carried) this.putDown("dropped.");
    this.choose(id, true);
  }
  /** It is let go at a place of its row, or nowhere. */
  letGo(id, to) {
    if (to === null) this.live.textContent = `${id} let go outside the board, so it stays where it was.`;
    else if (to !== this.spot(id).place) this.send("move", { id, to });
  }

  // What is said
  tell() {
    const view = this.get("view");
    this.title.textContent = view.title;
    this.summary.textContent = view.summary;
    this.score.textContent = view.score || (view.par ? "no score while illegal" : "");
    this.score.hidden = !this.score.textContent;
    this.verdict.classList.toggle("pl-illegal", !view.is_legal);
    const paragraphs = view.verdict.map((text) => element("p", {}, text));
    if (this.verdict.textContent !== view.verdict.join("")) this.verdict.replaceChildren(...paragraphs);
    const numbers = view.has_times ? view.numbers : ["no makespan and no bubble, because it cannot run"];
    this.numbers.replaceChildren(...numbers.map((text) => element("span", {}, text)));
    this.par.textContent = view.par;
    this.measured.textContent = view.measured;
    this.legend.querySelector(".pl-of-held").lastChild.textContent = ` ${view.counted} held`;
    this.axis.textContent = view.axis;
    this.axis.classList.toggle("pl-no-times", !view.has_times);
    this.root.classList.toggle("pl-unlimited", view.limit === null);
    this.root.classList.toggle("pl-untimed", !view.has_times);
    this.root.classList.toggle("pl-low", view.rows.length > 5);
    this.legend.querySelector(".pl-of-later").hidden = !view.rows.some((row) => row.blocks.some((block) => block.is_later));
    if (view.csv !== this.offered) this.csv.value = (this.offered = view.csv).trim();
    this.tellTrouble();
    this.showButtons(this.get("can"));
  }
  tellTrouble() {
    this.trouble.textContent = this.get("trouble");
    this.trouble.hidden = !this.trouble.textContent;
    if (this.get("done") >= this.lastSent) this.isLate = Boolean(clearTimeout(this.waiting));
    this.busy.textContent = this.get("busy") || (this.isLate ? "Waiting for the kernel, which is at work." : "");
  }
  showButtons(can) {
    const { run, solve, show_par: showPar, ...edits } = this.buttons;
    for (const [verb, button] of Object.entries(edits)) allow(button, can[verb]);
    allow(run, can.run && !this.get("busy"));
    allow(solve, !this.get("busy"));
    const left = document.activeElement;
    run.hidden = !can.has_run;
    solve.hidden = !can.solve;
    showPar.hidden = !can.show_par;
    if (left.hidden && this.root.contains(left)) (showPar.hidden ? this.viewButtons[0] : showPar).focus();
  }
  show() {
    const places = this.rows.flatMap((row, rank) => row.blocks.map((block, place) => [block.id, { rank, place, block }]));
    this.index = new Map(places);
    const had = this.board.contains(document.activeElement);
    this.tell();
    this.fillTable();
    if (!this.get("table") && this.board.clientWidth) this.draw();
    this.choose(this.nearest(this.current), had);
  }
  tableView() {
    const view = this.get("view");
    const short = (time) => (view.has_times ? String(Number(time.toFixed(3))) : "");
    const lines = view.rows.flatMap((row, rank) => row.blocks.map((block, place) => {
      const kind = this.theme.names[block.kind];
      return [`rank ${rank}`, String(place + 1), block.id, kind, short(block.start), short(block.end)];
    }));
    return tableOf(`${view.title}, ${view.summary}`, ["Rank", "Place", "Action", "Kind", "From", "To"], lines);
  }
}

/** A box of work, empty or with a text. */
function boxOf(tag, { kind, text, is_later: isLater }, more = {}) {
  return element(tag, { class: "pl-work", "data-kind": kind, style: paintOf(kind, isLater), ...more }, text);
}

/** A button that cannot be used keeps the focus; pressed, it makes Python say why. */
function allow(button, isOn) {
  button.setAttribute("aria-disabled", String(!isOn));
}

export default widgetOf(EditorView);
