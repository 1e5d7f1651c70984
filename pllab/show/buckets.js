// The bucket slider: boxes as wide as their bytes above a chart of times. All words come from Python.

function render({ model, el }) {
  const choices = model.get("choices");
  const sizes = model.get("sizes");
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const last = choices.length - 1;
  const colours = model.get("theme").paints;
  const prefix = `pl-buckets-${Math.random().toString(36).slice(2, 8)}`;
  const slider = element("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "Size of a bucket", input: () => go(Number(slider.value)) });
  const smaller = element("button", { type: "button", click: () => go(model.get("step") - 1) }, "Smaller");
  const larger = element("button", { type: "button", click: () => go(model.get("step") + 1) }, "Larger");
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const title = element("p", { class: "pl-title" }, element("strong", {}, model.get("title")), " ", model.get("summary"));
  const strip = element("div", { class: "pl-strip", role: "img" });
  const chart = element("div", { class: "pl-chart", role: "img" });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const legend = element("p", { class: "pl-legend" }, key("pl-predicted", "predicted (simulated)"), key("pl-measured", "measured (real), quartiles"));
  const picture = element("div", { class: "pl-buckets-picture" }, strip, element("p", { class: "pl-note" }, "gradients in the order of backward, as wide as their bytes; a box is a message"), chart, legend);
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Bucket sizes as a table" });
  const tools = element("div", { class: "pl-tools", role: "group", "aria-label": "Buckets" }, smaller, slider, larger, tableButton, largeButton);
  const root = element("div", { class: "pl-widget pl-buckets", "data-pl-state": "drawing" }, title, picture, table, live, tools);
  el.replaceChildren(root);
  keepLetters(root);

  function go(to) {
    model.set("step", Math.min(last, Math.max(0, to)));
    model.save_changes();
  }
  function key(name, text) {
    const mark = name === "pl-measured" ? shape("circle", { cx: 7, cy: 7, r: 5, class: name }) : shape("rect", { x: 2, y: 2, width: 10, height: 10, class: name });
    return element("span", { class: "pl-key" }, shape("svg", { width: 15, height: 14, "aria-hidden": "true" }, mark), ` ${text}`);
  }

  function drawStrip(width) {
    const height = model.get("projector") ? 60 : 40;
    const scale = width / total;
    const striped = patternOf(prefix, { ...colours.C, hatch: "////" }, false);
    let start = 0;
    const boxes = choices[model.get("step")].filled.map((size, index) => {
      const box = shape("rect", { class: "pl-box", x: start * scale, y: 1, width: size * scale, height: height - 2, fill: index % 2 ? `url(#${prefix})` : colours.C.fill });
      start += size;
      return box;
    });
    let reached = 0;
    const marks = sizes.map((size) => `M${(reached += size) * scale} ${height - 8}v7`).join("");
    strip.replaceChildren(shape("svg", { width, height }, striped, ...boxes, shape("path", { class: "pl-cut", d: marks })));
  }

  function drawChart(width) {
    const scale = model.get("projector") ? 1.6 : 1;
    const font = 12 * scale;
    const [left, bottom, height] = [64 * scale, 150 * scale, 200 * scale];
    const x = (index) => left + 24 * scale + (index * (width - left - 60 * scale)) / Math.max(1, last);
    const y = (seconds) => bottom - (seconds / model.get("top_s")) * (bottom - 10);
    const step = model.get("step");
    const parts = [shape("path", { class: "pl-here", d: `M${x(step)} 4V${bottom}` })];
    for (const { at, text } of model.get("ticks")) {
      parts.push(shape("path", { class: "pl-axis", d: `M${left - 5} ${y(at)}H${width - 8}` }));
      parts.push(shape("text", { class: "pl-axis-text", x: left - 9, y: y(at) + 4, "text-anchor": "end" }, text));
    }
    parts.push(shape("path", { class: "pl-curve", d: `M${choices.map((one, index) => `${x(index)} ${y(one.seconds)}`).join("L")}` }));
    choices.forEach((one, index) => {
      const size = (index === step ? 13 : 8) * scale;
      parts.push(shape("rect", { class: "pl-predicted", x: x(index) - size / 2, y: y(one.seconds) - size / 2, width: size, height: size }));
      if (one.measured_s !== null) {
        const [middle, low, high] = [y(one.measured_s), y(one.low), y(one.high)];
        parts.push(shape("path", { class: "pl-range", d: `M${x(index) - 6} ${low}h12M${x(index)} ${low}V${high}M${x(index) - 6} ${high}h12` }));
        parts.push(shape("circle", { class: "pl-measured", cx: x(index), cy: middle, r: (index === step ? 8 : 5) * scale }));
      }
      const shown = index === step || (index % 2 === 0 && Math.abs(index - step) > 1 && width > 560);
      if (shown) parts.push(shape("text", { class: index === step ? "pl-axis-text pl-shown" : "pl-axis-text", x: x(index), y: bottom + 20 * scale, "text-anchor": "middle" }, one.label));
    });
    parts.push(shape("text", { class: "pl-axis-text", x: left + (width - left) / 2, y: bottom + 42 * scale, "text-anchor": "middle" }, "size of a bucket"));
    chart.replaceChildren(shape("svg", { width, height, "font-size": font }, ...parts));
  }

  function show() {
    const step = model.get("step");
    const one = choices[step];
    slider.value = step;
    slider.setAttribute("aria-valuetext", one.sentence);
    smaller.disabled = step === 0;
    larger.disabled = step === last;
    live.textContent = one.sentence;
    strip.setAttribute("aria-label", `${sizes.length} gradients in ${one.num_messages} messages`);
    chart.setAttribute("aria-label", `Time by bucket size; ${one.sentence}`);
    if (picture.clientWidth) {
      drawStrip(picture.clientWidth);
      drawChart(picture.clientWidth);
    }
    if (model.get("table")) showTable();
    root.dataset.plState = "ready";
  }
  function showTable() {
    const rows = choices.map((one) => [one.label, String(one.num_messages), one.largest, one.predicted, one.measured, one.spread]);
    table.replaceChildren(tableOf(model.get("title"), ["Bucket", "Messages", "Largest", "Predicted (simulated)", "Measured (real)", "Quartiles"], rows));
    table.querySelectorAll("tbody tr")[model.get("step")].classList.add("pl-running");
  }
  function showView() {
    showTableButton();
    showLargeButton();
    table.hidden = !model.get("table");
    picture.hidden = !table.hidden;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    show();
  }

  // The slider's own keys, and not JupyterLab's, which folds headings with the arrows.
  slider.addEventListener("keydown", (event) => event.stopPropagation());

  const stops = [
    listen(model, ["step"], guarded(root, show)),
    listen(model, ["table", "projector"], guarded(root, showView)),
    watchWidth(picture, guarded(root, show)),
  ];
  guarded(root, showView)();
  return () => stops.forEach((stop) => stop());
}

export default { render };
