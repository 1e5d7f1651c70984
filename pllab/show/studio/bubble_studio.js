// The bubble studio: its parts, its words, its keys, its files. Python simulates and the browser draws.

class Studio extends View {
  constructor(context) {
    super(context, "studio");
    this.options = this.get("options");
    this.build();
    this.watch();
    this.safely(() => this.picture.read(this.answers.runs()))();
    this.begin();
  }
  // Parts
  build() {
    this.answers = new Answers(this);
    this.picture = new Picture(this);
    this.foot = new Foot(this);
    this.controls = new Controls(this);
    this.problem = element("p", { class: "pl-error", role: "alert", hidden: true });
    this.numbers = element("p", { class: "pl-spoken", "aria-live": "polite" });
    const sentence = element("div", { class: "pl-say" }, this.live, this.problem);
    this.root.append(this.controls.bar, this.controls.drawer, this.picture.node, this.foot.node, sentence, this.numbers);
    this.root.addEventListener("keydown", this.safely(this.press));
  }
  watch() {
    const sizes = new ResizeObserver(this.safely(() => this.root.isConnected && this.resize()));
    sizes.observe(this.root);
    sizes.observe(this.picture.node);
    const resize = this.safely(() => this.resize());
    window.addEventListener("resize", resize);
    this.stops.push(
      () => sizes.disconnect(), () => window.removeEventListener("resize", resize), () => this.answers.stop(), () => this.foot.pause(),
      watchTheme(this.safely(() => { this.picture.paints = null; this.show(); })),
    );
    this.follow(["view"], () => this.answers.hear());
    this.follow(["steady", "running"], this.show);
    this.follow(this.options.inputs, () => this.controls.show());
    this.follow(["page"], this.deliver);
  }

  // What is shown
  show() {
    if (!this.root.isConnected) return; // it is drawn when it has a size
    const { picture } = this;
    if (!picture.paints) this.wearPaints();
    this.controls.show();
    this.foot.show();
    this.keepKeys();
    const { problem } = this.get("view");
    this.problem.textContent = problem;
    this.problem.hidden = !problem;
    for (const plot of picture.plots) plot.showHead();
    this.fit();
    picture.draw();
    this.tell();
    this.isReady();
  }
  wearPaints() {
    this.picture.paints = paintsOf(this.theme, this.root);
    this.foot.drawLegend(this.picture.paints);
  }
  /** In a page as high as the schedules need, at most as high as the window; with the code that made it in sight. */
  fitHeight() {
    const { em, runs } = this.picture;
    const page = this.root.closest(".jp-WindowedPanel-outer, .jp-Notebook")?.clientHeight ?? window.innerHeight;
    const code = this.root.closest(".jp-Cell")?.querySelector(".jp-Cell-inputWrapper")?.offsetHeight ?? 0;
    const room = code ? Math.min(page - 16 - code, 0.8 * page) : page - 16;
    const high = (pitch) => em * runs.reduce((all, { actions }) => all + 3.6 + actions.numRanks * (actions.numRanks > 16 ? 1.5 : pitch), 0);
    const least = Math.min(440, em * 9 + 40 + high(2));
    const height = Math.round(Math.max(least, Math.min(room, em * 9 + 40 + high(5.8))));
    this.root.style.height = this.isLarge ? "" : `${height}px`;
  }
  /** Read the sizes where they may have changed: the page is laid out for each reading, which takes longer than to draw. */
  fit() {
    const shape = [...this.picture.runs.map(({ actions }) => actions.numRanks), this.isLarge].join();
    if (shape === this.fitted) return;
    this.fitted = shape;
    this.picture.measure();
    this.fitHeight();
    for (const plot of this.picture.plots) plot.measure();
  }
  resize() {
    this.fitted = null;
    if (this.picture.runs.length) this.show();
  }
  /** The sentence about what is pointed at, the moment played, or the schedule. */
  tell() {
    const { pointed, runs, plots, playhead, steady } = this.picture;
    const story = this.options.families.find(({ name }) => name === runs[0].name)?.story;
    if (pointed?.gap) this.say(sayGap(runs[pointed.run], pointed.gap, steady));
    else if (pointed) this.say(sayAction(runs[pointed.run], plots[pointed.run].gaps, pointed.i, this.theme.names));
    else if (playhead !== null) this.say(sayMoment(runs[0], playhead));
    else this.say(saySetting(runs, story, steady));
  }
  /** The numbers, for who cannot see them change. */
  speak() {
    const { picture } = this;
    this.numbers.textContent = picture.runs.map((run) => {
      const measure = picture.measureOf(run);
      return `${run.title}, ${run.engine}: bubble fraction ${writePercent(measure.bubble_fraction)}, ${writeSeconds(measure.length_s)}, holds ${writeCount(Math.max(...run.most_held))}.`;
    }).join(" ");
  }
  /** Why a family cannot be chosen at this size, or nothing; a schedule of one's own brings its size. */
  problemOf(trait, name) {
    const isOwn = trait === "family" && !this.options.still && this.options.families.find((one) => one.name === name)?.is_own;
    return isOwn || name === this.get(trait) ? "" : this.get("view").missing[name] ?? "";
  }

  // Keys
  press(event) {
    const { tagName } = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter")) return; // the notebook's
    if (event.key !== "Tab" && event.key !== "Escape") event.stopPropagation(); // ours, and not JupyterLab's
    const isTyping = tagName === "INPUT" && event.target.type === "number";
    const isPressed = ["BUTTON", "INPUT", "SUMMARY"].includes(tagName) && (event.key === " " || event.key === "Enter");
    const inPlot = this.picture.plots.find(({ pic }) => pic === event.target);
    const react = { ...(tagName !== "SELECT" && this.keys()), ...(inPlot && this.plotKeys(inPlot)), ...this.tourKeys(event) }[event.key];
    if (isTyping || isPressed || !react || react() === false) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
  }
  /** Numbers, and the keys of a clicker. */
  tourKeys(event) {
    const stops = Object.fromEntries(this.foot.stops.map((_, at) => [at + 1, () => this.foot.go(at, event)]));
    return { ...stops, PageUp: () => this.foot.step(-1, event), PageDown: () => this.foot.step(1, event) };
  }
  keys() {
    const { picture, foot } = this;
    return {
      b: () => this.set("steady", !picture.steady),
      " ": () => foot.toggle(), ",": () => foot.stepBy(-1), ".": () => foot.stepBy(1),
      "+": () => picture.zoom(0.5), "=": () => picture.zoom(0.5), "-": () => picture.zoom(2), 0: () => picture.look(null),
      Escape: () => this.escape(),
    };
  }
  /** Let go of what is held, else show all times; false if there was nothing to do. */
  escape() {
    if (this.picture.release()) return true;
    const wasZoomed = this.picture.frame !== null;
    if (wasZoomed) this.picture.look(null);
    return wasZoomed;
  }
  plotKeys(plot) {
    const walk = (rank, along) => () => this.picture.walk(plot.number, rank, along);
    return { ArrowLeft: walk(0, -1), ArrowRight: walk(0, 1), ArrowUp: walk(-1, 0), ArrowDown: walk(1, 0), Home: walk(0, -Infinity), End: walk(0, Infinity) };
  }

  // Run, and hand out
  order(what) {
    this.orders = (this.orders ?? 0) + 1;
    this.set("order", { what, number: `${this.orders}-${performance.now()}` });
  }
  deliver() {
    const { file, text, number } = this.get("page");
    if (number !== this.get("order").number) return;
    const address = URL.createObjectURL(new Blob([text], { type: "text/html" }));
    element("a", { href: address, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}

const { render } = widgetOf(Studio);

export default { render };
