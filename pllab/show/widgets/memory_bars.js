// Memory bars: a stacked bar for each rank and one for the formula. Numbers and words come from Python.

class BarsView extends View {
  constructor(context) {
    super(context, "memory-bars", "Memory bars");
    this.stages = this.get("stages");
    this.kinds = new Map(this.get("kinds").map((kind) => [kind.name, kind]));
    this.title.textContent = this.get("title");
    this.addParts();
    this.root.addEventListener("keydown", this.safely(this.press));
    this.follow(["stage"], this.show);
    this.begin();
  }
  get view() {
    return this.stages[this.get("stage")];
  }
  get last() {
    return this.stages.length - 1;
  }
  addParts() {
    this.name = element("output");
    this.slider = element("input", {
      type: "range", min: 0, max: this.last, step: 1, "aria-label": "Stage",
      input: () => this.set("stage", Number(this.slider.value)),
    });
    this.bars = element("div", { class: "pl-bars", role: "img" });
    const legend = [...this.kinds.values()].map(({ name, letter, look }) =>
      element("span", {}, element("span", { class: "pl-part", style: styleOf(look, false), "aria-hidden": "true" }, letter), ` ${name}`));
    this.legend = element("p", { class: "pl-legend" }, ...legend);
    this.pictures = [this.bars, this.legend];
    const stage = element("label", { class: "pl-stage" }, "Stage", this.slider, this.name);
    this.root.append(this.titleLine(), toolsOf("View", stage, ...this.viewButtons), this.bars, this.legend, this.table, this.live);
  }

  show() {
    const { name, bars, sentence } = this.view;
    this.slider.value = this.get("stage");
    this.slider.setAttribute("aria-valuetext", name);
    this.name.textContent = name;
    this.bars.replaceChildren(...bars.flatMap((bar) => this.rowOf(bar)));
    this.bars.setAttribute("aria-label", sentence);
    this.say(sentence);
    this.fillTable();
    this.isReady();
  }
  rowOf(bar) {
    const isForm = bar.source === "formula";
    const parts = bar.parts.map(({ kind, value }) => this.partOf(kind, value, isForm));
    return [
      element("span", { class: "pl-name" }, bar.label),
      element("div", { class: "pl-space" }, ...parts),
      element("span", { class: "pl-total" }, bar.total.toFixed(1)),
    ];
  }
  /** A piece as wide as its share of the scale; its letter only where there is room. */
  partOf(kind, value, isForm) {
    const { letter, look } = this.kinds.get(kind);
    const share = value / this.get("top");
    const width = `width: ${100 * share}%; ${styleOf(look, isForm)}`;
    return element("div", { class: isForm ? "pl-part pl-form" : "pl-part", style: width }, share > 0.03 * letter.length ? letter : "");
  }
  tableView() {
    const kinds = [...this.kinds.keys()];
    const rows = this.stages.flatMap(({ name, bars }) =>
      bars.map((bar) => {
        const has = new Map(bar.parts.map((part) => [part.kind, part.value]));
        return [name, bar.label, ...kinds.map((kind) => (has.get(kind) ?? 0).toFixed(2)), bar.total.toFixed(2)];
      }));
    return tableOf(this.get("title"), ["Stage", "Bar", ...kinds, "Together"], rows);
  }
  /** A digit chooses the stage of this number. The slider's own keys are not for the notebook. */
  press(event) {
    if (/^(Arrow|Home|End|Page)/.test(event.key)) event.stopPropagation();
    const chosen = event.key.length === 1 ? "0123456789".indexOf(event.key) : -1;
    if (chosen < 0 || chosen > this.last || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.set("stage", chosen);
  }
}

/** The colours of a kind, pale for what is computed and not measured. */
function styleOf(look, isPale) {
  return `--fill: var(--look-${look}${isPale ? "-later" : ""}); --line: var(--look-${look}-line)`;
}

export default widgetOf(BarsView);
