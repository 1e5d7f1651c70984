// The clock player: a grid of ticks and stages that follows two sliders. Ticks and words come from Python.

const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const TICK_MS = 700;
let numClocks = 0;

/** Sizes in pixels: a column for each tick, a row for each stage. */
function clockGeometry(width, numTicks, numStages, isLarge) {
  const scale = isLarge ? 1.6 : 1;
  const left = 66 * scale;
  const column = Math.min(52 * scale, (width - left - 6) / Math.max(1, numTicks));
  const row = 32 * scale;
  return { left, column, row, font: 13 * scale, bottom: numStages * row, height: numStages * row + 26 * scale };
}

function render({ model, el }) {
  const hatch = `pl-clock-idle-${++numClocks}-${Math.random().toString(36).slice(2, 8)}`;
  const theme = model.get("theme");

  const ticks = () => model.get("view").ticks;
  const last = () => Math.max(0, ticks().length - 1);
  const step = () => Math.min(last(), model.get("step"));
  const set = (trait, value) => {
    model.set(trait, value);
    model.save_changes();
  };
  const go = (to) => set("step", Math.min(last(), Math.max(0, to)));
  const seek = (to) => {
    player.pause();
    go(to);
  };

  // Parts
  const [batches, showBatches] = sizeOf("num_batches", "Micro-batches");
  const [stages, showStages] = sizeOf("num_partitions", "Stages");
  const back = element("button", { type: "button", click: () => seek(step() - 1) }, "Step back");
  const play = element("button", { type: "button", class: "pl-play", click: () => player.toggle() });
  const forth = element("button", { type: "button", click: () => seek(step() + 1) }, "Step forward");
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const name = element("strong");
  const summary = element("span");
  const grid = element("div", { class: "pl-clock-grid", role: "grid", tabindex: 0, "aria-readonly": "true" });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const numbers = element("p", { class: "pl-numbers", role: "status" });
  const problem = element("p", { class: "pl-error", role: "alert", hidden: true });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Clock as a table" });
  const pattern = shape("svg", { class: "pl-patterns", width: 0, height: 0, "aria-hidden": "true" }, patternOf(hatch, theme.idle, true));
  const root = element("div", { class: "pl-widget pl-clock", "data-pl-state": "drawing" });
  root.append(
    pattern,
    element("p", { class: "pl-title" }, name, " ", summary),
    element("div", { class: "pl-tools", role: "group", "aria-label": "Sizes" }, batches, stages),
    grid, table, problem, live, numbers,
    element("div", { class: "pl-tools", role: "group", "aria-label": "Player" }, back, play, forth, tableButton, largeButton),
  );
  el.replaceChildren(root);
  keepLetters(root);

  /** A slider with its name and its value, bound to a trait. */
  function sizeOf(trait, text) {
    const value = element("output");
    const change = () => {
      player.pause();
      set(trait, Number(slider.value));
    };
    const slider = element("input", { type: "range", min: 1, max: model.get("limits")[trait], step: 1, "aria-label": text, input: change });
    const show = () => {
      slider.value = model.get(trait);
      value.textContent = model.get(trait);
    };
    return [element("label", { class: "pl-size" }, text, slider, value), show];
  }

  // Drawing: all parts of the grid are made anew when the sizes change, and marked when the tick changes
  let cells = [];
  let marks = [];
  let column = null;
  let geometry = null;
  function draw() {
    const view = model.get("view");
    const numStages = model.get("num_partitions");
    const numTicks = view.ticks.length;
    const g = (geometry = clockGeometry(grid.clientWidth || 640, numTicks, numStages, model.get("projector")));
    cells = view.ticks.flatMap((pairs, tick) => pairs.map(([batch, stage]) => cellOf(tick, batch, stage)));
    const rows = Array.from({ length: numStages }, (_, stage) => rowOf(stage, numTicks));
    const every = [1, 2, 5, 10].find((one) => one * g.column >= 1.7 * g.font) ?? 20; // numbers that do not touch
    marks = view.ticks.map((_, tick) => {
      const at = { x: g.left + (tick + 0.5) * g.column, y: g.bottom + g.font, "text-anchor": "middle" };
      return shape("text", { class: "pl-tick", ...at }, tick % every ? "" : tick);
    });
    const word = shape("text", { class: "pl-tick", x: g.left - 10, y: g.bottom + g.font, "text-anchor": "end" }, "tick");
    column = shape("rect", { class: "pl-column", y: 1, width: g.column, height: Math.max(0, g.bottom - 2) });
    const extras = shape("g", { "aria-hidden": "true" }, word, ...marks, column);
    const drawn = { width: g.left + numTicks * g.column + 4, height: g.height, "font-size": g.font, role: "presentation", click: pick };
    grid.replaceChildren(shape("svg", drawn, ...rows, extras));
    grid.setAttribute("aria-label", `Clock of ${view.title}. Left and right step, space plays.`);
  }
  function rowOf(stage, numTicks) {
    const g = geometry;
    const middle = (stage + 0.5) * g.row;
    return shape(
      "g",
      { role: "row", "aria-label": `stage ${stage}` },
      shape("text", { class: "pl-stage", role: "rowheader", x: g.left - 10, y: middle, "text-anchor": "end" }, `stage ${stage}`),
      shape("rect", { class: "pl-empty", x: g.left, y: stage * g.row + 3, width: numTicks * g.column, height: g.row - 6, fill: `url(#${hatch})` }),
      ...cells.filter((cell) => cell.stage === stage).map((cell) => cell.node),
    );
  }
  function cellOf(tick, batch, stage) {
    const g = geometry;
    const x = g.left + tick * g.column;
    const y = stage * g.row + 3;
    const ground = shape("rect", { x, y, width: g.column, height: g.row - 6, fill: "var(--pl-ground)" });
    const box = shape("rect", { class: "pl-cell", x, y, width: g.column, height: g.row - 6, fill: theme.paints.F.fill });
    const said = `tick ${tick}: micro-batch ${batch} on stage ${stage}`;
    const node = shape("g", { role: "gridcell", "aria-label": said }, ground, box);
    const text = g.column >= 3.2 * g.font ? `F${batch}` : String(batch);
    if (g.column >= text.length * g.font * 0.62 + 3) {
      const at = { x: x + g.column / 2, y: (stage + 0.5) * g.row, fill: theme.paints.F.text, "text-anchor": "middle" };
      node.append(shape("text", { class: "pl-number", ...at, "aria-hidden": "true" }, text));
    }
    return { tick, stage, node };
  }

  // What is shown
  function show() {
    const view = model.get("view");
    const now = step();
    for (const { tick, node } of cells) {
      node.classList.toggle("pl-later", tick > now);
      node.classList.toggle("pl-runs", tick === now);
    }
    marks.forEach((mark, tick) => mark.classList.toggle("pl-now", tick === now));
    column?.setAttribute("x", geometry.left + now * geometry.column);
    column?.toggleAttribute("hidden", view.ticks.length === 0);
    const sentence = view.sentences[now] ?? "";
    if (live.textContent !== sentence) live.textContent = sentence;
    back.disabled = now === 0;
    forth.disabled = now === last();
    play.textContent = player.isOn() ? "Pause" : "Play";
    [...table.querySelectorAll("tbody tr")].forEach((line, tick) => line.classList.toggle("pl-runs", tick === now));
  }
  function showView() {
    const view = model.get("view");
    const asTable = Boolean(model.get("table"));
    for (const react of [showTableButton, showLargeButton, showBatches, showStages]) react();
    name.textContent = view.title;
    summary.textContent = view.summary;
    numbers.replaceChildren(...view.numbers.map((text) => element("span", {}, text)));
    problem.textContent = view.problem;
    problem.hidden = !view.problem;
    numbers.hidden = summary.hidden = Boolean(view.problem);
    table.hidden = !asTable;
    grid.hidden = asTable || Boolean(view.problem);
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    table.replaceChildren(...(asTable ? [tableView(view)] : []));
    if (!grid.hidden) draw();
    show();
    root.dataset.plState = "ready";
  }
  function tableView(view) {
    const all = Array.from({ length: model.get("num_partitions") }, (_, stage) => stage);
    const rows = view.ticks.map((pairs, tick) => {
      const at = new Map(pairs.map(([batch, stage]) => [stage, `micro-batch ${batch}`]));
      return [String(tick), ...all.map((stage) => at.get(stage) ?? "idle")];
    });
    return tableOf(view.title, ["Tick", ...all.map((stage) => `Stage ${stage}`)], rows);
  }

  // Mouse and keys
  function pick(event) {
    const at = event.clientX - grid.firstChild.getBoundingClientRect().left - geometry.left;
    if (at >= 0) seek(Math.floor(at / geometry.column));
  }
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === "INPUT") return event.stopPropagation(); // the slider's own, and not JupyterLab's
    if (event.target !== grid || !(event.key === " " || event.key in MOVES)) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (event.key === " ") player.toggle();
    else seek(step() + MOVES[event.key]);
  }

  const player = stepper({
    live, ms: TICK_MS, show, isOver: () => step() === last(), rewind: () => go(0), advance: () => go(step() + 1),
  });
  root.addEventListener("keydown", guarded(root, press));
  const stopSteps = listen(model, ["step"], guarded(root, show));
  const stopViews = listen(model, ["view", "table", "projector"], guarded(root, showView));
  const stopSizes = listen(model, ["num_batches", "num_partitions"], guarded(root, () => { showBatches(); showStages(); }));
  const stopWidth = watchWidth(grid, guarded(root, () => { draw(); show(); }));
  guarded(root, showView)();
  return () => {
    player.stop();
    for (const stop of [stopSteps, stopViews, stopSizes, stopWidth]) stop();
  };
}

export default { render };
