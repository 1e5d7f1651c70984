// The race: bars that follow their traits. All words and verdicts come from Python.

function render({ model, el }) {
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const title = element("p", { class: "pl-title" }, element("strong", {}, model.get("title")));
  const track = element("div", { class: "pl-lanes" });
  const axis = element("div", { class: "pl-ticks", "aria-hidden": "true" });
  const unit = element("p", { class: "pl-unit" });
  const picture = element("div", { class: "pl-race-picture", role: "group", "aria-label": `Race: ${model.get("title")}` }, track, axis, unit);
  const doubts = element("div", { class: "pl-doubts" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Race as a table" });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const tools = element("div", { class: "pl-tools", role: "group", "aria-label": "View" }, tableButton, largeButton);
  const root = element("div", { class: "pl-widget pl-race", "data-pl-state": "drawing" });
  root.append(title, picture, table, doubts, live, tools);
  el.replaceChildren(root);
  keepLetters(root);

  /** One row of parts per contestant; made once, so that bars glide instead of jumping. */
  const rows = model.get("lanes").map((lane, index) => {
    const bar = element("div", { class: index ? "pl-bar" : "pl-bar pl-baseline" });
    const whisker = element("div", { class: "pl-whisker", hidden: true });
    const mark = element("div", { class: "pl-mark" });
    const progress = element("div", { class: "pl-progress", role: "progressbar", "aria-label": lane.name, "aria-valuemin": 0, "aria-valuemax": 100 }, mark);
    const value = element("span", { class: "pl-value" });
    const ratio = element("strong", { class: "pl-ratio" });
    const note = element("span", { class: "pl-note" });
    track.append(
      element("div", { class: "pl-name" }, lane.name),
      element("div", { class: "pl-lane" }, element("div", { class: "pl-space" }, bar, whisker), progress),
      element("div", { class: "pl-result" }, value, " ", ratio, " ", note),
    );
    return { bar, whisker, mark, progress, value, ratio, note };
  });

  function show() {
    const top = model.get("top");
    const share = (rate) => `${(100 * rate) / top}%`;
    model.get("lanes").forEach((lane, index) => {
      const row = rows[index];
      row.bar.style.width = share(lane.rate);
      row.whisker.hidden = lane.num_rates < 2;
      row.whisker.style.left = share(lane.low);
      row.whisker.style.width = share(lane.high - lane.low);
      row.mark.style.width = `${100 * lane.progress}%`;
      row.progress.setAttribute("aria-valuenow", Math.round(100 * lane.progress));
      row.value.textContent = lane.value;
      row.ratio.textContent = lane.ratio;
      row.note.textContent = lane.note;
    });
    const ticks = model.get("ticks").map(({ at, text }) => {
      const tick = element("span", {}, text);
      tick.style.left = `${100 * at}%`;
      return tick;
    });
    axis.replaceChildren(...ticks);
    unit.textContent = model.get("unit");
    const found = model.get("lanes").filter((lane) => lane.doubt);
    doubts.replaceChildren(...found.map((lane) => element("p", { class: "pl-doubt" }, lane.doubt)));
    if (model.get("table")) showTable();
    root.dataset.plState = "ready";
  }
  function showTable() {
    const headings = ["Contestant", "Progress", `Median (${model.get("unit")})`, "Range", "Speed-up", "Note"];
    const texts = model.get("lanes").map((lane) => [
      lane.name, `${Math.round(100 * lane.progress)} %`, lane.value, lane.spread, lane.ratio, lane.note,
    ]);
    table.replaceChildren(tableOf(model.get("title"), headings, texts));
  }
  function showView() {
    showTableButton();
    showLargeButton();
    table.hidden = !model.get("table");
    picture.hidden = !table.hidden;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    show();
  }
  function tell() {
    live.textContent = model.get("news");
  }

  const stops = [
    listen(model, ["lanes", "ticks", "top"], guarded(root, show)),
    listen(model, ["table", "projector"], guarded(root, showView)),
    listen(model, ["news"], guarded(root, tell)),
  ];
  guarded(root, showView)();
  tell();
  return () => stops.forEach((stop) => stop());
}

export default { render };
