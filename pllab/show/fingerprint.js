// The gradient fingerprint: a cell for each parameter. All words and verdicts come from Python.

let numPrints = 0;

function render({ model, el }) {
  const prefix = `pl-print-${++numPrints}-${Math.random().toString(36).slice(2, 8)}`;
  const ways = model.get("ways");
  const count = ways[0].cells.length;
  const top = Math.max(2, ...ways.flatMap((way) => way.cells.map((cell) => Math.min(8, Math.abs(cell.ratio)))));
  const change = (trait, to, most) => {
    model.set(trait, Math.min(most, Math.max(0, to)));
    model.save_changes();
  };
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const title = element("p", { class: "pl-title" }, element("strong", {}, model.get("title")));
  const choice = element(
    "select",
    { "aria-label": "Way", change: () => change("way", choice.selectedIndex, ways.length - 1) },
    ...ways.map((way) => element("option", {}, way.name)),
  );
  const tools = element("div", { class: "pl-tools", role: "group", "aria-label": "View" });
  tools.append(element("label", {}, "Way ", choice), tableButton, largeButton);
  const row = element("div", { class: "pl-cells", role: "row" });
  const grid = element("div", {
    class: "pl-grid", role: "grid", tabindex: 0, "aria-readonly": "true",
    "aria-label": "Parameters. Left and right choose a parameter, up and down another way.",
  }, row);
  const verdict = element("p", { class: "pl-verdict", "aria-live": "polite" });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Gradients as a table" });
  const root = element("div", { class: "pl-widget pl-fingerprint", "data-pl-state": "drawing" });
  root.append(title, tools, grid, table, verdict, live);
  el.replaceChildren(root);
  keepLetters(root);

  function cellOf(cell, index) {
    const bar = element("span", { class: "pl-bar" });
    bar.style.width = `${(100 * Math.min(top, Math.abs(cell.ratio))) / top}%`;
    const one = element("span", { class: "pl-one" });
    one.style.left = `${100 / top}%`;
    return element(
      "div",
      {
        class: `pl-cell pl-${cell.kind}`, role: "gridcell", id: `${prefix}-${index}`, "aria-label": cell.words,
        click: () => change("cell", index, count - 1),
      },
      element("span", { class: "pl-name" }, cell.name),
      element("span", { class: "pl-ratio" }, cell.text),
      element("span", { class: "pl-space", "aria-hidden": "true" }, bar, one),
    );
  }
  function show() {
    const way = ways[model.get("way")];
    choice.selectedIndex = model.get("way");
    row.replaceChildren(...way.cells.map(cellOf));
    verdict.textContent = `${way.name}: ${way.verdict}`;
    const texts = way.cells.map((cell) => [cell.name, cell.text, cell.words]);
    table.replaceChildren(tableOf(`${way.name}: ${model.get("title")}`, ["Parameter", "Ratio", "In words"], texts));
    showCell();
    root.dataset.plState = "ready";
  }
  function showCell() {
    const index = model.get("cell");
    for (const [at, node] of [...row.children].entries()) node.classList.toggle("pl-chosen", at === index);
    grid.setAttribute("aria-activedescendant", `${prefix}-${index}`);
    live.textContent = ways[model.get("way")].cells[index].words;
  }
  function showView() {
    showTableButton();
    showLargeButton();
    table.hidden = !model.get("table");
    grid.hidden = !table.hidden;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
  }
  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [cell, way] = [model.get("cell"), model.get("way")];
    const moves = {
      ArrowLeft: ["cell", cell - 1], ArrowRight: ["cell", cell + 1], Home: ["cell", 0], End: ["cell", count - 1],
      ArrowUp: ["way", way - 1], ArrowDown: ["way", way + 1],
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    change(...move, (move[0] === "cell" ? count : ways.length) - 1);
  });

  const stops = [
    listen(model, ["way"], guarded(root, show)),
    listen(model, ["cell"], guarded(root, showCell)),
    listen(model, ["table", "projector"], guarded(root, showView)),
  ];
  guarded(root, showView)();
  guarded(root, show)();
  return () => stops.forEach((stop) => stop());
}

export default { render };
