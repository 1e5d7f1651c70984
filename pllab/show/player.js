// The timeline player: draws the spans, moves the cursor. Words and frames come from Python.

const STEP_KEYS = { ArrowLeft: -1, ArrowRight: 1 };
const OUR_KEYS = new Set([" ", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);
let numViews = 0;

/** Sizes in pixels for a width and a reading distance. */
function geometryOf(width, numDevices, isLarge, hasWire) {
  const scale = isLarge ? 1.6 : 1;
  const row = (hasWire ? 48 : 38) * scale;
  const left = 74 * scale;
  const font = 13 * scale;
  const inner = Math.max(40, width - left - 14 * scale);
  return { scale, row, left, font, inner, width, bottom: numDevices * row, height: numDevices * row + 26 * scale };
}

/** Top and height of a box within its row: communication has a strip below the work. */
function bandOf(span, g, hasWire) {
  const top = span.rank * g.row + g.row * 0.1;
  const full = g.row * 0.8;
  if (!hasWire) return [top, full];
  return span.kind === "C" ? [top + full * 0.62, full * 0.38] : [top, full * 0.62];
}

function sentenceOf(span) {
  return `${span.label} (${span.name}) on device ${span.rank}: ${span.from} to ${span.to}, ${span.lasts}`;
}

function render({ model, el }) {
  const prefix = `pl-player-${++numViews}-${Math.random().toString(36).slice(2, 8)}`;
  const spans = model.get("spans");
  const frames = model.get("frames");
  const numDevices = model.get("num_devices");
  const theme = model.get("theme");
  const hasWire = spans.some((span) => span.kind === "C");
  const last = frames.length - 1;
  const total = frames[last].time || 1;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  let device = 0; // the row whose action is spelled out
  let shown = null; // the time under the cursor between two frames while playing
  let timer = 0;
  let geometry = null;

  const step = () => model.get("step");
  const go = (to) => {
    model.set("step", Math.min(last, Math.max(0, to)));
    model.save_changes();
  };
  const seek = (to) => {
    pause();
    go(to);
  };
  const frameAt = (time) => {
    let found = 0;
    while (found < last && frames[found + 1].time <= time) found += 1;
    return found;
  };

  // Parts
  const back = element("button", { type: "button", click: () => seek(step() - 1) }, "Step back");
  const play = element("button", { type: "button", class: "pl-play", click: () => (timer ? pause() : start()) });
  const forth = element("button", { type: "button", click: () => seek(step() + 1) }, "Step forward");
  const slider = element("input", {
    type: "range", min: 0, max: last, step: 1, "aria-label": "Time", input: () => seek(Number(slider.value)),
  });
  const [tableButton, showTableButton] = toggleOf(model, "table", "Show as table");
  const [largeButton, showLargeButton] = toggleOf(model, "projector", "Projector");
  const tools = element("div", { class: "pl-tools", role: "group", "aria-label": "Player" });
  tools.append(back, play, forth, slider, tableButton, largeButton);
  const title = element("p", { class: "pl-title" }, element("strong", {}, model.get("title")), " ", model.get("summary"));
  const grid = element("div", {
    class: "pl-grid", role: "grid", tabindex: 0, "aria-readonly": "true",
    "aria-label": `Timeline: ${model.get("title")}. Arrow keys step, space plays, up and down choose a device.`,
  });
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const info = element("p", { class: "pl-info" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Timeline as a table" });
  const root = element("div", { class: "pl-widget pl-player", "data-pl-state": "drawing" });
  root.append(patterns(), title, grid, live, info, table, tools, legendOf());
  el.replaceChildren(root);
  keepLetters(root);

  /** The fills with a pattern, apart from the grid, which is hidden while the table is shown. */
  function patterns() {
    const paints = [...Object.entries(theme.paints), ["", theme.idle]].filter(([, paint]) => paint.hatch);
    const made = paints.map(([kind, paint]) => patternOf(`${prefix}-${kind || "idle"}`, paint, !kind));
    return shape("svg", { class: "pl-patterns", width: 0, height: 0, "aria-hidden": "true" }, ...made);
  }
  function legendOf() {
    const kinds = [...new Set(spans.map((span) => span.kind))].map((kind) => [kind, theme.paints[kind] ?? theme.illegal]);
    const items = [...kinds, ["", theme.idle]].map(([kind, paint]) => {
      const box = shape("rect", { width: 22, height: 14, x: 0.5, y: 0.5, class: "pl-box", fill: fillOf(kind) });
      const swatch = shape("svg", { width: 23, height: 15, "aria-hidden": "true" }, box);
      return element("span", { class: "pl-key" }, swatch, kind ? ` ${kind} ${paint.name}` : ` ${paint.name}`);
    });
    return element("p", { class: "pl-legend" }, ...items);
  }
  function fillOf(kind) {
    const paint = kind === "" ? theme.idle : (theme.paints[kind] ?? theme.illegal);
    return paint.hatch ? `url(#${prefix}-${kind || "idle"})` : paint.fill;
  }

  // Drawing
  let boxes = [];
  let cursor = null;
  function draw(width) {
    geometry = geometryOf(width, numDevices, model.get("projector"), hasWire);
    const g = geometry;
    const x = (time) => g.left + (time / total) * g.inner;
    boxes = spans.map((span, index) => boxOf(span, index, x));
    const rows = Array.from({ length: numDevices }, (_, rank) => rowOf(rank));
    const ticks = model.get("ticks").flatMap(({ time, text }) => [
      shape("path", { class: "pl-axis", d: `M${x(time)} ${g.bottom}v5` }),
      shape("text", { class: "pl-axis-text", x: x(time), y: g.bottom + 20 * g.scale, "text-anchor": "middle" }, text),
    ]);
    cursor = shape("path", { class: "pl-cursor", d: `M0 0V${g.bottom + 4}` });
    const axis = shape("path", { class: "pl-axis", d: `M${g.left} ${g.bottom}h${g.inner}` });
    const attributes = { width, height: g.height, "font-size": g.font, role: "presentation", click: pick };
    const extras = shape("g", { "aria-hidden": "true" }, axis, ...ticks, cursor);
    grid.replaceChildren(shape("svg", attributes, ...rows, extras));
    show();
    root.dataset.plState = "ready";
  }
  function rowOf(rank) {
    const g = geometry;
    const middle = (rank + 0.5) * g.row;
    const [top, height] = bandOf({ rank, kind: "" }, g, hasWire);
    const label = `device ${rank}`;
    return shape(
      "g",
      { role: "row", "aria-label": label },
      shape("text", { class: "pl-device", role: "rowheader", x: g.left - 10, y: middle, "text-anchor": "end" }, label),
      shape("rect", { class: "pl-idle", x: g.left, y: top, width: g.inner, height, fill: fillOf("") }),
      ...boxes.filter((_, index) => spans[index].rank === rank),
    );
  }
  function boxOf(span, index, x) {
    const g = geometry;
    const [y, height] = bandOf(span, g, hasWire);
    const left = x(span.start);
    const width = Math.max(1, x(span.end) - left);
    const hover = () => tell(span);
    const cell = shape("g", { id: `${prefix}-${index}`, role: "gridcell", "aria-label": sentenceOf(span), mouseenter: hover, mouseleave: () => tell(null) });
    cell.append(shape("rect", { class: "pl-box", x: left, y, width, height, fill: fillOf(span.kind) }));
    const size = span.kind === "C" ? Math.max(11, g.font * 0.8) : g.font;
    const paint = theme.paints[span.kind] ?? theme.illegal;
    if (width >= span.label.length * size * 0.62 + 6 && height >= size) {
      const plate = paint.hatch ? paint.fill : "none";
      const at = { x: left + width / 2, y: y + height / 2, "font-size": size, fill: paint.text, stroke: plate };
      cell.append(shape("text", { class: "pl-label", ...at, "text-anchor": "middle", "aria-hidden": "true" }, span.label));
    }
    return cell;
  }

  // What is shown at the present step
  function show() {
    const frame = frames[step()];
    const running = new Set(frame.running);
    boxes.forEach((box, index) => box.classList.toggle("pl-running", running.has(index)));
    cursor?.setAttribute("transform", `translate(${geometry.left + ((shown ?? frame.time) / total) * geometry.inner} 0)`);
    if (live.textContent !== frame.sentence) live.textContent = frame.sentence;
    slider.value = step();
    slider.setAttribute("aria-valuetext", frame.sentence);
    back.disabled = step() === 0;
    forth.disabled = step() === last;
    play.textContent = timer ? "Pause" : "Play";
    const lines = [...table.querySelectorAll("tbody tr")];
    lines.forEach((line, index) => line.classList.toggle("pl-running", running.has(index)));
    if (frame.running.length && lines.length) table.scrollTop = lines[frame.running[0]].offsetTop - table.clientHeight / 2;
    tell(null);
  }
  /** Spell out an action: the one under the mouse, else the one the chosen device runs now. */
  function tell(span) {
    const current = frames[step()].running.find((index) => spans[index].rank === device);
    if (current === undefined) grid.removeAttribute("aria-activedescendant");
    else grid.setAttribute("aria-activedescendant", `${prefix}-${current}`);
    boxes.forEach((box, index) => box.classList.toggle("pl-chosen", index === current));
    const spoken = span ?? spans[current];
    info.textContent = spoken ? sentenceOf(spoken) : `device ${device} is idle`;
  }
  function showView() {
    showTableButton();
    showLargeButton();
    const asTable = Boolean(model.get("table"));
    if (asTable && !table.firstChild) {
      const rows = spans.map((span) => [`device ${span.rank}`, `${span.label} ${span.name}`, span.from, span.to, span.lasts]);
      table.append(tableOf(`${spans.length} actions in order of start`, ["Device", "Action", "Start", "End", "Duration"], rows));
    }
    table.hidden = !asTable;
    grid.hidden = info.hidden = asTable;
    root.classList.toggle("pl-large", Boolean(model.get("projector")));
    if (!asTable && grid.clientWidth) draw(grid.clientWidth);
    else show();
  }

  // Playing: the whole run in 5 to 30 seconds, smoothly, or in jumps where motion is unwanted
  function start() {
    if (step() === last) go(0);
    live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    const length = Math.min(30, Math.max(5, frames.length * 0.4)) * 1000;
    const begin = performance.now() - (frames[step()].time / total) * length;
    const smooth = (now) => {
      shown = Math.max(frames[step()].time, Math.min(total, ((now - begin) / length) * total));
      const next = frameAt(shown);
      if (next !== step()) go(next);
      else show();
      if (next === last) pause();
      else timer = requestAnimationFrame(smooth);
    };
    const jump = () => {
      go(step() + 1);
      if (step() === last) pause();
      else timer = setTimeout(jump, 900);
    };
    timer = still.matches ? setTimeout(jump, 900) : requestAnimationFrame(smooth);
    show();
  }
  function pause() {
    cancelAnimationFrame(timer);
    clearTimeout(timer);
    timer = 0;
    shown = null;
    live.setAttribute("aria-live", "polite");
    show();
  }

  // Mouse and keys
  function pick(event) {
    const box = grid.firstChild.getBoundingClientRect();
    const time = ((event.clientX - box.left - geometry.left) / geometry.inner) * total;
    device = Math.min(numDevices - 1, Math.max(0, Math.floor((event.clientY - box.top) / geometry.row)));
    seek(frameAt(time));
  }
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !OUR_KEYS.has(event.key)) return;
    if (event.target.tagName === "BUTTON" && event.key === " ") return; // the button's own
    if (event.target === slider && event.key !== " ") return; // the slider's own
    if (event.target === table && !table.hidden && event.key !== " ") return; // scrolling
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (event.key === " ") timer ? pause() : start();
    else if (event.key in STEP_KEYS) seek(step() + STEP_KEYS[event.key]);
    else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(last);
    else {
      device = Math.min(numDevices - 1, Math.max(0, device + (event.key === "ArrowUp" ? -1 : 1)));
      tell(null);
    }
  }

  root.addEventListener("keydown", guarded(root, press));
  const stopSteps = listen(model, ["step"], guarded(root, show));
  const stopViews = listen(model, ["table", "projector"], guarded(root, showView));
  const stopWidth = watchWidth(grid, guarded(root, draw));
  guarded(root, showView)();
  return () => {
    pause();
    for (const stop of [stopSteps, stopViews, stopWidth]) stop();
  };
}

export default { render };
