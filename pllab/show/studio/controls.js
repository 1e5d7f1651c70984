// One row of controls and a drawer for the rest. A control sets a trait; `show` brings all in line with the traits, but
// never a box that is being typed in.

class Controls {
  constructor(studio) {
    this.studio = studio;
    this.shows = [];
    this.more = buttonOf("more\u2026", () => this.open(this.drawer.hidden), { class: "pl-more", "aria-expanded": "false" });
    this.run = buttonOf("Run it", () => studio.order("run"), { class: "pl-run", hidden: !studio.options.can_run });
    this.play = buttonOf("Play", () => studio.player.toggle(), { class: "pl-play" });
    const page = buttonOf("HTML", () => studio.order("HTML"), { title: "a page that opens in any browser, to hand out", hidden: !studio.options.exports.includes("HTML") });
    const [table, projector] = studio.viewButtons;
    projector.title = "the picture fills the screen (f)";
    projector.addEventListener("click", () => studio.fillScreen());
    this.bar = element(
      "div", { class: "pl-bar", role: "toolbar", "aria-label": "Controls" },
      this.choice("family", "Schedule", "", null), this.choice("compare", "Compare with", "against", "nothing"),
      this.stepper("num_ranks", "Ranks", "ranks", studio.options.ranks), this.stepper("num_microbatches", "Micro-batches", "micro-batches", studio.options.microbatches),
      this.measure(), this.run, element("span", { class: "pl-end" }, this.more, page, projector),
    );
    this.drawer = this.drawerOf(table);
    this.rove();
  }
  /** All controls as the traits are; a box that is being typed in only if its trait was refused. */
  show(refused = []) {
    for (const show of this.shows) show(refused);
    this.run.disabled = this.studio.get("running");
    this.run.textContent = this.studio.get("running") ? "Running" : "Run it";
  }

  // The row
  choice(trait, text, word, empty) {
    const { studio } = this;
    const names = [...(empty ? [["", empty]] : []), ...studio.families.map(({ name }) => [name, name])];
    const list = element("select", { "aria-label": text, change: (event) => studio.load({ [trait]: list.value }, event) });
    list.append(...names.map(([value, name]) => element("option", { value }, name)));
    this.shows.push(() => (list.value = studio.get(trait)));
    return element("label", { class: "pl-choice" }, element("span", { class: "pl-word" }, word), list);
  }
  /** A number between two buttons that go to the next size of a list; any size in between can be typed. */
  stepper(trait, label, word, sizes) {
    const { studio } = this;
    const [least, most] = [sizes[0], sizes.at(-1)];
    const put = (value, event, direction) => {
      box.value = value;
      studio.setNear(trait, value, event, (from) => this.nextSizes(sizes, from, direction));
    };
    const step = (by, event) => put(this.nextSizes(sizes, studio.get(trait), by)[0] ?? studio.get(trait), event, by);
    const typed = () => {
      const size = box.value === "" ? studio.get(trait) : Math.min(most, Math.max(least, Math.round(Number(box.value))));
      return studio.options.still ? this.nearest(sizes, size) : size;
    };
    const type = (event) => put(typed(), event, 1);
    const input = () => studio.anticipate({ [trait]: typed() });
    const box = element("input", { type: "number", min: least, max: most, step: 1, "aria-label": label, change: type, input });
    box.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      step(by, event);
    });
    this.shows.push((refused) => (refused.includes(trait) || document.activeElement !== box) && (box.value = studio.get(trait)));
    const button = (by, sign, how) => buttonOf(sign, (event) => step(by, event), { "aria-label": `${how} ${word}` });
    return element("span", { class: "pl-step" }, element("span", { class: "pl-word", "aria-hidden": "true" }, ...(word.startsWith("micro-") ? [element("span", { class: "pl-long" }, "micro-"), word.slice(6)] : [word])), button(-1, "\u2212", "fewer"), box, button(1, "+", "more"));
  }
  nextSizes(sizes, from, by) {
    return by > 0 ? sizes.filter((one) => one > from) : sizes.filter((one) => one < from).reverse();
  }
  nearest(sizes, value) {
    return sizes.reduce((best, one) => (Math.abs(one - value) < Math.abs(best - value) ? one : best));
  }
  measure() {
    const { studio } = this;
    const buttons = [[false, ["one ", "step"], "ends at a barrier"], [true, ["steady", " state"], "steps follow each other without a barrier"]].map(([value, words, title]) => {
      const text = words.join("");
      const parts = words.map((word) => (word.trim() === word ? word : element("span", { class: "pl-long" }, word)));
      const button = element("button", { type: "button", click: () => studio.set("steady", value), title, "aria-label": text }, ...parts);
      this.shows.push(() => button.setAttribute("aria-pressed", String(studio.steady === value)));
      return button;
    });
    return element("span", { class: "pl-segment", role: "group", "aria-label": "Measure" }, ...buttons);
  }
  /** One Tab stop for the whole row; left and right go from one control to the next. */
  rove() {
    const items = () => [...this.bar.querySelectorAll("select, button, input")].filter((one) => !one.hidden && !one.disabled);
    const stopAt = (chosen) => items().forEach((one) => (one.tabIndex = one === chosen ? 0 : -1));
    stopAt(items()[0]);
    this.bar.addEventListener("focusin", (event) => stopAt(event.target));
    this.bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const all = items();
      if (!by || !all.includes(event.target)) return;
      event.preventDefault();
      all[(all.indexOf(event.target) + by + all.length) % all.length].focus();
    });
  }

  // The drawer
  open(isOpen) {
    this.drawer.hidden = !isOpen;
    this.drawer.style.setProperty("--pl-below", `${this.bar.offsetTop + this.bar.offsetHeight + 4}px`); // of two rows too
    this.more.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.drawer.querySelector("input:not(:disabled), button").focus();
    else this.more.focus();
  }
  drawerOf(table) {
    const { studio } = this;
    const heading = (text) => element("strong", { class: "pl-heading" }, text);
    const player = studio.player;
    const exports = studio.options.exports.filter((kind) => kind !== "HTML").map((kind) => buttonOf(kind, () => studio.order(kind)));
    const drawer = element(
      "div", { class: "pl-drawer", role: "dialog", "aria-label": "More controls", hidden: true },
      heading("Cost of one micro-batch on one rank"), ...this.costRows(),
      heading("Picture"),
      this.limitRow(), this.checkRow("shades", "a shade per micro-batch (s)"), this.checkRow("critical", "critical path"),
      toolsOf("Player", buttonOf("Step back", () => player.stepBy(-1)), this.play, buttonOf("Step forward", () => player.stepBy(1))),
      toolsOf("View", buttonOf("\u2212", () => studio.zoom(2), { "aria-label": "Zoom out" }), buttonOf("+", () => studio.zoom(0.5), { "aria-label": "Zoom in" }), buttonOf("Fit", () => studio.look(null)), table),
      heading("Take it with you"), toolsOf("Export", ...exports),
    );
    drawer.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.open(false);
    });
    return drawer;
  }
  costRows() {
    const { studio } = this;
    const [unit, scale] = studio.options.in_ms ? ["ms", 1e3] : ["s", 1];
    const names = { forward: "forward F", backward_input: "backward of the inputs I", backward_weight: "backward of the weights W", p2p: "message" };
    const rows = Object.entries(names).map(([trait, text]) => this.numberRow(`${text}, ${unit}`, () => studio.get(trait) * scale, (value) => ({ [trait]: value / scale }), { disabled: studio.options.still }));
    return studio.options.still ? rows : [...rows, this.stageCosts(unit, scale)];
  }
  limitRow() {
    const { studio } = this;
    return this.numberRow("memory limit, micro-batches", () => studio.get("memory_limit"), (value) => ({ memory_limit: value }), { placeholder: "none", step: 0.5 });
  }
  /** A labelled number; an empty box is null where there is a placeholder, and else changes nothing. */
  numberRow(text, read, changesOf, more = {}) {
    const { studio } = this;
    const typed = () => changesOf(box.value === "" ? null : Math.max(0, Number(box.value)));
    const isMeant = () => box.value !== "" || more.placeholder;
    const [trait] = Object.keys(changesOf(0));
    const change = (event) => (isMeant() ? studio.setInput(typed(), event) : this.show([trait]));
    const input = () => isMeant() && studio.anticipate(typed());
    const box = element("input", { type: "number", min: 0, step: "any", ...more, change, input });
    this.shows.push((refused) => {
      if (!refused.includes(trait) && document.activeElement === box) return;
      const value = read();
      box.value = value === null ? "" : Number(value.toPrecision(4));
    });
    return element("label", { class: "pl-row" }, text, box);
  }
  checkRow(trait, text) {
    const { studio } = this;
    const box = element("input", { type: "checkbox", disabled: trait === "critical" && studio.options.still, change: () => (trait === "critical" ? studio.setInput({ critical: box.checked }) : studio.set(trait, box.checked)) });
    this.shows.push(() => (box.checked = studio.get(trait)));
    return element("label", { class: "pl-row" }, text, box);
  }

  // Costs of single stages
  stageCosts(unit, scale) {
    const body = element("div", { class: "pl-stages" });
    const details = element("details", { toggle: () => fill() }, element("summary", {}, "Costs per stage"), body);
    const fill = () => body.replaceChildren(...(details.open ? this.stageTable(unit, scale) : []));
    this.shows.push(() => details.open && !body.contains(document.activeElement) && fill());
    return details;
  }
  stageTable(unit, scale) {
    const { studio } = this;
    const costs = ["forward", "backward_input", "backward_weight"];
    const run = studio.runs[0];
    const cell = (stage, which) => {
      const given = studio.get("stage_costs")[stage]?.[which] ?? null;
      const usual = Number((studio.get(costs[which]) * run.unit * scale).toPrecision(4));
      const change = (event) => {
        const values = [...(studio.get("stage_costs")[stage] ?? [null, null, null])];
        values[which] = box.value === "" ? null : Math.max(0, Number(box.value)) / scale;
        studio.setInput({ stage_costs: { ...studio.get("stage_costs"), [stage]: values } }, event);
      };
      const box = element("input", { type: "number", min: 0, step: "any", placeholder: usual, value: given === null ? null : Number((given * scale).toPrecision(4)), "aria-label": `${"FIW"[which]} of stage ${stage}, ${unit}`, change });
      return box;
    };
    const rows = Array.from({ length: run.num_stages }, (_, stage) => [`stage ${stage}`, ...[0, 1, 2].map((which) => cell(stage, which))]);
    return [tableOf(`Empty: as above; ${unit}`, ["Stage", "F", "I", "W"], rows), buttonOf("Same for all", (event) => studio.setInput({ stage_costs: {} }, event))];
  }
}

/** Plays a step: a line moves over the plots, and what is still to come is pale. */
class Player {
  constructor(studio) {
    this.studio = studio;
    this.timer = 0;
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)");
  }
  get longest() {
    return Math.max(...this.studio.runs.map((run) => run.step.length_s));
  }
  get moments() {
    return [...new Set([...this.studio.runs[0].actions.start, this.longest])].sort((one, other) => one - other);
  }
  seek(time) {
    const { studio } = this;
    studio.playhead = time === null ? null : Math.min(this.longest, Math.max(0, time));
    studio.mark();
  }
  stepBy(sign) {
    this.pause();
    this.studio.release();
    const [all, now] = [this.moments, this.studio.playhead];
    if (now === null) return this.seek(sign > 0 ? 0 : all.at(-1));
    return this.seek((sign > 0 ? all.find((one) => one > now) : all.findLast((one) => one < now)) ?? now);
  }
  toggle() {
    if (this.timer) this.pause();
    else this.start();
  }
  start() {
    const { studio } = this;
    studio.release();
    studio.live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    const all = this.moments;
    const longest = this.longest;
    const from = studio.playhead === null || studio.playhead >= longest ? 0 : studio.playhead;
    const ms = Math.min(20, Math.max(5, all.length * 0.3)) * 1000;
    const begun = performance.now() - (from / longest) * ms;
    const now = () => (this.still.matches ? all.find((one) => one > (studio.playhead ?? -1)) : ((performance.now() - begun) / ms) * longest);
    const go = () => {
      this.seek(now() ?? longest);
      if (studio.playhead >= longest) this.pause();
      else this.timer = this.still.matches ? setTimeout(go, 700) : requestAnimationFrame(go);
    };
    this.seek(from);
    this.timer = this.still.matches ? setTimeout(go, 700) : requestAnimationFrame(go);
    studio.controls.play.textContent = "Pause";
  }
  pause() {
    cancelAnimationFrame(this.timer);
    clearTimeout(this.timer);
    this.timer = 0;
    this.studio.live.setAttribute("aria-live", "polite");
    this.studio.controls.play.textContent = "Play";
  }
}
