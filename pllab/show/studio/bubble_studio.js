// The bubble studio: controls, numbers, and a timeline that follows them. Python simulates and this file draws.
// ipywidgets keeps one message in flight and merges what a slider says meanwhile, so the latest position wins.
// The next positions of a slider are asked for ahead and drawn before the kernel has answered (look_ahead.js).

const COSTS = [["forward", "Forward F"], ["backward_input", "Backward I"], ["backward_weight", "Backward W"]];
const MOST_LINES = 500;

const exact = (seconds) => writeSeconds(seconds, 5);
const short = (seconds) => writeSeconds(Number(seconds.toPrecision(3))); // a difference of seven digits has fewer
const isLonger = (to, from, { makespan }) => to - from > makespan * 1e-6; // than the seven digits of a time

/** Why a rank is idle, as pllab.simulate.gaps finds it. */
function sayGap(actions, links, { i, rank, from, to }) {
  const name = (one) => labelOf(actions, one, true);
  const idle = `rank ${rank} idle ${exact(from)} to ${exact(to)}, ${short(to - from)}`;
  if (i === actions.first[rank + 1]) return `${idle}: nothing left to do`;
  const sender = links.sender(i);
  if (sender === undefined) return `${idle}: its next action ${name(i)} has all it needs`;
  const done = actions.end[sender];
  const travels = isLonger(to, done, actions) ? `, its message travels from ${exact(done)} to ${exact(to)}` : "";
  return `${idle}: its next action ${name(i)} waits for ${name(sender)} (done at ${exact(done)})${travels}`;
}

function render({ model, el }) {
  const get = (trait) => model.get(trait);
  const options = get("options");
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const shows = []; // what brings the controls in line with the traits
  let view = get("view"); // the numbers and words on screen
  let runs = []; // { actions, links, name } of the schedule, of the one compared with, and of the measured run
  let path = new Int32Array();
  let panels = [];
  let geometry = null;
  let paints = null;
  let frame = null; // the times in view, or null for all
  let chosen = null; // { run, i } by key or click
  let hovered = null;
  let playhead = null;
  let timer = 0;
  let orders = 0;
  let waiting = 0;
  let saying = 0;
  let news = "Choose an action with the mouse or the arrow keys: what it waits for is drawn solid, what waits for it dashed.";
  let answered = view.stamp; // the input the numbers on screen answer
  let early = null; // the setting on screen while the kernel has not answered for it
  let askNext = () => {}; // asks for the neighbours of an unforeseen input, once that is answered
  const ahead = picturesAhead(model, pictureOf, () => (runs[0].actions.count > 4000 ? 1 : 3));
  const settingNow = (changes) => JSON.stringify({ ...Object.fromEntries(options.inputs.map((trait) => [trait, get(trait)])), ...changes });

  const set = (values, event) => {
    const held = Object.keys(values).map((trait) => [trait, get(trait)]);
    for (const [trait, value] of Object.entries(values)) model.set(trait, value);
    if (event) {
      model.set("stamp", event.timeStamp);
      clearTimeout(waiting);
      waiting = setTimeout(() => root.classList.add("pl-waits"), 250); // a search for a schedule takes its time
    }
    const foreseen = event && foresee();
    model.save_changes(event && { iopub: { status: ({ content }) => content.execution_state === "idle" && setTimeout(check, 300) } });
    return foreseen;
    /** The kernel has handled this input and had time to answer; without an answer the input was refused. */
    function check() {
      if (get("view").stamp >= event.timeStamp || get("stamp") > event.timeStamp) return;
      for (const [trait, value] of held) model.set(trait, value);
      for (const show of shows) show(true);
      early = null;
      present(answer(), answered);
    }
  };
  /** Draw the setting at once if its picture is here; the kernel answers all the same. */
  function foresee() {
    early = settingNow();
    const picture = ahead.find(early);
    if (picture) present(picture, get("stamp"));
    else early = null;
    return Boolean(picture);
  }
  const wantNear = (trait, slider, direction) =>
    ahead.want(valuesNear(slider, direction).map((value) => settingNow({ [trait]: value })));
  const button = (text, click, more = {}) => element("button", { type: "button", click, ...more }, text);
  const group = (name, ...children) => element("div", { class: "pl-tools", role: "group", "aria-label": name }, ...children);

  // Controls
  function dial(trait, text, max, step, min = 0) {
    const change = (event) => {
      const typed = event.target.value === "" ? get(trait) : Number(event.target.value);
      const value = Math.max(min, step === 1 ? Math.min(max, Math.round(typed)) : typed);
      box.value = value;
      const direction = value < get(trait) ? -1 : 1;
      askNext = () => wantNear(trait, slider, direction);
      if (set({ [trait]: value }, event)) askNext();
      else ahead.want([]);
    };
    const rest = () => wantNear(trait, slider, 1);
    const slider = element("input", { type: "range", min, max, step, "aria-label": text, input: change, focus: rest, pointerenter: rest });
    const box = numberBox({ min, ...(step === 1 ? { max, step } : {}), "aria-label": `${text}, exact`, change });
    shows.push((anyway) => {
      slider.value = get(trait);
      if (anyway || document.activeElement !== box) box.value = Number(get(trait).toPrecision(4));
    });
    return element("div", { class: "pl-dial" }, element("span", { "aria-hidden": "true" }, text), box, slider);
  }
  function choice(trait, text, empty) {
    const names = [...(empty ? [["", empty]] : []), ...options.families.map((name) => [name, name])];
    const list = element("select", { "aria-label": text, change: (event) => set({ [trait]: list.value }, event) });
    list.append(...names.map(([value, name]) => element("option", { value }, name)));
    shows.push(() => (list.value = get(trait)));
    return element("label", { class: "pl-dial" }, element("span", {}, text), list);
  }
  const numberBox = (more) => element("input", { type: "number", min: 0, step: "any", ...more });
  const limit = numberBox({
    placeholder: "none",
    change: (event) => set({ memory_limit: limit.value === "" ? null : Math.max(0, Number(limit.value)) }, event),
  });
  shows.push(() => (limit.value = get("memory_limit") ?? ""));
  const stages = element("div", { class: "pl-stages" });
  const details = element("details", { toggle: () => { showStages(); draw(); } }, element("summary", {}, "Costs per stage"), stages);
  const controls = element(
    "div", { class: "pl-controls", role: "group", "aria-label": "Schedule and costs", hidden: options.still },
    choice("family", "Schedule"), choice("compare", "Compare with", "nothing"), dial("num_ranks", "Ranks", options.most_ranks, 1, 1),
    dial("num_microbatches", "Micro-batches", options.most_microbatches, 1, 1),
    element("label", { class: "pl-dial" }, element("span", {}, "Memory limit"), limit),
    ...COSTS.map(([trait, text]) => dial(trait, text, options.most_cost, options.most_cost / 80)),
    dial("p2p", "Message", options.most_cost / 2, options.most_cost / 160),
    details,
  );

  // Parts
  const title = element("p", { class: "pl-title" });
  const numbers = element("div", { class: "pl-figures" });
  const problem = element("p", { class: "pl-error", role: "alert", hidden: true });
  const base = element("canvas", { "aria-hidden": "true" });
  const above = element("canvas", { class: "pl-above", "aria-hidden": "true" });
  const reach = element("i", { class: "pl-reach" }); // where the chosen box is, to scroll there
  const stage = element("div", { class: "pl-stage", role: "application", tabindex: 0, "aria-roledescription": "timeline" }, base, above, reach);
  const live = element("p", { class: "pl-live", "aria-live": "polite" });
  const legend = element("p", { class: "pl-legend" });
  const table = element("div", { class: "pl-table", tabindex: 0, role: "region", "aria-label": "Timeline as a table" });
  const play = button("Play", () => (timer ? pause() : start()), { class: "pl-play" });
  const run = button("Run it", () => order("run"), { hidden: !options.can_run });
  const toggles = [["critical", "Critical path"], ["memory", "Memory"], ["table", "Show as table"], ["projector", "Projector"]].map(([trait, text]) => {
    const [node, show] = toggleOf(model, trait, text);
    shows.push(show);
    return node;
  });
  const bar = element(
    "div", { class: "pl-bar" },
    group("Player", button("Step back", () => stepBy(-1)), play, button("Step forward", () => stepBy(1))),
    group("Zoom", button("\u2212", () => zoom(2), { "aria-label": "Zoom out" }), button("+", () => zoom(0.5), { "aria-label": "Zoom in" }), button("Fit", () => look(null))),
    group("View", ...toggles, run),
    group("Export", element("span", { class: "pl-word" }, "Export"), ...options.exports.map((kind) => button(kind, () => order(kind)))),
  );
  const head = element("div", { class: "pl-head" }, title, problem); // side by side: a problem moves nothing
  const root = element("div", { class: "pl-widget pl-studio", "data-pl-state": "drawing" }, head, controls, numbers, bar, live, stage, table, legend);
  el.replaceChildren(root);
  keepLetters(root);

  // Data
  function pictureOf(view, [actions, compared, measured, path]) {
    const runs = [actions, compared, measured].map((block, number) => {
      const actions = readActions(block);
      return { actions, links: linksOf(actions), ...(view.runs[number] ?? {}), staged: actions.numStages > actions.numRanks };
    });
    return { view, runs, path: readPlaces(path) };
  }
  const answer = () => pictureOf(get("view"), ["actions", "compared", "measured", "path"].map(get));
  function read(picture) {
    ({ view, runs, path } = picture);
    chosen = find(get("selected"));
    hovered = null;
    if (frame && frame[1] > whole()) frame = null;
  }
  const whole = () => Math.max(...runs.map((one) => one.actions.makespan)) || 1;
  const windowOf = () => frame ?? [0, whole()];
  function find(text) {
    const { actions } = runs[0];
    for (let i = 0; text && i < actions.count; i += 1) if (labelOf(actions, i, true) === text) return { run: 0, i };
    return null;
  }

  // Drawing
  /** The highest rows with the whole widget in view; if they are too low to read, with all below the buttons in view. */
  function fit(width) {
    const room = (root.closest(".jp-Notebook")?.clientHeight ?? innerHeight) + stage.offsetHeight - 4;
    const parts = legend.offsetTop + legend.offsetHeight - bar.offsetTop;
    let [share, plan] = [1, layOut(width, 1)];
    const isIn = () => plan.height <= room - root.offsetHeight || (plan.height <= room - parts && panels[0].row <= (plan.large > 1 ? 30 : 13));
    while (share > 0.2 && !isIn()) plan = layOut(width, (share -= 0.02));
    return plan;
  }
  function layOut(width, share) {
    const large = get("projector") ? 1.6 : 1;
    const font = 13 * large;
    const [from, to] = windowOf();
    const [left, inner] = [72 * large, Math.max(60, width - 72 * large - 16)];
    let top = 0;
    panels = [];
    runs.slice(0, 2).forEach(({ actions, name, numbers: said, unit, most }, number) => {
      if (!actions.count) return;
      const over = number === 0 && runs[2].actions.count > 0;
      const row = Math.max(9, share * Math.min(over ? 50 : 36, (over ? 560 : 430) / actions.numRanks)) * large;
      top += 25 * large;
      panels.push({ run: number, name, numbers: said, left, width: inner, top, row, from, to, band: over ? [0.05, 0.53] : BAND, high: row * actions.numRanks });
      if (over) panels.push({ ...panels.at(-1), run: 2, name: "", band: [0.61, 0.34] });
      top += row * actions.numRanks + 4 * large;
      if (!get("memory")) return;
      const low = Math.max(8, share * Math.min(26, 260 / actions.numRanks)) * large;
      top += 21 * large;
      panels.push({ run: number, held: true, unit, most, left, width: inner, top, row: low, from, to, high: low * actions.numRanks });
      top += low * actions.numRanks + 8 * large;
    });
    return { width, height: top + 30 * large, axis: top + 2, font, large };
  }
  function draw() {
    const width = stage.clientWidth;
    if (!width || stage.hidden) return;
    paints ??= paintsOf(get("theme"), root);
    geometry = fit(width);
    const ctx = fitCanvas(base, width, geometry.height, paints.ground);
    const { font, large } = geometry;
    const most = Math.max(...panels.map((one) => one.most ?? 0), get("memory_limit") ?? 0, 1);
    for (const panel of panels) {
      const { actions, staged } = runs[panel.run];
      const words = panel.held ? "Micro-batches held" : panel.name;
      const pale = { colour: paints.soft };
      const put = (text, x, how) => write(ctx, text, panel.left + x, panel.top - 11 * large, font, paints, how);
      put(words, 0, panel.held ? pale : { weight: 700 });
      if (words && !panel.held) put(panel.numbers, ctx.measureText(words).width + 14 * large, pale);
      const head = (r, peak) => (panel.held ? `most ${Number(peak.toPrecision(3))}` : `rank ${r}`);
      const how = { font: font * (panel.held ? 0.92 : 1), staged, heads: panel.run === 2 ? null : head };
      if (panel.held) drawHeld(ctx, actions, panel, paints, { ...how, unit: panel.unit, share: options.share, most, limit: get("memory_limit") });
      else drawActions(ctx, actions, panel, paints, how);
      if (panel.run === 0 && !panel.held && get("critical") && path.length) drawPath(ctx, actions, panel);
    }
    drawAxis(ctx, panels[0], geometry.axis, paints, font * 0.92);
    mark();
  }
  function drawPath(ctx, actions, panel) {
    ctx.globalAlpha = 0.72;
    ctx.fillStyle = paints.ground;
    ctx.fillRect(panel.left, panel.top, panel.width, panel.high);
    ctx.globalAlpha = 1;
    const only = { ...actions, count: path.length };
    for (const column of ["rank", "stage", "kind", "microbatch", "start", "end"]) only[column] = Array.from(path, (i) => actions[column][i]);
    drawActions(ctx, only, panel, paints, { font: geometry.font, staged: runs[0].staged, idle: false });
  }
  /** The layer above: links of the action, its outline, and what is still to come while playing. */
  function mark() {
    if (!geometry) return;
    const ctx = fitCanvas(above, geometry.width, geometry.height);
    const last = panels.at(-1);
    if (playhead !== null) {
      const x = Math.max(last.left, last.left + ((playhead - last.from) / (last.to - last.from)) * last.width);
      ctx.globalAlpha = 0.75;
      ctx.fillStyle = paints.ground;
      for (const { left, width, top, high } of panels) ctx.fillRect(x, top, Math.max(0, left + width - x), high + 1);
      ctx.globalAlpha = 1;
      ctx.fillStyle = paints.illegal;
      if (x <= last.left + last.width) ctx.fillRect(x - 1.5, panels[0].top - 4, 3, last.top + last.high - panels[0].top + 4);
    }
    const spoken = hovered ?? chosen;
    const panel = spoken && panels.find((one) => one.run === spoken.run && !one.held);
    if (!panel) return;
    const { actions, links } = runs[spoken.run];
    const { i, rank, from, to } = spoken;
    const boxes = (found) => found.filter((one) => one !== undefined).map((one) => boxOf(actions, panel, one));
    const gap = rank !== undefined && boxOf({ rank: [rank], start: [from], end: [to] }, panel, 0);
    const isLast = gap && i === actions.first[rank + 1];
    const before = boxes(isLast ? [] : gap ? [links.sender(i)] : links.before(i));
    const [box] = boxes([i]);
    clipTo(ctx, panel.left, panel.top - 22, panel.width, panel.high + 28);
    for (const one of before) drawLink(ctx, one, box, paints.ink, false, paints.ground);
    for (const one of gap ? [] : boxes(links.after(i))) drawLink(ctx, box, one, paints.ink, true, paints.ground);
    ctx.lineWidth = 3;
    for (const { x, y, width, height } of gap ? [gap, ...before] : [box]) {
      for (const [colour, grow] of [[paints.ground, 3], [paints.ink, 0.5]]) {
        ctx.strokeStyle = colour;
        ctx.strokeRect(x - grow, y - grow, width + 2 * grow, height + 2 * grow);
      }
    }
    ctx.restore();
  }

  // Words
  function sentenceOf(spoken) {
    const { run: number, i } = spoken;
    const { actions, links, engine, name: words } = runs[number];
    if (spoken.rank !== undefined) return `${number ? `${words}: ` : ""}${sayGap(actions, links, spoken)}`;
    const idle = gapBefore(actions, actions.rank[i], i);
    const name = (one) => labelOf(actions, one, true);
    const kind = get("theme").paints[KINDS[actions.kind[i]]].name;
    const own = i > actions.first[actions.rank[i]] ? [`${name(i - 1)} on its own rank`] : [];
    const before = [...links.before(i).map((one) => `${name(one)} (done at ${exact(actions.end[one])})`), ...own];
    const after = links.after(i).map(name);
    const [from, to] = [exact(actions.start[i]), exact(actions.end[i])];
    const pause = isLonger(idle.to, idle.from, actions) ? `, after ${short(idle.to - idle.from)} idle` : "";
    const when = `${from} to ${to}, ${short(actions.end[i] - actions.start[i])}${pause}`;
    return `${name(i)}, ${kind}, on rank ${actions.rank[i]}, ${number ? words : engine}: ${when}. ` +
      `Waits for ${before.join(" and ") || "nothing"}; ${after.join(" and ") || "nothing"} wait${after.length > 1 ? "" : "s"} for it.`;
  }
  function momentOf(time) {
    const { actions } = runs[0];
    const told = Array.from({ length: actions.numRanks }, (_, r) => {
      const i = lastStarted(actions, r, time);
      return i >= actions.first[r] && time < actions.end[i] ? labelOf(actions, i, runs[0].staged) : null;
    });
    const busy = told.filter(Boolean).length;
    const each = told.length <= 8 ? `: ${told.map((on, r) => `rank ${r} ${on ?? "idle"}`).join(", ")}` : "";
    return `t = ${exact(time)}, ${busy} of ${told.length} ranks busy${each}`;
  }
  function tell() {
    const spoken = hovered ?? chosen;
    const words = spoken ? sentenceOf(spoken) : playhead !== null ? momentOf(playhead) : news;
    if (live.textContent !== words) live.textContent = words;
    play.textContent = timer ? "Pause" : "Play";
  }

  // What is shown
  function showStages() {
    if (!details.open) return stages.replaceChildren();
    const given = get("stage_costs");
    const cell = (number, which) => {
      const change = (event) => {
        const values = [...(get("stage_costs")[number] ?? [null, null, null])];
        values[which] = input.value === "" ? null : Math.max(0, Number(input.value));
        set({ stage_costs: { ...get("stage_costs"), [number]: values } }, event);
      };
      const placeholder = Number((get(COSTS[which][0]) / view.stages_per_rank).toPrecision(4));
      const input = numberBox({ placeholder, "aria-label": `${COSTS[which][1]} of stage ${number}`, value: given[number]?.[which] ?? null, change });
      return input;
    };
    const rows = Array.from({ length: view.num_stages }, (_, number) => [`stage ${number}`, ...[0, 1, 2].map((which) => cell(number, which))]);
    const reset = button("Same for all", (event) => set({ stage_costs: {} }, event));
    stages.replaceChildren(tableOf("Empty: as above", ["Stage", ...COSTS.map(([, text]) => text)], rows), reset);
  }
  function showView() {
    for (const show of shows) show();
    root.classList.toggle("pl-large", Boolean(get("projector")));
    title.replaceChildren(element("strong", {}, view.title), ` ${view.note}`);
    numbers.replaceChildren(tableOf("", view.headings, view.figures));
    problem.textContent = view.problem;
    problem.hidden = !view.problem;
    run.disabled = get("running");
    run.textContent = get("running") ? "Running" : "Run it";
    const kinds = [...KINDS].filter((_, kind) => runs.some(({ actions }) => actions.kind.includes(kind)));
    legend.replaceChildren(
      ...[...kinds.map((kind) => get("theme").paints[kind]), get("theme").idle].map((paint) => element("span", {}, element("i", { style: paint.letter ? `background:${paint.fill}` : "", class: paint.letter ? null : "pl-hatched" }), `${paint.letter} ${paint.name}`)),
      runs.some((one) => one.staged) ? element("span", {}, "pale foot: not the first stage of its rank") : "",
      runs[2].actions.count ? element("span", {}, `upper boxes ${runs[0].engine}, lower boxes ${runs[2].engine}`) : "",
    );
    const asTable = Boolean(get("table"));
    table.hidden = !asTable;
    stage.hidden = asTable;
    stage.setAttribute("aria-label", `Timeline of ${view.title}. Arrow keys choose an action, plus and minus zoom, space plays.`);
    table.replaceChildren(...(asTable ? [tableView()] : []));
    if (details.open && !stages.contains(document.activeElement)) showStages();
    draw();
    tell();
    root.dataset.plState = "ready";
  }
  function tableView() {
    const { actions } = runs[0];
    const lines = Array.from({ length: Math.min(MOST_LINES, actions.count) }, (_, i) => [`rank ${actions.rank[i]}`, labelOf(actions, i, true), ...[actions.start[i], actions.end[i], actions.end[i] - actions.start[i]].map(exact)]);
    const rest = actions.count > MOST_LINES ? `, the first ${MOST_LINES} of ${actions.count}; the CSV has all` : "";
    return tableOf(`Actions by rank and start${rest}`, ["Rank", "Action", "Start", "End", "Duration"], lines);
  }
  /** The kernel has answered: draw it, unless it is on screen already or an input came after it. */
  function follow() {
    const { stamp, problem } = get("view");
    const setting = settingNow();
    const last = stamp === get("stamp");
    if (early && !last) return;
    const known = early === setting && isOnScreen(get("view"));
    early = null;
    if (known) settle();
    else present(answer(), stamp);
    if (!last) return;
    if (!problem) ahead.keep(setting, { view, runs, path });
    askNext();
  }
  const wordsOf = (one) => JSON.stringify({ ...one, stamp: 0, number: 0 });
  const isOnScreen = (other) => wordsOf(other) === wordsOf(view) && path.length === get("path").byteLength / 4;
  const settle = () => {
    clearTimeout(waiting);
    root.classList.remove("pl-waits");
  };
  /** Draw a picture, and note how long it took from the input to the painted frame. */
  function present(picture, stamp) {
    settle();
    pause();
    playhead = null;
    read(picture);
    showView();
    if (stamp === answered) return;
    answered = stamp;
    clearTimeout(saying);
    saying = setTimeout(() => { news = newsOf(); tell(); }, 400); // once the slider rests
    requestAnimationFrame(() => {
      const channel = new MessageChannel(); // its message comes after the frame is painted
      channel.port1.onmessage = () => (root.dataset.plRepaintMs = (performance.now() - stamp).toFixed(1));
      channel.port2.postMessage(0);
    });
  }
  const newsOf = () => {
    const words = view.headings.map((heading) => heading.split(",")[0].toLowerCase());
    const lines = view.figures.map(([name, engine, ...rest]) => `${name}, ${engine}: ${rest.map((text, i) => `${words[i + 2]} ${text}`).join(", ")}`);
    return `${view.title}. ${lines.join("; ")}`;
  };

  // Play, step, zoom
  const moments = () => [...new Set([...runs[0].actions.start, whole()])].sort((a, b) => a - b);
  const seek = (time) => {
    playhead = Math.min(whole(), Math.max(0, time));
    mark();
    tell();
  };
  function stepBy(sign) {
    pause();
    chosen = hovered = null;
    const all = moments();
    if (playhead === null) return seek(sign > 0 ? 0 : all.at(-1));
    seek((sign > 0 ? all.find((one) => one > playhead) : all.findLast((one) => one < playhead)) ?? playhead);
  }
  function start() {
    if (playhead === null || playhead >= whole()) playhead = 0;
    chosen = hovered = null;
    live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    const all = moments();
    const length = Math.min(20, Math.max(5, all.length * 0.3)) * 1000;
    const begin = performance.now() - (playhead / whole()) * length;
    const next = still.matches ? () => all.find((one) => one > playhead) : () => ((performance.now() - begin) / length) * whole();
    const wait = () => (still.matches ? setTimeout(go, 700) : requestAnimationFrame(go));
    const go = () => {
      seek(next() ?? whole());
      if (playhead >= whole()) pause();
      else timer = wait();
    };
    timer = wait();
    tell();
  }
  function pause() {
    cancelAnimationFrame(timer);
    clearTimeout(timer);
    timer = 0;
    live.setAttribute("aria-live", "polite");
    if (runs.length) tell();
  }
  function look(to) {
    const size = to && Math.min(whole(), Math.max(whole() / 2000, to[1] - to[0]));
    const from = to && Math.min(whole() - size, Math.max(0, to[0]));
    frame = !to || size >= whole() * 0.999 ? null : [from, from + size];
    draw();
  }
  function zoom(factor, anchor) {
    const [from, to] = windowOf();
    const middle = anchor ?? (chosen ? runs[chosen.run].actions.start[chosen.i] : (from + to) / 2);
    look([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }
  const pan = (share) => frame && look(frame.map((time) => time + share * (frame[1] - frame[0])));

  // Mouse and keys
  const spot = (event) => {
    const box = base.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  function hit([x, y]) {
    for (const panel of panels) {
      const share = (((y - panel.top) / panel.row) % 1) - (panel.band ?? BAND)[0];
      if (panel.held || y < panel.top || y > panel.top + panel.high || share > panel.band[1] || share < 0) continue;
      const found = spotAt(runs[panel.run].actions, panel, x, y);
      if (found) return { run: panel.run, ...found };
    }
    return null;
  }
  function choose(one) {
    chosen = one;
    hovered = null;
    if (one && frame) {
      const { start, end } = runs[one.run].actions;
      if (start[one.i] < frame[0] || end[one.i] > frame[1]) pan((start[one.i] - (frame[0] + frame[1]) / 2) / (frame[1] - frame[0]));
    }
    if (one?.run !== 1 && one?.run !== 2) set({ selected: one ? labelOf(runs[0].actions, one.i, true) : "" });
    mark();
    tell();
    const panel = one && panels.find(({ run, held }) => run === one.run && !held);
    if (!panel) return;
    const { y, height } = boxOf(runs[one.run].actions, panel, one.i);
    Object.assign(reach.style, { top: `${y}px`, height: `${height}px` });
    reach.scrollIntoView({ block: "nearest" });
  }
  function move(key) {
    const now = chosen ?? { run: 0, i: -1 };
    const { actions } = runs[now.run];
    if (!actions.count || now.i < 0) return choose(actions.count ? { run: 0, i: 0 } : null);
    const rank = actions.rank[now.i];
    const [low, high] = [actions.first[rank], actions.first[rank + 1] - 1];
    const along = { ArrowLeft: Math.max(low, now.i - 1), ArrowRight: Math.min(high, now.i + 1), Home: low, End: high }[key];
    if (along !== undefined) return choose({ run: now.run, i: along });
    const step = key === "ArrowUp" ? -1 : 1;
    const order = [0, 2, 1].filter((one) => runs[one].actions.count);
    const other = rank + step >= 0 && rank + step < actions.numRanks ? now.run : order[order.indexOf(now.run) + step];
    if (other === undefined) return null;
    const there = runs[other].actions;
    const goal = other === now.run ? rank + step : step > 0 ? 0 : there.numRanks - 1;
    const middle = (actions.start[now.i] + actions.end[now.i]) / 2;
    return choose({ run: other, i: Math.max(there.first[goal], lastStarted(there, goal, middle)) });
  }
  const KEYS = {
    " ": () => (timer ? pause() : start()), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(null),
    Escape: () => { playhead = null; choose(null); }, PageUp: () => pan(-0.5), PageDown: () => pan(0.5), ",": () => stepBy(-1), ".": () => stepBy(1),
  };
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (["INPUT", "SELECT"].includes(event.target.tagName)) return event.stopPropagation(); // its own, and not JupyterLab's
    const moves = /^(Arrow|Home$|End$)/.test(event.key);
    if (event.target !== stage || !(moves || event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    if (moves) move(event.key);
    else KEYS[event.key]();
  }
  let dragged = null;
  const over = (event) => {
    if (dragged && frame) {
      const share = (dragged.x - event.clientX) / panels[0].width;
      const size = dragged.frame[1] - dragged.frame[0];
      return look(dragged.frame.map((time) => time + share * size));
    }
    const found = timer ? null : hit(spot(event));
    if (["i", "run", "rank"].every((key) => found?.[key] === hovered?.[key])) return null;
    hovered = found;
    mark();
    return tell();
  };
  const wheel = (event) => {
    const [x] = spot(event);
    const [from, to] = windowOf();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (!event.ctrlKey && !(frame && sideways)) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), from + ((x - panels[0].left) / panels[0].width) * (to - from));
    else pan(sideways / panels[0].width);
  };
  const on = (name, react, how) => stage.addEventListener(name, guarded(root, react), how);
  on("pointermove", over);
  on("pointerleave", () => { hovered = null; mark(); tell(); });
  on("pointerdown", (event) => { dragged = { x: event.clientX, frame: windowOf() }; });
  on("pointerup", (event) => { if (dragged && Math.abs(dragged.x - event.clientX) < 4) { const found = hit(spot(event)); choose(found?.rank === undefined ? found : null); } dragged = null; });
  on("wheel", wheel, { passive: false });
  root.addEventListener("keydown", guarded(root, press));

  // Run and export
  function order(what) {
    orders += 1;
    if (what === "run") ahead.forget(); // a run lies over the pictures of its schedule
    if (what === "PNG") return base.toBlob((blob) => save(blob, `${view.file}.png`));
    return set({ order: { what, number: `${orders}-${performance.now()}` } });
  }
  function save(blob, name) {
    const address = URL.createObjectURL(blob);
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  function deliver() {
    const { name, type, number } = get("delivery");
    if (number === get("order").number) save(new Blob([get("file")], { type }), name);
  }

  const stopped = new AbortController();
  const repaint = guarded(root, () => { paints = null; draw(); });
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const { signal } = stopped;
  dark.addEventListener("change", repaint, { signal });
  window.addEventListener("resize", repaint, { signal });
  const themes = new MutationObserver(repaint);
  themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name"] });
  const stops = [
    listen(model, ["view"], guarded(root, follow)),
    listen(model, ["critical", "memory", "table", "projector", "running"], guarded(root, showView)),
    listen(model, ["running"], ahead.forget), // pressed in another view
    listen(model, options.inputs, guarded(root, () => shows.forEach((show) => show()))),
    listen(model, ["selected"], guarded(root, () => { chosen = find(get("selected")) ?? (chosen?.run ? chosen : null); mark(); tell(); })),
    listen(model, ["delivery"], guarded(root, deliver)),
    watchWidth(stage, guarded(root, draw)),
  ];
  guarded(root, () => { read(answer()); showView(); })();
  return () => {
    pause();
    clearTimeout(waiting);
    clearTimeout(saying);
    ahead.stop();
    themes.disconnect();
    stopped.abort();
    for (const stop of stops) stop();
  };
}

export default { render };
