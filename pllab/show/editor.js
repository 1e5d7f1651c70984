// The schedule editor: blocks that are dragged or carried by keys. What a move leads to is worked out in Python.

const CARRY = { ArrowLeft: -1, ArrowRight: 1, Home: -9999, End: 9999 };
let numEditors = 0;

function render({ model, el }) {
  const { paints, illegal } = model.get("theme");
  const arrow = `pl-arrow-${++numEditors}-${Math.random().toString(36).slice(2, 8)}`;
  const nodes = new Map(); // the block of each action, kept so that it can glide to its new place
  let current = model.get("focus"); // the block that Tab reaches
  let carried = null; // picked up by key: { id, grab }
  let dragged = null; // picked up by pointer
  let geometry = null;
  let lastSent = 0;

  /** Ask Python for something. What it has not answered yet is sent along, as messages may overtake each other. */
  function send(verb, details = {}) {
    const done = model.get("done");
    const waiting = model.get("commands").filter((command) => command.n > done);
    lastSent = Math.max(lastSent, done, ...waiting.map((command) => command.n)) + 1;
    model.set("commands", [...waiting, { n: lastSent, verb, ...details }]);
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
  const grid = element("div", { class: "pl-rows", role: "grid", "aria-label": "Schedule: a row for each rank" });
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
  const help = element("p", { class: "pl-help" }, model.get("guide"));
  const keyOf = (letter) => element("span", {}, paintBlock(element("b", { class: "pl-key" }, letter), letter), ` ${paints[letter].name}`);
  const legend = element("p", { class: "pl-legend" }, ...[..."FBIW"].map(keyOf));
  root.append(
    element("div", { class: "pl-top" }, element("p", { class: "pl-title" }, name, " ", summary), score),
    verdict, board, table, axis, legend, live, trouble, busy, numbers, par, measured,
    element("div", { class: "pl-bars" },
      group("History", undo, redo, reset), group("Backward", splitOne, splitAll, mergeAll),
      group("Try it", run, solve, showPar), group("View", tableButton, largeButton)),
    paste, help,
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
  const placeOf = (id) => {
    const rows = rowsOf();
    const rank = rows.findIndex((row) => row.blocks.some((block) => block.id === id));
    return rank < 0 ? null : { rank, place: rows[rank].blocks.findIndex((block) => block.id === id) };
  };

  const blockOf = (id) => rowsOf().flatMap((row) => row.blocks).find((block) => block.id === id);

  function draw() {
    const view = model.get("view");
    const large = model.get("projector") ? 1.6 : 1;
    const lengths = view.rows.flatMap((row) => row.blocks.map((block) => block.end - block.start)).filter((one) => one > 0);
    const widest = Math.max(...view.rows.flatMap((row) => row.blocks.map((block) => block.text.length)));
    const left = 104 * large;
    const room = (board.clientWidth || 700) - left - 10;
    const least = widest * 8.4 * Math.min(large, 1.3) + 6; // the shortest block still holds its letters
    const shortest = Math.min(...lengths, view.end);
    const scale = Math.min(Math.max(Math.min(room / view.end, (90 * large) / shortest), least / shortest), 8000 / view.end);
    const hasRun = view.rows.some((row) => row.measured.length);
    geometry = { left, scale, large, pad: 26 * large, block: 34 * large, ran: hasRun ? 20 * large : 0, memory: 24 * large };
    board.firstChild.style.width = `${left + view.end * scale + 4}px`;
    grid.style.paddingTop = `${geometry.pad}px`;
    const had = board.contains(document.activeElement);
    const before = new Map([...nodes].map(([id, node]) => [id, [node.style.left, node.style.width]]));
    fitRows(view.rows.length);
    for (const [id, node] of nodes) if (!blockOf(id)) (node.remove(), nodes.delete(id));
    view.rows.forEach((row, rank) => fillRow(row, rank, view));
    glide(before);
    drawEdges(view);
    const every = Math.ceil((large * 40) / ((view.ticks[1]?.at ?? view.end) * scale));
    ticks.replaceChildren(...view.ticks.filter((_, index) => index % every === 0).map(({ at, text }) => {
      const tick = element("span", {}, text);
      tick.style.left = `${left + at * scale}px`;
      return tick;
    }));
    ticks.style.visibility = view.has_times ? "" : "hidden";
    choose(nearest(current), had);
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

  /** A dashed arrow from each needed action to the one that runs too early. */
  function drawEdges(view) {
    const head = shape("path", { d: "M0 0L8 4L0 8Z", fill: illegal.fill });
    const marker = shape("marker", { id: arrow, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" }, head);
    const lines = view.edges.map(([from, to]) => {
      const line = curveOf(placeOf(from), placeOf(to), view);
      return line && shape("path", { class: "pl-edge", "data-edge": `${from}-${to}`, d: line, "marker-end": `url(#${arrow})` });
    });
    edges.replaceChildren(marker, ...lines.filter(Boolean));
    for (const [id, node] of nodes) node.classList.toggle("pl-wrong", view.edges.some((pair) => pair.includes(id)));
  }

  function curveOf(from, to, view) {
    if (!from || !to) return null;
    const { left, scale, pad, block } = geometry;
    const at = ({ rank, place }) => {
      const { start, end } = view.rows[rank].blocks[place];
      const top = grid.children[rank].lastChild.offsetTop;
      return { x: left + ((start + end) / 2) * scale, top, bottom: top + block };
    };
    const [a, b] = [at(from), at(to)];
    if (from.rank === to.rank) return `M${a.x} ${a.top}C${a.x} ${a.top - pad} ${b.x} ${b.top - pad} ${b.x} ${b.top - 1}`;
    const [y, z] = from.rank < to.rank ? [a.bottom, b.top - 1] : [a.top, b.bottom + 1];
    const middle = (y + z) / 2;
    return `M${a.x} ${y}C${a.x} ${middle} ${b.x} ${middle} ${b.x} ${z}`;
  }

  // Choosing a block
  function nearest(id) {
    const other = [id, model.get("focus"), id.replace("B", "I"), id.replace(/[IW]/, "B")].find((one) => nodes.has(one));
    return other ?? rowsOf()[0].blocks[0].id;
  }
  function choose(id, takeFocus) {
    current = id;
    for (const [other, node] of nodes) node.setAttribute("tabindex", other === id ? 0 : -1);
    if (takeFocus && document.activeElement !== nodes.get(id)) nodes.get(id).focus();
    const { change } = blockOf(id);
    splitOne.textContent = change || "Split";
    splitOne.disabled = !change;
  }
  function step(key) {
    const rows = rowsOf();
    const { rank, place } = placeOf(current);
    const row = rows[rank].blocks;
    if (key in CARRY) return choose(row[Math.min(row.length - 1, Math.max(0, place + CARRY[key]))].id, true);
    const other = rows[rank + (key === "ArrowDown" ? 1 : -1)]?.blocks;
    if (!other?.length) return;
    const off = (block) => Math.abs(block.start + block.end - row[place].start - row[place].end);
    choose(other.reduce((best, block) => (off(block) < off(best) ? block : best)).id, true);
  }
  function splitOrMerge() {
    const { kind, change } = blockOf(current);
    if (change) send(kind === "B" ? "split" : "merge", { id: current });
  }

  // Keys
  function pick() {
    carried = { id: current, grab: Date.now() };
    nodes.get(current).classList.add("pl-lifted");
    live.textContent = `${current} picked up. Left and right carry it, Enter drops it, Escape puts it back.`;
  }
  function drop(words) {
    nodes.get(carried.id)?.classList.remove("pl-lifted");
    live.textContent = `${carried.id} ${words}`;
    carried = null;
  }
  function onKey(event) {
    const { key } = event;
    if (event.ctrlKey || event.metaKey) {
      const verb = { z: event.shiftKey ? "redo" : "undo", y: "redo" }[key.toLowerCase()];
      if (!verb || event.altKey) return;
      send(verb);
    } else if (dragged) {
      if (key !== "Escape") return;
      endDrag(false);
    } else if (carried) {
      if (key in CARRY) send("move", { id: carried.id, by: CARRY[key], grab: carried.grab });
      else if (key === "Enter" || key === " ") drop("dropped.");
      else if (key === "Escape") {
        send("cancel", { id: carried.id, grab: carried.grab });
        drop("put back.");
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
  function grabBlock(event) {
    const node = event.target.closest(".pl-block");
    if (!node || event.button) return;
    event.preventDefault();
    if (carried) drop("dropped.");
    choose(node.dataset.id, true);
    node.setPointerCapture(event.pointerId);
    dragged = { node, id: node.dataset.id, x: event.clientX, to: null, ...placeOf(node.dataset.id) };
  }
  function dragBlock(event) {
    if (!dragged || (dragged.to === null && Math.abs(event.clientX - dragged.x) < 4)) return;
    const { node, rank, place } = dragged;
    node.classList.add("pl-lifted");
    node.style.transform = `translate(${event.clientX - dragged.x}px, -4px)`;
    const track = node.parentNode;
    const x = (event.clientX - track.getBoundingClientRect().left) / geometry.scale;
    const others = rowsOf()[rank].blocks.filter((_, index) => index !== place);
    dragged.to = others.filter((block) => (block.start + block.end) / 2 < x).length;
    const at = dragged.to < others.length ? others[dragged.to].start : (others.at(-1)?.end ?? 0);
    slot.hidden = false;
    Object.assign(slot.style, { left: `${geometry.left + at * geometry.scale - 2}px`, top: `${grid.children[rank].offsetTop + track.offsetTop - 4}px`, height: `${geometry.block + 8}px` });
  }
  function endDrag(isDrop) {
    if (!dragged) return;
    const { node, id, to, place } = dragged;
    dragged = null;
    node.classList.remove("pl-lifted");
    node.style.transform = "";
    slot.hidden = true;
    if (isDrop && to !== null && to !== place) send("move", { id, to });
  }

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
    numbers.replaceChildren(...view.numbers.map((text) => element("span", {}, text)));
    par.textContent = view.par;
    measured.textContent = view.measured;
    axis.textContent = view.axis;
    axis.classList.toggle("pl-no-times", !view.has_times);
    trouble.textContent = model.get("trouble");
    trouble.hidden = !trouble.textContent;
    busy.textContent = model.get("busy");
    undo.disabled = !can.undo;
    redo.disabled = !can.redo;
    reset.disabled = !can.reset;
    splitAll.disabled = !can.split_all;
    mergeAll.disabled = !can.merge_all;
    run.hidden = !can.has_run;
    run.setAttribute("aria-disabled", String(!can.run || Boolean(busy.textContent)));
    solve.hidden = !can.solve;
    solve.disabled = Boolean(busy.textContent);
    showPar.hidden = !can.show_par;
    if (document.activeElement !== csv && !trouble.textContent) csv.value = view.csv.trim();
  }
  function announce() {
    live.textContent = model.get("said");
  }
  function show() {
    tell();
    if (model.get("table")) fillTable();
    else if (board.clientWidth) draw();
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

  board.addEventListener("keydown", guarded(root, onKey));
  board.addEventListener("focusin", (event) => event.target.dataset.id && choose(event.target.dataset.id, false));
  board.addEventListener("focusout", (event) => carried && event.relatedTarget && !board.contains(event.relatedTarget) && drop("dropped."));
  board.addEventListener("pointerdown", guarded(root, grabBlock));
  board.addEventListener("pointermove", guarded(root, dragBlock));
  board.addEventListener("pointerup", guarded(root, () => endDrag(true)));
  board.addEventListener("pointercancel", () => endDrag(false));
  csv.addEventListener("keydown", (event) => event.stopPropagation()); // letters are text here, and no shortcuts
  const stops = [
    listen(model, ["view"], guarded(root, show)),
    listen(model, ["can", "trouble", "busy"], guarded(root, tell)),
    listen(model, ["said"], announce),
    listen(model, ["table", "projector"], guarded(root, showView)),
    watchWidth(board, guarded(root, show)),
  ];
  guarded(root, showView)();
  return () => stops.forEach((stop) => stop());
}

export default { render };
