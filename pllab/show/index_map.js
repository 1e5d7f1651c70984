// The index map: draws one of the maps that Python made. Sliders and keys choose; words come from Python.

let numMaps = 0;

/** The sample that a key leads to, or null for a key that is not ours. */
function moved(sample, key, numSamples, numColumns) {
  const to = {
    ArrowLeft: sample - 1, ArrowRight: sample + 1, ArrowUp: sample - numColumns, ArrowDown: sample + numColumns,
    Home: 0, End: numSamples - 1,
  }[key];
  if (to === undefined) return null;
  return to < 0 || to >= numSamples ? sample : to;
}

/** What stands in a square: rank and step, and how many visits more. */
function markOf(who) {
  if (!who.length) return "none";
  return `r${who[0][0]} s${who[0][1]}${who.length > 1 ? ` +${who.length - 1}` : ""}`;
}

function render({ model, el }) {
  const prefix = `pl-map-${++numMaps}-${Math.random().toString(36).slice(2, 8)}`;
  const [numSamples, numColumns] = [model.get("num_samples"), model.get("num_columns")];
  const [worlds, paints] = [model.get("world_sizes"), model.get("paints")];
  const choose = (trait, value) => {
    model.set(trait, value);
    model.save_changes();
  };
  const shown = () => model.get("maps")[`${model.get("world_size")}/${model.get("remainder")}`][model.get("epoch")];

  // Parts
  const slider = (last, use) => {
    const input = element("input", { type: "range", min: 0, max: last, step: 1 });
    input.addEventListener("input", () => use(Number(input.value)));
    return input;
  };
  const ranks = slider(worlds.length - 1, (at) => choose("world_size", worlds[at]));
  const epochs = slider(model.get("num_epochs") - 1, (at) => choose("epoch", at));
  const policy = element("select", { change: () => choose("remainder", policy.value) });
  policy.append(...model.get("remainders").map((name) => element("option", { value: name }, name)));
  const [ranksText, epochsText] = [element("span", {}), element("span", {})];
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const tools = element("div", { class: "pl-tools", role: "group", "aria-label": "Index map" });
  tools.append(
    element("label", {}, ranksText, ranks),
    element("label", {}, epochsText, epochs),
    element("label", {}, "Left over: ", policy),
    tableButton, largeButton,
  );
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const info = element("p", { class: "pl-info" });
  const grid = element("div", {
    class: "pl-map", role: "grid", tabindex: 0, "aria-readonly": "true",
    "aria-label": `Index map: ${numSamples} samples in the order of the data set. Arrow keys choose a sample.`,
    style: `--pl-columns: ${numColumns}`,
  });
  const cells = Array.from({ length: numSamples }, (_, sample) =>
    element("div", { id: `${prefix}-${sample}`, role: "gridcell", class: "pl-sample", click: () => choose("sample", sample) }));
  for (let start = 0; start < numSamples; start += numColumns)
    grid.append(element("div", { role: "row", class: "pl-row" }, ...cells.slice(start, start + numColumns)));
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Index map as a table" });
  const legend = element("p", { class: "pl-legend" });
  legend.append("r1 s2: rank 1 loads it in step 2. Thick edge: loaded more than once. Hatched: loaded by nobody.");
  const root = element("div", { class: "pl-widget pl-index-map", "data-pl-state": "drawing" });
  root.append(live, grid, info, table, tools, legend);
  el.replaceChildren(root);
  keepLetters(root);

  // What is shown
  function show() {
    const map = shown();
    map.owners.forEach((who, sample) => paint(cells[sample], who, sample, map.sentences[sample]));
    live.textContent = map.summary;
    ranks.value = worlds.indexOf(model.get("world_size"));
    epochs.value = model.get("epoch");
    policy.value = model.get("remainder");
    ranksText.textContent = `Ranks: ${model.get("world_size")}`;
    epochsText.textContent = `Epoch: ${model.get("epoch")}`;
    ranks.setAttribute("aria-valuetext", String(model.get("world_size")));
    const caption = "Samples of every rank and step";
    table.replaceChildren(tableOf(caption, ["Rank", "Step", "Samples"], map.rows));
    point();
    root.dataset.plState = "ready";
  }
  function paint(cell, who, sample, sentence) {
    const colours = who.length ? paints[who[0][0] % paints.length] : null;
    cell.className = `pl-sample${who.length ? "" : " pl-nobody"}${who.length > 1 ? " pl-again" : ""}`;
    cell.style.background = colours ? colours.fill : "";
    cell.style.color = colours ? colours.text : "";
    cell.setAttribute("aria-label", sentence);
    const number = element("span", { class: "pl-number", "aria-hidden": "true" }, String(sample));
    cell.replaceChildren(number, element("b", { "aria-hidden": "true" }, markOf(who)));
  }
  function point() {
    const sample = model.get("sample");
    cells.forEach((cell, index) => cell.classList.toggle("pl-chosen", index === sample));
    grid.setAttribute("aria-activedescendant", cells[sample].id);
    info.textContent = shown().sentences[sample];
  }
  function showView() {
    showTableButton();
    showLargeButton();
    const asTable = Boolean(model.get("table"));
    table.hidden = !asTable;
    grid.hidden = info.hidden = legend.hidden = asTable;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = moved(model.get("sample"), event.key, numSamples, numColumns);
    if (to === null) return;
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (event.target !== grid) return; // a slider's, the list's or the table's own
    event.preventDefault();
    choose("sample", to);
  }

  root.addEventListener("keydown", guarded(root, press));
  const stops = [
    listen(model, ["world_size", "epoch", "remainder"], guarded(root, show)),
    listen(model, ["sample"], guarded(root, point)),
    listen(model, ["table", "projector"], guarded(root, showView)),
  ];
  guarded(root, show)();
  guarded(root, showView)();
  return () => stops.forEach((stop) => stop());
}

export default { render };
