// The bubble studio: its parts, its words, its keys, its files. Python simulates and the browser draws.

const MOST_LINES = 500;
const TRAITS_SHOWN = ["steady", "shades", "running"];

class Studio extends Answering {
  constructor(context) {
    super(context, "studio");
    this.build();
    this.watch();
    this.safely(() => this.read(this.answer()))();
    this.begin();
    this.settled();
  }
  // Parts
  build() {
    this.player = new Player(this);
    this.controls = new Controls(this);
    this.overview = new Overview(this);
    this.problem = element("p", { class: "pl-error", role: "alert", hidden: true });
    this.numbers = element("p", { class: "pl-spoken", "aria-live": "polite" });
    this.axis = element("canvas", { "aria-hidden": "true" });
    this.pictureNode = element("div", { class: "pl-plots" });
    this.foot = element("div", { class: "pl-axis" }, this.axis);
    this.stage = element("div", { class: "pl-stage" }, this.pictureNode, this.overview.node);
    this.pictures = [this.stage];
    this.live.classList.add("pl-say");
    this.root.append(this.controls.bar, this.controls.drawer, this.problem, this.stage, this.table, this.live, this.numbers);
    this.root.addEventListener("keydown", this.safely(this.press));
  }
  watch() {
    const sizes = new ResizeObserver(this.safely(() => this.root.isConnected && this.resize()));
    sizes.observe(this.root);
    sizes.observe(this.pictureNode);
    const hear = this.safely((message) => message.about && this.overview.hear(message));
    this.model.on("msg:custom", hear);
    const stopped = new AbortController();
    document.addEventListener("fullscreenchange", () => this.leftScreen(), { signal: stopped.signal });
    window.addEventListener("resize", this.safely(() => this.resize()), { signal: stopped.signal });
    this.stops.push(
      () => sizes.disconnect(), () => this.model.off("msg:custom", hear), () => stopped.abort(), () => this.ahead.stop(), () => this.player.pause(),
      () => clearTimeout(this.waiting), () => clearTimeout(this.speaking),
      watchTheme(this.safely(() => { this.paints = null; this.show(); })),
    );
    this.follow(["view"], this.hearView);
    this.follow(TRAITS_SHOWN, this.show);
    this.follow(["running"], () => this.ahead.forget()); // pressed in another view
    this.follow(this.options.inputs, () => this.controls.show());
    this.follow(["selected"], this.followSelected);
    this.follow(["delivery"], this.deliver);
  }

  // What is shown
  show() {
    if (!this.root.isConnected) return; // it is drawn when it has a size
    this.paints ??= paintsOf(this.theme, this.root);
    this.root.style.setProperty("--pl-idle", this.paints.look.idle);
    this.root.style.setProperty("--pl-on-idle", this.paints.look.on_idle);
    this.root.style.setProperty("--pl-over", this.paints.look.over_text);
    this.root.style.setProperty("--pl-soft", this.paints.look.soft);
    this.controls.show();
    this.problem.textContent = this.view.problem;
    this.problem.hidden = !this.view.problem;
    for (const plot of this.plots) plot.showHead();
    this.fillTable();
    this.fit();
    this.draw();
    this.overview.drawSoon();
    this.say();
    this.isReady();
  }
  /** As high as the schedules need, at most as high as the window, and in a low window high enough for the rows. */
  fitHeight() {
    const isFilled = document.fullscreenElement === this.root;
    const page = this.root.closest(".jp-WindowedPanel-outer, .jp-Notebook")?.clientHeight ?? window.innerHeight;
    const code = this.root.closest(".jp-Cell")?.querySelector(".jp-Cell-inputWrapper")?.offsetHeight ?? 0;
    const room = this.isLarge || !code ? page - 16 : Math.min(page - 16 - code, 0.8 * page); // with the code that made it
    const high = (pitch) => this.em * this.runs.reduce((all, { actions }) => all + 3.6 + actions.numRanks * (actions.numRanks > 16 ? 1.5 : pitch), 0);
    const wanted = this.isLarge ? room : this.em * 7 + 40 + high(5.6);
    const least = Math.min(440, this.em * 8 + 40 + high(2));
    this.root.style.height = isFilled ? "" : this.get("table") ? "auto" : `${Math.round(Math.max(least, Math.min(room, wanted)))}px`;
  }
  /** Read the sizes where they may have changed: the page is laid out for each reading, which takes longer than to draw. */
  fit() {
    const shape = [...this.runs.map(({ actions }) => actions.numRanks), this.isLarge, this.get("table")].join();
    if (shape === this.fitted) return;
    this.fitted = shape;
    this.em = parseFloat(getComputedStyle(this.pictureNode).fontSize);
    this.fitHeight();
    for (const plot of this.plots) plot.measure();
  }
  resize() {
    this.fitted = null;
    if (this.runs.length && !this.stage.hidden) this.show();
  }
  say() {
    const { pointed, runs } = this;
    const story = this.families.find(({ name }) => name === runs[0].name)?.story;
    if (pointed?.gap) super.say(sayGap(runs[pointed.run], pointed.gap, this.steady));
    else if (pointed) super.say(sayAction(runs[pointed.run], this.plots[pointed.run].gaps, pointed.i, this.theme.names));
    else if (this.brush) super.say(sayBrush(runs, this.steady, this.brush));
    else if (this.playhead !== null) super.say(sayMoment(runs[0], this.playhead));
    else super.say(saySetting(runs, story, this.steady));
  }
  tableView() {
    const { actions, name, engine } = this.runs[0];
    const times = (i) => [actions.start[i], actions.end[i], actions.end[i] - actions.start[i]].map((time) => exact(time, actions));
    const lines = Array.from({ length: Math.min(MOST_LINES, actions.count) }, (_, i) => [`rank ${actions.rank[i]}`, labelOf(actions, i, true), ...times(i)]);
    const rest = actions.count > MOST_LINES ? `, the first ${MOST_LINES} of ${actions.count}; the CSV has all` : "";
    return tableOf(`${name}, ${engine}, by rank and start${rest}`, ["Rank", "Action", "Start", "End", "Duration"], lines);
  }

  // Keys
  press(event) {
    const { tagName } = event.target;
    if (event.target === this.table) return event.stopPropagation(); // it scrolls
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "Tab" && event.key !== "Escape") event.stopPropagation(); // ours, and not JupyterLab's
    const tour = this.options.tour[Number(event.key) - 1];
    const isTyping = tagName === "INPUT" && event.target.type === "number";
    const inPlot = this.plots.find(({ pic }) => pic === event.target);
    const react = isTyping ? null
      : tour ? () => this.load({ family: tour }, event)
      : tagName === "SELECT" ? null
      : inPlot ? (this.plotKeys(inPlot)[event.key] ?? this.keys()[event.key])
      : ["BUTTON", "INPUT", "SUMMARY"].includes(tagName) && (event.key === " " || event.key === "Enter") ? null : this.keys()[event.key];
    if (!react) return;
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab would move to another cell
    react();
  }
  keys() {
    return {
      b: () => this.set("steady", !this.steady),
      s: () => this.set("shades", !this.get("shades")),
      f: () => { this.set("projector", !this.isLarge); this.fillScreen(); },
      z: () => this.zoomToBrush(),
      " ": () => this.player.toggle(),
      ",": () => this.player.stepBy(-1),
      ".": () => this.player.stepBy(1),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.look(null),
      PageUp: () => this.pan(-0.5), PageDown: () => this.pan(0.5),
      Escape: () => this.escape(),
    };
  }
  plotKeys(plot) {
    const walk = (rank, along) => () => this.walk(plot.number, rank, along);
    return { ArrowLeft: walk(0, -1), ArrowRight: walk(0, 1), ArrowUp: walk(-1, 0), ArrowDown: walk(1, 0), Home: walk(0, -Infinity), End: walk(0, Infinity) };
  }
  escape() {
    const isFree = !this.pointed && !this.brush && this.playhead === null;
    this.player.pause();
    this.playhead = null;
    this.release();
    if (isFree) this.look(null);
  }
  // The whole screen, which a browser gives to a click or a key alone
  fillScreen() {
    if (this.isLarge && !document.fullscreenElement) this.root.requestFullscreen?.().catch(() => {});
    else if (!this.isLarge && document.fullscreenElement === this.root) document.exitFullscreen();
  }
  leftScreen() {
    if (document.fullscreenElement !== this.root && this.wasFilled) this.set("projector", false);
    this.wasFilled = document.fullscreenElement === this.root;
    this.resize();
  }

  // Run and export
  order(what) {
    if (what === "run") this.ahead.forget(); // a run lies over the pictures of its schedule
    if (what === "PNG" && !this.options.exports.includes("SVG")) return this.savePicture(); // a page has no kernel
    this.orders = (this.orders ?? 0) + 1;
    return this.set("order", { what, number: `${this.orders}-${performance.now()}` });
  }
  /** The plots as they are on screen, one below the other. */
  savePicture() {
    const layers = [...this.plots.map(({ base, name, big }) => [base, `${name.textContent}  ${big.textContent} bubble fraction`]), [this.axis, ""]];
    const ratio = window.devicePixelRatio || 1;
    const head = 30 * ratio;
    const high = layers.map(([canvas, words]) => canvas.height + (words ? head : 0));
    const sheet = Object.assign(document.createElement("canvas"), { width: this.plots[0].base.width, height: high.reduce((all, one) => all + one, 0) });
    const ctx = sheet.getContext("2d");
    ctx.fillStyle = this.paints.look.ground;
    ctx.fillRect(0, 0, sheet.width, sheet.height);
    ctx.fillStyle = this.paints.look.ink;
    ctx.font = this.paints.font(15 * ratio, 650);
    let y = 0;
    for (const [canvas, words] of layers) {
      if (words) ctx.fillText(words, 4, y + head * 0.65);
      ctx.drawImage(canvas, 0, y + (words ? head : 0));
      y += canvas.height + (words ? head : 0);
    }
    sheet.toBlob((blob) => this.save(blob, `${this.runs[0].file}.png`));
  }
  save(blob, name) {
    const address = URL.createObjectURL(blob);
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  deliver() {
    const { name, type, number } = this.get("delivery");
    if (number === this.get("order").number) this.save(new Blob([this.get("file")], { type }), name);
  }
}

const { render } = widgetOf(Studio);

export default { render };
