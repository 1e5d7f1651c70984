// The ring player: ranks on a circle, and the messages of one step on their way. Moments and words come from Python.

const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
const STEP_MS = 1200;

/** Where things are, in pixels: the first rank at the top, the next ones clockwise. */
function ringGeometry(width, numRanks, isLarge) {
  const wide = Math.max(105, 27 * numRanks); // more ranks, a larger ring, so that messages fit between them
  const scale = Math.min(isLarge ? 1.6 : 1, width / (2 * wide + 160));
  const [radius, node] = [wide * scale, 27 * scale];
  const height = 2 * (radius + node) + 46 * scale;
  const angle = (rank) => (2 * Math.PI * rank) / numRanks - Math.PI / 2;
  const at = (rank, far = radius) => [width / 2 + far * Math.cos(angle(rank)), height / 2 + far * Math.sin(angle(rank))];
  return { width, height, radius, node, at, font: 13 * scale };
}

function render({ model, el }) {
  const theme = model.get("theme");

  const moments = () => model.get("view").moments;
  const last = () => moments().length - 1;
  const step = () => Math.min(last(), model.get("step"));
  const go = (to) => {
    model.set("step", Math.min(last(), Math.max(0, to)));
    model.save_changes();
  };
  const seek = (to) => {
    player.pause();
    go(to);
  };

  // Parts
  const back = element("button", { type: "button", click: () => seek(step() - 1) }, "Step back");
  const play = element("button", { type: "button", class: "pl-play", click: () => player.toggle() });
  const forth = element("button", { type: "button", click: () => seek(step() + 1) }, "Step forward");
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const name = element("strong");
  const summary = element("span");
  const picture = element("div", { class: "pl-ring-picture", role: "group", tabindex: 0 });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Ring as a table" });
  const root = element("div", { class: "pl-widget pl-ring", "data-pl-state": "drawing" });
  root.append(
    element("p", { class: "pl-title" }, name, " ", summary),
    picture, table, live,
    element("div", { class: "pl-tools", role: "group", "aria-label": "Player" }, back, play, forth, tableButton, largeButton),
  );
  el.replaceChildren(root);
  keepLetters(root);

  // Drawing
  function draw() {
    const moment = moments()[step()];
    const g = ringGeometry(picture.clientWidth || 640, moment.held.length, model.get("projector"));
    const way = shape("circle", { class: "pl-ring-way", cx: g.width / 2, cy: g.height / 2, r: g.radius });
    const ranks = moment.held.map((held, rank) => rankOf(g, rank, held));
    const hops = moment.hops.map((hop) => hopOf(g, hop));
    const drawn = { width: g.width, height: g.height, "font-size": g.font, role: "presentation" };
    picture.replaceChildren(shape("svg", drawn, way, ...hops, ...ranks));
  }
  function rankOf(g, rank, held) {
    const [x, y] = g.at(rank);
    const [left, top] = g.at(rank, g.radius + g.node + 0.9 * g.font);
    const paint = theme.paints.F;
    const side = Math.sign(Math.round(left - g.width / 2)); // names beside the ring stand clear of it
    const anchor = { x: left + side * 1.1 * g.font, y: top };
    return shape(
      "g",
      { role: "img", "aria-label": `rank ${rank} holds ${held}` },
      shape("circle", { class: "pl-ring-rank", cx: x, cy: y, r: g.node, fill: paint.fill }),
      shape("text", { class: "pl-ring-held", x, y, fill: paint.text, "font-size": fitting(held, g.node, g.font) }, held),
      shape("text", { class: "pl-ring-name", ...anchor }, `rank ${rank}`),
    );
  }
  function hopOf(g, hop) {
    const [from, to] = [g.at(hop.source), g.at(hop.to)];
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    const [dx, dy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
    // Two ranks send to each other along one line: each message keeps to its own side of it.
    const aside = moments()[0].held.length === 2 ? 0.55 * g.node : 0;
    const along = (far) => [from[0] + dx * far - dy * aside, from[1] + dy * far + dx * aside];
    const [begin, tip] = [along(g.node + 2), along(length - g.node - 4)];
    const neck = along(length - g.node - 4 - 0.8 * g.font);
    const [mx, my] = along(0.45 * length);
    const side = 0.4 * g.font;
    const head = [tip, [neck[0] - dy * side, neck[1] + dx * side], [neck[0] + dy * side, neck[1] - dx * side]];
    const [w, h] = [Math.max(1.9, 0.62 * hop.text.length + 0.9) * g.font, 1.6 * g.font];
    const paint = theme.paints.C;
    return shape(
      "g",
      { class: "pl-ring-hop", role: "img", "aria-label": `rank ${hop.source} sends ${hop.text} to rank ${hop.to}` },
      shape("line", { class: "pl-ring-arrow", x1: begin[0], y1: begin[1], x2: neck[0], y2: neck[1] }),
      shape("polygon", { class: "pl-ring-head", points: head.map((point) => point.join(",")).join(" ") }),
      shape("rect", { class: "pl-ring-message", x: mx - w / 2, y: my - h / 2, width: w, height: h, rx: 3, fill: paint.fill }),
      shape("text", { x: mx, y: my, fill: paint.text }, hop.text),
    );
  }
  const fitting = (text, node, font) => Math.min(1.15 * font, (1.7 * node) / (0.6 * text.length));

  // What is shown
  function show() {
    const now = step();
    const { sentence } = moments()[now];
    if (!picture.hidden) draw();
    if (live.textContent !== sentence) live.textContent = sentence;
    back.disabled = now === 0;
    forth.disabled = now === last();
    play.textContent = player.isOn() ? "Pause" : "Play";
    [...table.querySelectorAll("tbody tr")].forEach((line, at) => line.classList.toggle("pl-runs", at === now));
  }
  function showView() {
    const view = model.get("view");
    const asTable = Boolean(model.get("table"));
    showTableButton();
    showLargeButton();
    name.textContent = view.title;
    summary.textContent = view.summary;
    picture.setAttribute("aria-label", `${view.title}. Left and right step, space plays.`);
    table.hidden = !asTable;
    picture.hidden = asTable;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    table.replaceChildren(...(asTable ? [tableView(view)] : []));
    show();
    root.dataset.plState = "ready";
  }
  function tableView(view) {
    const headings = ["Step", "Messages", ...view.moments[0].held.map((_, rank) => `Rank ${rank} holds`)];
    const rows = view.moments.map(({ hops, held }, at) => {
      const told = hops.map((hop) => `${hop.source} to ${hop.to}: ${hop.text}`).join("; ");
      return [at ? String(at) : "start", told || "none", ...held];
    });
    return tableOf(view.title, headings, rows);
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== picture || !(event.key === " " || event.key in MOVES)) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (event.key === " ") player.toggle();
    else seek(step() + MOVES[event.key]);
  }

  const player = stepper({
    live, ms: STEP_MS, show, isOver: () => step() === last(), rewind: () => go(0), advance: () => go(step() + 1),
  });
  root.addEventListener("keydown", guarded(root, press));
  const stopSteps = listen(model, ["step"], guarded(root, show));
  const stopViews = listen(model, ["view", "table", "projector"], guarded(root, showView));
  const stopWidth = watchWidth(picture, guarded(root, show));
  guarded(root, showView)();
  return () => {
    player.stop();
    for (const stop of [stopSteps, stopViews, stopWidth]) stop();
  };
}

export default { render };
