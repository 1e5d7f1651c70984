// The bubble studio: its parts, its keys, and the way from an input to the painted frame. Python simulates and the
// browser draws. ipywidgets keeps one message in flight and merges what is said meanwhile, so the latest input wins;
// pictures of the next ones are made ahead (look_ahead.js).

const MOST_LINES = 500;
const MOST_AHEAD = 20000; // actions, above which a picture made ahead would keep the kernel from the next input
const TRAITS_SHOWN = ["steady", "shades", "running"];

class Studio extends Stage {
  constructor(context) {
    super(context);
    this.options = this.get("options");
    this.families = this.options.families;
    this.early = null; // the setting on screen while the kernel has not answered for it
    this.foreseen = new Map(); // setting -> the numbers of its first run
    this.answered = this.get("view").stamp;
    this.ahead = picturesAhead(this.model, (view, blocks) => this.pictureOf(view, blocks), () => (this.runs[0]?.actions.count > 4000 ? 1 : 3));
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
      () => cancelAnimationFrame(this.moving), () => clearTimeout(this.waiting), () => clearTimeout(this.speaking),
      watchTheme(this.safely(() => { this.paints = null; this.show(); })),
    );
    this.follow(["view"], this.hearView);
    this.follow(TRAITS_SHOWN, this.show);
    this.follow(["running"], () => this.ahead.forget()); // pressed in another view
    this.follow(this.options.inputs, () => this.controls.show());
    this.follow(["selected"], this.followSelected);
    this.follow(["delivery"], this.deliver);
  }

  // Data
  pictureOf(view, [actions, compared, measured, path]) {
    const blocks = [actions, compared, measured];
    const runs = [0, 2, 1].filter((at) => view.runs[at]).map((at) => runOf(view.runs[at], readActions(blocks[at])));
    return { view, runs, path: readPlaces(path) };
  }
  answer() {
    return this.pictureOf(this.get("view"), ["actions", "compared", "measured", "path"].map((trait) => this.get(trait)));
  }
  read({ view, runs, path }) {
    Object.assign(this, { view, runs, path, brush: null });
    while (this.plots.length > runs.length) this.plots.pop().node.remove();
    while (this.plots.length < runs.length) this.addPlot();
    this.pictureNode.append(this.foot);
    this.pointed = null;
    this.isPinned = false;
    if (this.get("selected")) this.followSelected();
    if (this.frame && this.frame[1] > this.whole()[1]) this.frame = null;
  }
  settingNow(changes = {}) {
    return JSON.stringify({ ...Object.fromEntries(this.options.inputs.map((trait) => [trait, this.get(trait)])), ...changes });
  }
  known(setting) {
    return this.foreseen.get(setting);
  }
  keepKnown(setting, run) {
    this.foreseen.set(setting, run);
    if (this.foreseen.size > 400) this.foreseen.delete(this.foreseen.keys().next().value);
  }

  // From an input to the painted frame
  /** Set what a prediction depends on; true if its picture was here. What the kernel refuses is taken back. */
  setInput(values, event = new Event("key")) {
    const held = Object.keys(values).map((trait) => [trait, this.get(trait)]);
    for (const [trait, value] of Object.entries(values)) this.model.set(trait, value);
    this.model.set("stamp", event.timeStamp);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.root.classList.add("pl-waits"), 250); // a search takes its time
    this.foresee();
    const check = () => {
      if (this.get("view").stamp >= event.timeStamp || this.get("stamp") > event.timeStamp) return;
      for (const [trait, value] of held) this.model.set(trait, value);
      this.controls.show(true);
      this.early = null;
      this.present(this.answer(), this.answered);
    };
    this.model.save_changes({ iopub: { status: ({ content }) => content.execution_state === "idle" && setTimeout(check, 300) } });
  }
  /** Set a size, and ask for those next to it. */
  setNear(trait, value, event, nextOf) {
    this.nextNear = () => nextOf(this.get(trait)).slice(0, 4).map((one) => this.settingNow({ [trait]: one }));
    this.setInput({ [trait]: value }, event);
    if (this.early) this.wantNext(); // while it goes on in one direction
  }
  /** Show a family or compare with one; the two change places rather than be the same. */
  load(changes, event) {
    const now = { family: this.get("family"), compare: this.get("compare"), ...changes };
    if (changes.family && changes.family === this.get("compare")) now.compare = this.get("family");
    if (changes.compare && changes.compare === this.get("family")) now.family = this.get("compare") || now.family;
    this.isMoving = true; // from one family to the next before our eyes
    this.setInput({ family: now.family, compare: now.compare === now.family ? "" : now.compare }, event);
  }
  /** Draw the setting at once if its picture is here; the kernel answers all the same. */
  foresee() {
    this.early = this.settingNow();
    const picture = this.ahead.find(this.early);
    if (picture) this.present(picture, this.get("stamp"));
    else this.early = null;
  }
  /** The kernel has answered: draw it, unless it is on screen already or an input came after it. */
  hearView() {
    const { stamp, problem } = this.get("view");
    const isLast = stamp === this.get("stamp");
    if (this.early && !isLast) return;
    const setting = this.settingNow();
    const isShown = this.early === setting && this.isOnScreen(this.get("view"));
    this.early = null;
    if (isShown) this.settle();
    else this.present(this.answer(), stamp);
    if (!isLast) return;
    if (!problem) this.ahead.keep(setting, { view: this.view, runs: this.runs, path: this.path });
    this.settled();
  }
  isOnScreen(other) {
    const wordsOf = (one) => JSON.stringify({ ...one, stamp: 0, number: 0 });
    return wordsOf(other) === wordsOf(this.view) && this.path.length === this.get("path").byteLength / 4;
  }
  settle() {
    clearTimeout(this.waiting);
    this.root.classList.remove("pl-waits");
  }
  /** Nothing is on its way: ask for what may come next, and for the points of the overview. */
  settled() {
    this.wantNext();
    this.overview.ask();
    this.overview.draw();
  }
  wantNext() {
    if (this.runs[0].actions.count > MOST_AHEAD) return this.ahead.want([]);
    const near = this.nextNear?.() ?? [];
    const beside = ["num_ranks", "num_microbatches"].flatMap((trait) => {
      const sizes = trait === "num_ranks" ? this.options.ranks : this.options.microbatches;
      return [1, -1].map((by) => this.controls.nextSizes(sizes, this.get(trait), by)[0]).filter(Boolean).map((value) => this.settingNow({ [trait]: value }));
    });
    const tour = this.options.tour.filter((name) => name !== this.get("family") && name !== this.get("compare")).map((family) => this.settingNow({ family }));
    return this.ahead.want([...near, ...beside, ...tour].filter((one) => !this.ahead.find(one)));
  }
  /** Draw a picture, and note how long it took from the input to the painted frame. */
  present(picture, stamp) {
    this.settle();
    this.player.pause();
    this.playhead = null;
    const before = this.runs;
    this.read(picture);
    if (this.isMoving) this.move(before);
    this.isMoving = false;
    this.show();
    if (stamp === this.answered) return;
    this.answered = stamp;
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => this.speak(), 400); // once a stepper rests
    requestAnimationFrame(() => {
      const channel = new MessageChannel(); // its message comes after the frame is painted
      channel.port1.onmessage = () => (this.root.dataset.plRepaintMs = (performance.now() - stamp).toFixed(1));
      channel.port2.postMessage(0);
    });
  }
  speak() {
    this.numbers.textContent = this.runs.map((run) => {
      const measure = this.measureOf(run);
      return `${run.title}, ${run.engine}: bubble fraction ${writePercent(measure.bubble_fraction)}, ${writeSeconds(measure.length_s)}, holds ${writeCount(Math.max(...run.most_held))}.`;
    }).join(" ");
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
    this.fitHeight();
    this.fillTable();
    this.draw();
    this.overview.draw();
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
  get em() {
    return parseFloat(getComputedStyle(this.pictureNode).fontSize);
  }
  resize() {
    if (this.runs.length && !this.stage.hidden) this.show();
  }
  say() {
    const { pointed, runs } = this;
    const story = this.families.find(({ name }) => name === runs[0].name)?.story;
    if (pointed?.gap) super.say(sayGap(runs[pointed.run], pointed.gap, this.steady));
    else if (pointed) super.say(sayAction(runs[pointed.run], this.plots[pointed.run].gaps, pointed.i));
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
    sheet.toBlob((blob) => this.save(blob, `${this.runs[0].title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.png`));
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
