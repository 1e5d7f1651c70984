// The way from an input to the painted frame. ipywidgets keeps one message in flight and merges what is said meanwhile, so
// the latest input wins; pictures of the next ones are made ahead (look_ahead.js), and the kernel answers all the same.

const MOST_AHEAD = 20000; // actions, above which a picture made ahead would keep the kernel from the next input

class Answering extends Stage {
  constructor(context, widget) {
    super(context, widget);
    this.options = this.get("options");
    this.families = this.options.families;
    this.early = null; // the setting on screen while the kernel has not answered for it
    this.foreseen = new Map(); // setting -> the numbers of its first run
    this.answered = this.get("view").stamp;
    this.ahead = picturesAhead(this.model, (view, blocks) => this.pictureOf(view, blocks), () => (this.runs[0]?.actions.count > 1000 ? 1 : 3), { arrive: (setting) => this.arrived(setting), rest: () => this.overview.ask() });
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
    this.ahead.want([]);
    this.overview.asking = [];
    this.foresee();
    const check = () => {
      if (this.get("view").stamp >= event.timeStamp || this.get("stamp") > event.timeStamp) return;
      for (const [trait, value] of held) this.model.set(trait, value);
      this.controls.show(Object.keys(values));
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
    this.setInput({ family: now.family, compare: now.compare === now.family ? "" : now.compare }, event);
  }
  /** Draw the setting at once if its picture is here; the kernel answers all the same. */
  foresee() {
    this.early = this.settingNow();
    const picture = this.ahead.find(this.early);
    if (picture) this.present(picture, this.get("stamp"));
    else this.early = null;
  }
  /** While a value is typed: what comes if it is meant. */
  anticipate(changes) {
    this.ahead.want([this.settingNow(changes)]);
  }
  /** A picture made ahead has come: perhaps it is meant by now, and the kernel has not answered yet. */
  arrived(setting) {
    if (!this.early && this.get("stamp") > this.answered && setting === this.settingNow()) this.foresee();
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
    if (!this.wantNext()) this.overview.ask(); // else once the pictures have come
    this.overview.drawSoon();
  }
  /** Ask for the pictures next to this one, and say how many that are. */
  wantNext() {
    if (this.runs[0].actions.count > MOST_AHEAD) return 0;
    const near = this.nextNear?.() ?? [];
    const beside = ["num_ranks", "num_microbatches"].flatMap((trait) => {
      const sizes = trait === "num_ranks" ? this.options.ranks : this.options.microbatches;
      return [1, -1].map((by) => this.controls.nextSizes(sizes, this.get(trait), by)[0]).filter(Boolean).map((value) => this.settingNow({ [trait]: value }));
    });
    const [now, other] = [this.get("family"), this.get("compare")];
    const tour = this.options.tour.filter((name) => name !== now).map((family) => this.settingNow({ family, compare: family === other ? now : other }));
    const missing = [...near, ...beside, ...tour].filter((one) => !this.ahead.find(one));
    this.ahead.want(missing);
    return missing.length;
  }
  /** Draw a picture, and note how long it took from the input to the painted frame. */
  present(picture, stamp) {
    this.settle();
    this.player.pause();
    this.playhead = null;
    this.read(picture);
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
}
