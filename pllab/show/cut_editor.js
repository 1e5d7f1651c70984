// The cut editor: draws bars and cut lines, moves a line. Sums and words come from Python.

const CUT_STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** Where a cut may stand: at least one layer after the cut before it, and one before the next. */
function movedTo(cuts, index, place, numLayers) {
  const low = (index ? cuts[index - 1] : 0) + 1;
  const high = (index + 1 < cuts.length ? cuts[index + 1] : numLayers) - 1;
  return cuts.map((cut, at) => (at === index ? Math.min(high, Math.max(low, place)) : cut));
}

/** The stages that the cuts make, each with its first layer, its end and its run from Python. */
function stagesOf(cuts, runs, numLayers) {
  const ends = [0, ...cuts, numLayers];
  return ends.slice(1).map((end, stage) => ({ stage, start: ends[stage], end, ...runs[`${ends[stage]}-${end}`] }));
}

function render({ model, el }) {
  const layers = model.get("layers");
  const runs = model.get("runs");
  const best = model.get("best");
  const paints = model.get("theme").paints;
  const numLayers = layers.length;
  const top = Math.max(...layers.map((layer) => layer.cost)) || 1;
  let geometry = null;
  let dragged = -1; // index of the line under the mouse button
  let bars = [];
  let lines = [];
  let sums = null;

  const stages = () => stagesOf(model.get("cuts"), runs, numLayers);
  const slowestOf = (all) => all.reduce((most, stage) => (stage.cost > most.cost ? stage : most));
  const move = (index, place) => {
    const cuts = movedTo(model.get("cuts"), index, place, numLayers);
    if (cuts[index] === model.get("cuts")[index]) return;
    model.set("cuts", cuts);
    model.save_changes();
  };

  // Parts
  const title = element("p", { class: "pl-title" }, element("strong", {}, model.get("title")));
  const picture = element("div", { class: "pl-cut-picture" });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Layers as a table" });
  const [bestButton, showBestButton] = toggleOf(model, "show_best", "Show the best cut");
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const tools = element("div", { class: "pl-tools", role: "group", "aria-label": "Cut editor" });
  tools.append(...(best.cuts ? [bestButton] : []), tableButton, largeButton);
  const help = element("p", { class: "pl-help" }, "Drag a line, or choose it with Tab and move it with the arrow keys.");
  const root = element("div", { class: "pl-widget pl-cut-editor", "data-pl-state": "drawing" });
  root.append(title, picture, live, table, help, tools);
  el.replaceChildren(root);
  keepLetters(root);

  // Drawing
  function draw(width) {
    const scale = model.get("projector") ? 1.6 : 1;
    const g = { width, scale, row: 26 * scale, font: 13 * scale, left: 78 * scale };
    g.right = Math.min(230 * scale, width * 0.38);
    g.bar = Math.max(30, width - g.left - g.right - 84 * scale);
    geometry = g;
    bars = layers.map(barOf);
    lines = model.get("cuts").map((_, index) => lineOf(index));
    sums = shape("g", { "aria-hidden": "true" });
    const svg = shape("svg", { width, height: numLayers * g.row + 8, "font-size": g.font });
    svg.append(...bars, sums, ...lines);
    picture.replaceChildren(svg);
    show();
    root.dataset.plState = "ready";
  }
  function barOf(layer, index) {
    const g = geometry;
    const middle = (index + 0.5) * g.row + 4;
    const size = Math.max(1, (layer.cost / top) * g.bar);
    const box = { class: "pl-box", x: g.left, y: middle - g.row * 0.36, width: size, height: g.row * 0.72 };
    return shape(
      "g",
      { class: "pl-layer", "aria-hidden": "true" },
      shape("text", { x: g.left - 8, y: middle, "text-anchor": "end" }, layer.name),
      shape("rect", box),
      shape("text", { x: g.left + size + 6, y: middle }, layer.text),
    );
  }
  function lineOf(index) {
    const g = geometry;
    const attributes = {
      class: "pl-cut", role: "slider", tabindex: 0, "aria-orientation": "vertical", "aria-label": `Cut ${index + 1}`,
      keydown: guarded(root, (event) => press(event, index)),
      pointerdown: guarded(root, (event) => {
        dragged = index;
        event.currentTarget.setPointerCapture(event.pointerId);
      }),
      pointermove: guarded(root, (event) => {
        if (dragged !== index) return;
        const y = event.clientY - picture.firstChild.getBoundingClientRect().top - 4;
        move(index, Math.round(y / g.row));
      }),
      pointerup: () => { dragged = -1; },
      pointercancel: () => { dragged = -1; },
    };
    const end = g.width - 6;
    return shape(
      "g",
      attributes,
      shape("rect", { class: "pl-catch", x: 0, y: -12, width: g.width, height: 24 }),
      shape("path", { class: "pl-line", d: `M6 0H${end}` }),
      shape("path", { class: "pl-knob", d: `M${end - 18} 0l9 -9l9 9l-9 9z` }),
    );
  }
  function sumOf(stage, isSlowest) {
    const g = geometry;
    const x = g.width - g.right;
    const from = stage.start * g.row + 10;
    const to = stage.end * g.row - 2;
    const words = isSlowest ? `stage ${stage.stage}: ${stage.text}, slowest` : `stage ${stage.stage}: ${stage.text}`;
    const bracket = shape("path", { d: `M${x - 8} ${from}h8V${to}h-8` });
    const text = shape("text", { x: x + 8, y: (from + to) / 2 }, words);
    return shape("g", { class: isSlowest ? "pl-sum pl-slowest" : "pl-sum" }, bracket, text);
  }

  // What is shown for the present cut
  function show() {
    const all = stages();
    const slowest = slowestOf(all);
    const isSlowest = (index) => index >= slowest.start && index < slowest.end;
    bars.forEach((bar, index) => {
      bar.classList.toggle("pl-slowest", isSlowest(index));
      bar.querySelector("rect").setAttribute("fill", paints[isSlowest(index) ? "B" : "F"].fill);
    });
    sums?.replaceChildren(...all.map((stage) => sumOf(stage, stage === slowest)), ...bestLines());
    lines.forEach((line, index) => placeLine(line, index, all));
    const told = [`The slowest stage is stage ${slowest.stage}, ${slowest.words}`];
    if (model.get("show_best")) told.push(slowest.cost <= best.cost * (1 + 1e-9) ? best.praise : best.words);
    if (live.textContent !== told.join(" ")) live.textContent = told.join(" ");
    if (model.get("table")) fillTable(all, slowest);
    showBestButton();
  }
  function placeLine(line, index, all) {
    const place = all[index].end;
    line.setAttribute("transform", `translate(0 ${place * geometry.row + 4})`);
    line.setAttribute("aria-valuemin", all[index].start + 1);
    line.setAttribute("aria-valuemax", all[index + 1].end - 1);
    line.setAttribute("aria-valuenow", place);
    line.setAttribute("aria-valuetext", `after ${layers[place - 1].name}`);
  }
  function bestLines() {
    if (!model.get("show_best")) return [];
    return best.cuts.map((cut) => shape("path", { class: "pl-best", d: `M6 ${cut * geometry.row + 4}H${geometry.width - 6}` }));
  }
  function fillTable(all, slowest) {
    const stageOf = (index) => all.find((stage) => index < stage.end);
    const rows = layers.map((layer, index) => {
      const stage = stageOf(index);
      return [layer.name, layer.text, `stage ${stage.stage}`, stage.text, stage === slowest ? "slowest" : ""];
    });
    const caption = `${numLayers} layers in ${all.length} stages`;
    table.replaceChildren(tableOf(caption, ["Layer", "Cost", "Stage", "Cost of the stage", "Slowest"], rows));
  }
  function showView() {
    showTableButton();
    showLargeButton();
    const asTable = Boolean(model.get("table"));
    table.hidden = !asTable;
    picture.hidden = help.hidden = asTable;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    if (!asTable && picture.clientWidth) draw(picture.clientWidth);
    else if (geometry) show();
  }

  function press(event, index) {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in CUT_STEPS)) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    move(index, model.get("cuts")[index] + CUT_STEPS[event.key]);
  }

  const stopCuts = listen(model, ["cuts", "show_best"], guarded(root, show));
  const stopViews = listen(model, ["table", "projector"], guarded(root, showView));
  const stopWidth = watchWidth(picture, guarded(root, draw));
  guarded(root, showView)();
  return () => [stopCuts, stopViews, stopWidth].forEach((stop) => stop());
}

export default { render };
