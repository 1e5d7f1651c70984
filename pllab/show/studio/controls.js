// One row of controls and a drawer for the rest. A control sets a trait; `show` brings all in line with the traits, but
// never a box that is being typed in.

class Controls {
  constructor(studio) {
    this.studio = studio;
    this.shows = [];
    const { can_run: canRun, still, ranks, microbatches } = studio.options;
    this.more = buttonOf("more\u2026", () => this.open(this.drawer.hidden), { class: "pl-more", "aria-expanded": "false" });
    this.run = buttonOf("Run it", () => studio.order("run"), { class: "pl-run", hidden: !canRun });
    const page = buttonOf("HTML", () => studio.order("HTML"), { title: "a page that opens in any browser, to hand out", hidden: still });
    const { projector } = studio;
    projector.title = "the picture fills the screen (f)";
    this.bar = element(
      "div", { class: "pl-bar", role: "toolbar", "aria-label": "Controls" },
      this.choice("family", "Schedule", "", null), this.choice("compare", "Compare with", "against", "nothing"),
      this.stepper("num_ranks", "Ranks", "ranks", ranks), this.stepper("num_microbatches", "Micro-batches", "micro-batches", microbatches),
      this.measure(), this.run, element("span", { class: "pl-end" }, this.more, page, projector),
    );
    this.drawer = this.drawerOf();
    this.rove();
  }
  show() {
    for (const show of this.shows) show();
    this.run.disabled = this.studio.get("running");
    this.run.textContent = this.studio.get("running") ? "Running" : "Run it";
  }

  // The row
  /** A menu of families in one order; what does not exist at this size is dimmed, and its title says why. */
  choice(trait, text, word, empty) {
    const { studio } = this;
    const names = [...(empty ? [["", empty]] : []), ...studio.options.families.map(({ name }) => [name, name])];
    const list = element("select", { "aria-label": text, change: (event) => studio.answers.load({ [trait]: list.value }, event) });
    list.append(...names.map(([value, name]) => element("option", { value }, name)));
    this.shows.push(() => {
      list.value = studio.get(trait);
      for (const option of list.options) {
        option.title = studio.problemOf(trait, option.value);
        option.disabled = Boolean(option.title);
      }
    });
    return element("label", { class: "pl-choice" }, element("span", { class: "pl-word" }, word), list);
  }
  /** A number between two buttons that go to the next size of a list; any size in between can be typed. */
  stepper(trait, label, word, sizes) {
    const { studio } = this;
    const put = (value, event) => {
      box.value = value;
      studio.answers.ask({ [trait]: value }, event);
    };
    const step = (by, event) => {
      const now = studio.get(trait);
      put((by > 0 ? sizes.find((one) => one > now) : sizes.findLast((one) => one < now)) ?? now, event);
    };
    const nearest = (value) => sizes.reduce((best, one) => (Math.abs(one - value) < Math.abs(best - value) ? one : best));
    const typed = () => {
      const size = box.value === "" ? studio.get(trait) : Math.min(sizes.at(-1), Math.max(sizes[0], Math.round(Number(box.value))));
      return studio.options.still ? nearest(size) : size;
    };
    const box = element("input", { type: "number", min: sizes[0], max: sizes.at(-1), step: 1, "aria-label": label, change: (event) => put(typed(), event) });
    box.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      step(by, event);
    });
    this.shows.push(() => document.activeElement !== box && (box.value = studio.get(trait)));
    const button = (by, sign, how) => buttonOf(sign, (event) => step(by, event), { "aria-label": `${how} ${word}` });
    return element("span", { class: "pl-step" }, element("span", { class: "pl-word", "aria-hidden": "true" }, word), button(-1, "\u2212", "fewer"), box, button(1, "+", "more"));
  }
  measure() {
    const { studio } = this;
    const measures = [[false, "one step", "ends at a barrier (b)"], [true, "steady state", "steps follow each other without a barrier (b)"]];
    const buttons = measures.map(([value, text, title]) => {
      const isOn = () => Boolean(studio.get("steady")) === value;
      const button = buttonOf(text, () => studio.set("steady", value && !isOn()), { title }); // in a narrow row the one alone
      this.shows.push(() => button.setAttribute("aria-pressed", String(isOn())));
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
  drawerOf() {
    const { studio } = this;
    const heading = (text) => element("strong", { class: "pl-heading" }, text);
    const [unit, scale] = studio.options.in_ms ? ["ms", 1e3] : ["s", 1];
    const isFixed = { disabled: studio.options.still };
    const costs = Object.entries({ forward: "forward F", backward_input: "backward of the inputs I", backward_weight: "backward of the weights W", p2p: "message" });
    const drawer = element(
      "div", { class: "pl-drawer", role: "dialog", "aria-label": "More controls", hidden: true },
      heading("Cost of one micro-batch on one rank"),
      ...costs.map(([trait, text]) => this.numberRow(`${text}, ${unit}`, trait, scale, isFixed)), ...(studio.options.still ? [] : [this.stageCosts(unit, scale)]),
      heading("Picture"),
      toolsOf("Player", buttonOf("Step back", () => studio.foot.stepBy(-1)), buttonOf("Step forward", () => studio.foot.stepBy(1))),
      toolsOf("View", buttonOf("\u2212", () => studio.picture.zoom(2), { "aria-label": "Zoom out" }), buttonOf("+", () => studio.picture.zoom(0.5), { "aria-label": "Zoom in" }), buttonOf("Fit", () => studio.picture.look(null))),
    );
    drawer.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.open(false);
    });
    return drawer;
  }
  /** A labelled number; an empty box changes nothing. */
  numberRow(text, trait, scale, more) {
    const { studio } = this;
    const read = () => { box.value = Number((studio.get(trait) * scale).toPrecision(4)); };
    const change = (event) => {
      if (Number(box.value) < 0) box.value = 0;
      if (box.value === "") read();
      else studio.answers.ask({ [trait]: Number(box.value) / scale }, event);
    };
    const box = element("input", { type: "number", min: 0, step: "any", ...more, change });
    this.shows.push(() => document.activeElement !== box && read());
    return element("label", { class: "pl-row" }, text, box);
  }

  // Costs of single stages
  stageCosts(unit, scale) {
    const body = element("div", { class: "pl-stages" });
    // beside the table, which is not made anew while it has the focus
    const same = buttonOf("Same for all", (event) => this.studio.answers.ask({ stage_costs: {} }, event));
    const details = element("details", { toggle: () => fill() }, element("summary", {}, "Costs per stage"), body, same);
    const fill = () => body.replaceChildren(...(details.open ? this.stageTable(unit, scale) : []));
    this.shows.push(() => details.open && !body.contains(document.activeElement) && fill());
    return details;
  }
  stageTable(unit, scale) {
    const { studio } = this;
    const costs = ["forward", "backward_input", "backward_weight"];
    const [run] = studio.picture.runs;
    const cell = (stage, which) => {
      const given = studio.get("stage_costs")[stage]?.[which] ?? null;
      const usual = Number((studio.get(costs[which]) * run.unit * scale).toPrecision(4));
      const change = (event) => {
        const values = [...(studio.get("stage_costs")[stage] ?? [null, null, null])];
        values[which] = box.value === "" ? null : Math.max(0, Number(box.value)) / scale;
        studio.answers.ask({ stage_costs: { ...studio.get("stage_costs"), [stage]: values } }, event);
      };
      const box = element("input", { type: "number", min: 0, step: "any", placeholder: usual, value: given === null ? null : Number((given * scale).toPrecision(4)), "aria-label": `${"FIW"[which]} of stage ${stage}, ${unit}`, change });
      return box;
    };
    const rows = Array.from({ length: run.num_stages }, (_, stage) => [`stage ${stage}`, ...[0, 1, 2].map((which) => cell(stage, which))]);
    return [tableOf(`Empty: as above; ${unit}`, ["Stage", "F", "I", "W"], rows)];
  }
}
