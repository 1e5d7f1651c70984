// The schedule editor: blocks that are dragged or carried by keys. What a move leads to is worked out in Python.

const CARRY = { ArrowLeft: -1, ArrowRight: 1, Home: -9999, End: 9999 };
const LATE_MS = 800;
const SWATCHES = { hatched: "idle", held: "micro-batches held", limit: "memory limit" };
let numEditors = 0;

function render({ model, el }) {
  const { paints, illegal } = model.get("theme");
  const unique = `pl-editor-${++numEditors}-${Math.random().toString(36).slice(2, 8)}`;
  const nodes = new Map(); // the block of each action, kept so that it can glide to its new place
  let index = new Map(); // where each action stands: { rank, place, block }
  let current = model.get("focus"); // the block that Tab reaches
  let carried = null; // picked up by key: { id, grab }
  let geometry = null;
  let lastSent = 0;
  let isLate = false;
  let waiting = 0; // the timer that says when an answer is late
  let offered = ""; // the CSV last put into its field; what is typed there stays until the order changes

  /** Ask Python for something. What it has not answered yet is sent along, as messages may overtake each other. */
  function send(verb, details = {}) {
    const done = model.get("done");
    const unanswered = model.get("commands").filter((command) => command.n > done);
    lastSent = Math.max(lastSent, done, ...unanswered.map((command) => command.n)) + 1;
    trouble.textContent = ""; // so that the same trouble is said again
    isLate = false;
    clearTimeout(waiting);
    waiting = setTimeout(guarded(root, () => tell((isLate = true))), LATE_MS);
    model.set("commands", [...unanswered, { n: lastSent, verb, ...details }]);
    model.save_changes();
  }

  // Parts
  const press = (text, act) => element("button", { type: "button", click: guarded(root, act) }, text);
  const act = (text, verb) => press(text, () => send(verb));
  const group = (name, ...buttons) => element("div", { class: "pl-tools", role: "group", "aria-label": name }, ...buttons);
  const root = element("div", { class: "pl-widget pl-editor", "data-pl-state": "drawing" });
  const name = element("strong");
  const summary = element("span");
  const score = element("p", { class: "pl-score" });
  const verdict = element("div", { class: "pl-verdict", "aria-live": "polite", "aria-atomic": "true" });
  const grid = element("div", { class: "pl-rows", role: "grid", "aria-label": "Schedule: a row for each rank", "aria-describedby": `${unique}-help` });
  const slot = element("div", { class: "pl-slot", hidden: true });
  const edges = shape("svg", { class: "pl-edges", "aria-hidden": "true" });
  const ticks = element("div", { class: "pl-axis", "aria-hidden": "true" });
  const board = element("div", { class: "pl-board" }, element("div", { class: "pl-canvas" }, grid, edges, ticks, slot));
  const axis = element("p", { class: "pl-axis-name" });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const trouble = element("p", { class: "pl-error", role: "alert", hidden: true });
  const busy = element("p", { class: "pl-busy", role: "status" });
  const numbers = element("p", { class: "pl-numbers" });
  const par = element("p", { class: "pl-par" });
  const measured = element("p", { class: "pl-measured" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Schedule as a table" });
  const undo = act("Undo", "undo");
  const redo = act("Redo", "redo");
  const reset = act("Reset", "reset");
  const splitOne = press("Split", () => splitOrMerge());
  const splitAll = act("Split every B", "split_all");
  const mergeAll = act("Merge all", "merge_all");
  const solve = act("Ask the solver", "solve");
  const showPar = act("Show the solver's order", "show_par");
  const run = act("Run it", "run");
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const csv = element("textarea", { rows: 4, spellcheck: "false", "aria-label": "Schedule as CSV, a line for each rank" });
  const load = press("Load this CSV", () => send("load", { text: csv.value }));
  const paste = element("details", { class: "pl-csv" }, element("summary", {}, "CSV: copy this schedule, or paste another"), csv, load);
  const help = element("p", { class: "pl-help", id: `${unique}-help` }, model.get("guide"));
  const keyOf = (letter) => element("span", {}, paintBlock(element("b", { class: "pl-key" }, element("span", {}, letter)), letter), ` ${paints[letter].name}`);
  const swatchOf = ([look, text]) => element("span", { class: `pl-of-${look}` }, element("i", { class: `pl-swatch-${look}` }), ` ${text}`);
  const legend = element("p", { class: "pl-legend" }, ...[..."FBIW"].map(keyOf), ...Object.entries(SWATCHES).map(swatchOf));
  root.append(
    element("div", { class: "pl-top" }, element("p", { class: "pl-title" }, name, " ", summary), score),
    verdict, board, table, axis, legend, live,
    element("div", { class: "pl-bars" },
      group("History", undo, redo, reset), group("Backward", splitOne, splitAll, mergeAll),
      group("Try it", run, solve, showPar), group("View", tableButton, largeButton)),
    trouble, busy, numbers, par, measured, paste, help,
  );
  el.replaceChildren(root);

  function paintBlock(node, kind) {
    const paint = paints[kind] ?? illegal;
    node.style.setProperty("--fill", paint.fill);
    node.style.color = paint.text;
    node.classList.toggle("pl-dots", paint.hatch === "..");
    return node;
  }

  // Drawing
  const rowsOf = () => model.get("view").rows;
  const spot = (id) => index.get(id);

  function draw() {
    const view = model.get("view");
    const large = model.get("projector") ? 1.6 : 1;
    const lengths = view.rows.flatMap((row) => row.blocks.map((block) => block.end - block.start)).filter((one) => one > 0).sort((a, b) => a - b);
    const widest = Math.max(...view.rows.flatMap((row) => row.blocks.map((block) => block.text.length)));
    const left = 104 * large;
    const right = 15 * large; // half of the last number of the axis
    const room = (board.clientWidth || 700) - left - right;
    const least = (widest * 8.7 + 7.5) * Math.min(large, 1.31) + 1; // the shortest block still holds its letters
    const middle = lengths[lengths.length >> 1] ?? view.end;
    const shortest = Math.max(lengths[0] ?? view.end, middle / 6); // one that takes almost no time widens nothing
    const scale = Math.min(Math.max(Math.min(room / view.end, (90 * large) / shortest), least / shortest), 8000 / view.end);
    const hasRun = view.rows.some((row) => row.measured.length);
    geometry = { left, scale, large, pad: 26 * large, block: 34 * large, ran: hasRun ? 20 * large : 0, memory: 24 * large };
    board.style.scrollPaddingLeft = `${left}px`; // the names of the ranks stay in sight and would hide a block
    board.firstChild.style.width = `${left + view.end * scale + right}px`;
    grid.style.paddingTop = `${geometry.pad}px`;
    const before = new Map([...nodes].map(([id, node]) => [id, [node.style.left, node.style.width]]));
    fitRows(view.rows.length);
    for (const [id, node] of nodes) if (!spot(id)) (node.remove(), nodes.delete(id));
    view.rows.forEach((row, rank) => fillRow(row, rank, view));
    glide(before);
    markWrong(view);
    drag.show();
    const every = Math.ceil((large * 40) / ((view.ticks[1]?.at ?? view.end) * scale));
    ticks.replaceChildren(...view.ticks.filter((_, index) => index % every === 0).map(({ at, text }) => {
      const tick = element("span", {}, text);
      tick.style.left = `${left + at * scale}px`;
      return tick;
    }));
    ticks.style.visibility = view.has_times ? "" : "hidden";
  }

  function fitRows(count) {
    while (grid.children.length > count) grid.lastChild.remove();
    while (grid.children.length < count) {
      const rank = grid.children.length;
      const head = element("div", { class: "pl-head", role: "rowheader" }, element("strong", {}, `rank ${rank}`), element("span"), element("span"));
      const track = element("div", { class: "pl-track", role: "presentation" });
      const ran = element("div", { class: "pl-ran", "aria-hidden": "true" });
      const memory = shape("svg", { class: "pl-memory", "aria-hidden": "true" });
      const lanes = element("div", { class: "pl-lanes", role: "presentation" }, track, ran, memory);
      grid.append(element("div", { class: "pl-row", role: "row", "aria-label": `rank ${rank}` }, head, lanes));
    }
  }

  function placeBlock(block) {
    if (!nodes.has(block.id)) {
      const node = element("div", { class: "pl-block", role: "gridcell", tabindex: -1, "data-id": block.id });
      nodes.set(block.id, paintBlock(node, block.kind));
    }
    const node = nodes.get(block.id);
    node.style.left = `${block.start * geometry.scale}px`;
    node.style.width = `${Math.max(8, (block.end - block.start) * geometry.scale)}px`;
    node.replaceChildren(element("span", {}, block.text));
    node.setAttribute("aria-label", block.said);
    return node;
  }

  function fillRow(row, rank, view) {
    const { scale, memory, left } = geometry;
    const [head, lanes] = grid.children[rank].children;
    const [track, ran, stairs] = lanes.children;
    head.style.width = `${left}px`;
    head.children[1].textContent = row.held;
    head.children[2].textContent = row.ran;
    head.classList.toggle("pl-over", row.is_over);
    row.blocks.forEach((block, place) => {
      const node = placeBlock(block);
      if (track.children[place] !== node) track.insertBefore(node, track.children[place]); // read in this order
    });
    track.style.height = `${geometry.block}px`;
    track.style.width = ran.style.width = `${view.end * scale}px`;
    ran.style.height = `${geometry.ran}px`;
    ran.hidden = !geometry.ran;
    ran.replaceChildren(...row.measured.map((span) => {
      const width = (span.end - span.start) * scale;
      const box = paintBlock(element("span", {}, width >= span.text.length * 8 * geometry.large ? span.text : ""), span.kind);
      Object.assign(box.style, { left: `${span.start * scale}px`, width: `${width}px` });
      return box;
    }));
    drawMemory(stairs, row, view, memory);
  }

  function drawMemory(stairs, row, view, height) {
    const width = view.end * geometry.scale;
    const y = (count) => height - 1 - (Math.max(0, count) / view.most) * (height - 5);
    const steps = row.memory.map(([time, count]) => `H${time * geometry.scale}V${y(count)}`).join("");
    const parts = [shape("path", { class: "pl-stairs", d: `M0 ${y(0)}${steps}H${width}V${y(0)}Z` })];
    if (view.limit !== null) parts.push(shape("path", { class: "pl-limit", d: `M0 ${y(view.limit)}H${width}` }));
    fill(stairs, { width, height }, []);
    stairs.classList.toggle("pl-over", row.is_over);
    stairs.replaceChildren(...parts);
  }

  /** Let blocks that moved glide there, unless the reader's system asks for less motion. */
  function glide(before) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [id, [left, width]] of before) {
      const node = nodes.get(id);
      if (!node || node.style.left === left) continue;
      node.animate([{ left, width }, { left: node.style.left, width: node.style.width }], { duration: 180, easing: "ease-out" });
    }
  }

  function markWrong(view) {
    drawEdges({ svg: edges, marker: `${unique}-arrow`, colour: illegal.fill, view, geometry, grid, spot });
    const wrong = new Set(view.edges.flat());
    for (const [id, node] of nodes) {
      node.classList.toggle("pl-wrong", wrong.has(id));
      node.setAttribute("aria-invalid", String(wrong.has(id)));
    }
  }

  // Choosing a block
  function nearest(id) {
    const other = [id, id.replace("B", "I"), id.replace(/[IW]/, "B"), model.get("focus")].find(spot);
    return other ?? rowsOf()[0].blocks[0].id;
  }
  function choose(id, takeFocus) {
    current = id;
    for (const [other, node] of nodes) node.setAttribute("tabindex", other === id ? 0 : -1);
    if (takeFocus && document.activeElement !== nodes.get(id)) nodes.get(id)?.focus();
    const { change } = spot(id).block;
    splitOne.textContent = change || "Split";
    allow(splitOne, change);
  }
  function step(key) {
    const rows = rowsOf();
    const { rank, place } = spot(current);
    const row = rows[rank].blocks;
    if (key in CARRY) return choose(row[Math.min(row.length - 1, Math.max(0, place + CARRY[key]))].id, true);
    const other = rows[rank + (key === "ArrowDown" ? 1 : -1)]?.blocks;
    if (!other?.length) return;
    const off = (block) => Math.abs(block.start + block.end - row[place].start - row[place].end);
    choose(other.reduce((best, block) => (off(block) < off(best) ? block : best)).id, true);
  }
  function splitOrMerge() {
    send(/[IW]/.test(current) ? "merge" : "split", { id: current });
  }

  // Keys
  function pick() {
    carried = { id: current, grab: Date.now() };
    nodes.get(current).classList.add("pl-lifted");
    live.textContent = `${current} picked up. Left and right carry it, Enter drops it, Escape puts it back.`;
  }
  function drop(words) {
    nodes.get(carried.id)?.classList.remove("pl-lifted");
    if (words) live.textContent = `${carried.id} ${words}`;
    carried = null;
  }
  /** Keys of the whole widget: undo and redo work from its buttons too. */
  function onAnyKey(event) {
    const { key } = event;
    const verb = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[key.toLowerCase()];
    if (event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (!verb) return;
      event.preventDefault();
      send(verb);
    } else if (key.length > 1) return;
    event.stopPropagation(); // else a letter would be a command of JupyterLab, which cuts the cell at X
  }
  function onKey(event) {
    const { key } = event;
    if (event.ctrlKey || event.metaKey) return;
    if (drag.isOn()) {
      if (key !== "Escape") return;
      drag.cancel();
    } else if (carried) {
      if (key in CARRY) send("move", { id: carried.id, by: CARRY[key], grab: carried.grab });
      else if (key === "Enter" || key === " ") drop("dropped.");
      else if (key === "Escape") {
        send("cancel", { id: carried.id, grab: carried.grab });
        drop("");
      } else if (key === "Tab") return;
    } else if (event.altKey) {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      send("move", { id: current, by: CARRY[key] });
    } else if (key in CARRY || key === "ArrowUp" || key === "ArrowDown") step(key);
    else if (key === " ") pick();
    else if (key === "s" || key === "S") splitOrMerge();
    else return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would take the key, and Alt+Left would leave the page
  }

  // Pointer
  const drag = dragging({
    board, slot, nodes, rowsOf, spot, geometry: () => geometry,
    pick(id) {
      if (carried) drop("dropped.");
      choose(id, true);
    },
    drop(id, to) {
      if (to === null) live.textContent = `${id} let go outside the board, so it stays where it was.`;
      else if (to !== spot(id).place) send("move", { id, to });
    },
  });

  // What is said
  function tell() {
    const view = model.get("view");
    const can = model.get("can");
    name.textContent = view.title;
    summary.textContent = view.summary;
    score.textContent = view.score || (view.par ? "no score while illegal" : "");
    score.hidden = !score.textContent;
    verdict.classList.toggle("pl-illegal", !view.is_legal);
    if (verdict.textContent !== view.verdict.join("")) verdict.replaceChildren(...view.verdict.map((text) => element("p", {}, text)));
    const told = view.has_times ? view.numbers : ["no makespan and no bubble, because it cannot run"];
    numbers.replaceChildren(...told.map((text) => element("span", {}, text)));
    par.textContent = view.par;
    measured.textContent = view.measured;
    legend.querySelector(".pl-of-held").lastChild.textContent = ` ${view.counted} held`;
    axis.textContent = view.axis;
    axis.classList.toggle("pl-no-times", !view.has_times);
    trouble.textContent = model.get("trouble");
    trouble.hidden = !trouble.textContent;
    if (model.get("done") >= lastSent) isLate = Boolean(clearTimeout(waiting));
    busy.textContent = model.get("busy") || (isLate ? "Waiting for the kernel, which is at work." : "");
    root.classList.toggle("pl-unlimited", view.limit === null);
    for (const [button, isOn] of [[undo, can.undo], [redo, can.redo], [reset, can.reset], [splitAll, can.split_all], [mergeAll, can.merge_all]]) allow(button, isOn);
    for (const [button, isOn] of [[run, can.run], [solve, true]]) allow(button, isOn && !model.get("busy"));
    const left = document.activeElement;
    run.hidden = !can.has_run;
    solve.hidden = !can.solve;
    showPar.hidden = !can.show_par;
    if (left.hidden && root.contains(left)) (showPar.hidden ? tableButton : showPar).focus();
    if (view.csv !== offered) csv.value = (offered = view.csv).trim();
  }
  /** A button that cannot be used keeps the focus; pressed, it makes Python say why. */
  function allow(button, isOn) {
    button.setAttribute("aria-disabled", String(!isOn));
  }
  function announce() {
    live.textContent = model.get("said");
  }
  function show() {
    index = new Map(rowsOf().flatMap((row, rank) => row.blocks.map((block, place) => [block.id, { rank, place, block }])));
    const had = board.contains(document.activeElement);
    tell();
    if (model.get("table")) fillTable();
    else if (board.clientWidth) draw();
    choose(nearest(current), had);
  }
  function fillTable() {
    const view = model.get("view");
    const short = (time) => (view.has_times ? String(Number(time.toFixed(3))) : "");
    const lines = view.rows.flatMap((row, rank) => row.blocks.map((block, place) => [`rank ${rank}`, String(place + 1), block.id, paints[block.kind].name, short(block.start), short(block.end)]));
    table.replaceChildren(tableOf(`${view.title}, ${view.summary}`, ["Rank", "Place", "Action", "Kind", "From", "To"], lines));
  }
  function showView() {
    showTableButton();
    showLargeButton();
    const asTable = Boolean(model.get("table"));
    table.hidden = !asTable;
    board.hidden = help.hidden = legend.hidden = asTable;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    show();
    root.dataset.plState = "ready";
  }

  root.addEventListener("keydown", guarded(root, onAnyKey));
  board.addEventListener("keydown", guarded(root, onKey));
  board.addEventListener("focusin", (event) => event.target.dataset.id && choose(event.target.dataset.id, false));
  board.addEventListener("focusout", (event) => carried && event.relatedTarget && !board.contains(event.relatedTarget) && drop("dropped."));
  for (const [event, react] of Object.entries(drag.events)) board.addEventListener(event, guarded(root, react));
  csv.addEventListener("keydown", (event) => event.stopPropagation()); // letters are text here, and no shortcuts
  const stops = [
    listen(model, ["view"], guarded(root, show)),
    listen(model, ["can", "trouble", "busy", "done"], guarded(root, tell)),
    listen(model, ["said"], announce),
    listen(model, ["table", "projector"], guarded(root, showView)),
    watchWidth(board, guarded(root, show)),
  ];
  guarded(root, showView)();
  return () => {
    drag.cancel();
    clearTimeout(waiting);
    for (const stop of stops) stop();
  };
}

export default { render };
