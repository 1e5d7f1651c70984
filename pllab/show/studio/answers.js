// The way to the kernel and back: one request, one answer. ipywidgets keeps one message in flight and merges what is said
// meanwhile, so the latest input wins.

class Answers {
  constructor(studio) {
    this.studio = studio;
    this.answered = studio.get("view").stamp;
  }
  /** Set what a prediction depends on, and what only the picture does beside it. */
  ask(values, event = new Event("key")) {
    const { model, root } = this.studio;
    for (const [trait, value] of Object.entries(values)) model.set(trait, value);
    model.set("stamp", event.timeStamp);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => root.classList.add("pl-waits"), 250); // a large schedule takes its time
    model.save_changes();
  }
  /** Show a family or compare with one; the two change places rather than be the same. */
  load(changes, event) {
    const [family, compare] = ["family", "compare"].map((trait) => this.studio.get(trait));
    const now = { with_run: true, family, compare, ...changes };
    if (now.family === now.compare && changes.family) now.compare = family;
    if (now.family === now.compare && changes.compare) now.family = compare;
    if (now.family === now.compare || !now.family) Object.assign(now, { family, compare: "" });
    this.ask(now, event);
  }
  /** The runs of the answer as it stands: the schedule, its measured run, the one it is compared with. */
  runs() {
    const { runs } = this.studio.get("view");
    return [0, 2, 1].filter((at) => runs[at]).map((at) => runOf(runs[at]));
  }
  /** The kernel has answered: draw it. */
  hear() {
    const { picture, foot, root } = this.studio;
    const { stamp } = this.studio.get("view");
    clearTimeout(this.waiting);
    root.classList.remove("pl-waits");
    foot.pause();
    picture.read(this.runs());
    this.studio.show();
    if (stamp === this.answered) return;
    this.answered = stamp;
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => this.studio.speak(), 400); // once a stepper rests
  }
  stop() {
    clearTimeout(this.waiting);
    clearTimeout(this.speaking);
  }
}
