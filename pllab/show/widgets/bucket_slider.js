// The bucket slider: boxes as wide as their bytes above a chart of times. All words come from Python.

/** A mark of the legend with its words. */
function keyOf(name, text) {
  const mark = name === "pl-measured"
    ? shape("circle", { cx: 7, cy: 7, r: 5, class: name })
    : shape("rect", { x: 2, y: 2, width: 10, height: 10, class: name });
  return element("span", { class: "pl-key" }, shape("svg", { width: 15, height: 14, "aria-hidden": "true" }, mark), ` ${text}`);
}

class BucketView extends View {
  constructor(context) {
    super(context, "buckets", "Bucket sizes");
    this.choices = this.get("choices");
    this.sizes = this.get("sizes");
    this.last = this.choices.length - 1;
    this.title.textContent = this.get("title");
    this.summary.textContent = this.get("summary");
    this.addParts();
    // The slider's own keys, and not JupyterLab's, which folds headings with the arrows.
    this.slider.addEventListener("keydown", (event) => event.stopPropagation());
    this.follow(["step"], this.show);
    this.followWidth(this.picture, this.show);
    this.begin();
  }
  get step() {
    return this.get("step");
  }
  addParts() {
    const go = (to) => this.set("step", Math.min(this.last, Math.max(0, to)));
    const input = () => go(Number(this.slider.value));
    this.slider = element("input", { type: "range", min: 0, max: this.last, step: 1, "aria-label": "Size of a bucket", input });
    this.smaller = buttonOf("Smaller", () => go(this.step - 1));
    this.larger = buttonOf("Larger", () => go(this.step + 1));
    this.strip = element("div", { class: "pl-strip", role: "img" });
    this.chart = element("div", { class: "pl-chart", role: "img" });
    const note = "gradients in the order of backward, as wide as their bytes; a box is a message";
    const keys = [keyOf("pl-predicted", "predicted (simulated)"), keyOf("pl-measured", "measured (real), quartiles")];
    const legend = element("p", { class: "pl-legend" }, ...keys);
    this.picture = element("div", { class: "pl-buckets-picture" }, this.strip, element("p", { class: "pl-note" }, note), this.chart, legend);
    this.pictures = [this.picture];
    const tools = toolsOf("Buckets", this.smaller, this.slider, this.larger, ...this.viewButtons);
    this.root.append(this.titleLine(), this.picture, this.table, this.live, tools);
  }

  // Drawing
  drawStrip(width) {
    const height = this.isLarge ? 60 : 40;
    const scale = width / this.sizes.reduce((sum, size) => sum + size, 0);
    let start = 0;
    const boxes = this.choices[this.step].filled.flatMap((size, index) => {
      const box = workShapes("C", index % 2 === 1, { x: start * scale, y: 1, width: size * scale, height: height - 2 });
      start += size;
      return box;
    });
    let reached = 0;
    const marks = this.sizes.map((size) => `M${(reached += size) * scale} ${height - 8}v7`).join("");
    this.strip.replaceChildren(shape("svg", { width, height }, ...boxes, shape("path", { class: "pl-cut", d: marks })));
  }
  drawChart(width) {
    const scale = this.isLarge ? 1.6 : 1;
    const [left, bottom, height] = [64 * scale, 150 * scale, 200 * scale];
    const x = (index) => left + 24 * scale + (index * (width - left - 60 * scale)) / Math.max(1, this.last);
    const y = (seconds) => bottom - (seconds / this.get("top_s")) * (bottom - 10);
    const parts = [shape("path", { class: "pl-here", d: `M${x(this.step)} 4V${bottom}` })];
    for (const { at, text } of this.get("ticks")) {
      parts.push(shape("path", { class: "pl-axis", d: `M${left - 5} ${y(at)}H${width - 8}` }));
      parts.push(shape("text", { class: "pl-axis-text", x: left - 9, y: y(at) + 4, "text-anchor": "end" }, text));
    }
    parts.push(shape("path", { class: "pl-curve", d: `M${this.choices.map((one, index) => `${x(index)} ${y(one.seconds)}`).join("L")}` }));
    this.choices.forEach((one, index) => {
      parts.push(...this.pointsOf(one, index, x(index), y, scale));
      const isLabelled = index === this.step || (index % 2 === 0 && Math.abs(index - this.step) > 1 && width > 560);
      const look = index === this.step ? "pl-axis-text pl-shown" : "pl-axis-text";
      if (isLabelled) parts.push(shape("text", { class: look, x: x(index), y: bottom + 20 * scale, "text-anchor": "middle" }, one.label));
    });
    const middle = { x: left + (width - left) / 2, y: bottom + 42 * scale, "text-anchor": "middle" };
    parts.push(shape("text", { class: "pl-axis-text", ...middle }, "size of a bucket"));
    this.chart.replaceChildren(shape("svg", { width, height, "font-size": 12 * scale }, ...parts));
  }
  /** The predicted time of one size, and the measured one with its quartiles. */
  pointsOf(one, index, x, y, scale) {
    const size = (index === this.step ? 13 : 8) * scale;
    const predicted = shape("rect", { class: "pl-predicted", x: x - size / 2, y: y(one.seconds) - size / 2, width: size, height: size });
    if (one.measured_s === null) return [predicted];
    const [middle, low, high] = [y(one.measured_s), y(one.low), y(one.high)];
    return [
      predicted,
      shape("path", { class: "pl-range", d: `M${x - 6} ${low}h12M${x} ${low}V${high}M${x - 6} ${high}h12` }),
      shape("circle", { class: "pl-measured", cx: x, cy: middle, r: (index === this.step ? 8 : 5) * scale }),
    ];
  }

  // What is shown
  show() {
    const one = this.choices[this.step];
    this.slider.value = this.step;
    this.slider.setAttribute("aria-valuetext", one.sentence);
    this.smaller.disabled = this.step === 0;
    this.larger.disabled = this.step === this.last;
    this.say(one.sentence);
    this.strip.setAttribute("aria-label", `${this.sizes.length} gradients in ${one.num_messages} messages`);
    this.chart.setAttribute("aria-label", `Time by bucket size; ${one.sentence}`);
    if (this.picture.clientWidth) {
      this.drawStrip(this.picture.clientWidth);
      this.drawChart(this.picture.clientWidth);
    }
    this.fillTable();
    this.markLine(this.step, "pl-running");
    this.isReady();
  }
  tableView() {
    const rows = this.choices.map((one) => [one.label, String(one.num_messages), one.largest, one.predicted, one.measured, one.spread]);
    return tableOf(this.get("title"), ["Bucket", "Messages", "Largest", "Predicted (simulated)", "Measured (real)", "Quartiles"], rows);
  }
}

export default widgetOf(BucketView);
