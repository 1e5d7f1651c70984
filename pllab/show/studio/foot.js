// Below the picture, always at the same place: what the colours mean, and the tour with its player. The tour is five
// stops, GPipe to one's own run; a stop's sentence says what to look at.

const LEGEND = { F: "forward", B: "backward", I: "for inputs", W: "for weights" };

class Foot {
  constructor(studio) {
    this.studio = studio;
    this.stopPlaying = null;
    this.legend = element("div", { class: "pl-legend" });
    this.play = buttonOf("Play", () => this.toggle(), { class: "pl-play", title: "a line moves through the step (space)" });
    const { tour, own } = studio.options;
    this.tour = [...tour.map((family) => ({ title: family, family })), { title: "your own run", run: own }];
    this.stops = this.tour.map((stop, at) => buttonOf(String(at + 1), (event) => this.go(at, event), { "aria-label": `Stop ${at + 1}: ${stop.title}` }));
    this.back = buttonOf("Back", (event) => this.step(-1, event), { title: "the stop before (page up)" });
    this.next = buttonOf("Next", (event) => this.step(1, event), { title: "the next stop (page down)" });
    this.node = element("div", { class: "pl-foot" }, this.legend, toolsOf("Tour", this.back, ...this.stops, this.next, this.play));
  }
  show() {
    const now = this.now;
    this.stops.forEach((button, at) => {
      const why = this.problemOf(at);
      button.disabled = Boolean(why);
      button.title = why || this.tour[at].title;
      button.setAttribute("aria-pressed", String(at === now));
    });
    this.back.disabled = this.goal(now, -1) === null;
    this.next.disabled = this.goal(now, 1) === null;
  }
  /** The swatches of all kinds, whatever is on screen, so that nothing moves when a schedule has others. */
  drawLegend(paints) {
    const swatchOf = (style, letter, words) => element("span", {}, element("i", { style }, letter), element("span", {}, words));
    const kinds = Object.entries(LEGEND).map(([letter, words]) => {
      const kind = KINDS.indexOf(letter);
      const bar = kind === F ? "border-top-width:3px" : kind === W ? "" : "border-bottom-width:3px";
      return swatchOf(`background:${paints.fill(kind, false)};border-color:${paints.outline(kind)};${bar}`, letter, words);
    });
    const { idle, idle_stripe: stripe } = paints.look;
    const hatched = `background:repeating-linear-gradient(-45deg,${idle} 0 6px,${stripe} 6px 8px);border-color:${idle}`;
    const later = `background:${paints.fill(F, true)};border-color:${paints.outline(F)};border-top-width:3px`;
    this.legend.replaceChildren(...kinds, swatchOf(hatched, "", "idle"), swatchOf(later, "", "later stage"));
  }

  // The tour
  /** The stop on screen, or -1: the last is a measured run, the others are families. */
  get now() {
    const { studio, tour } = this;
    if (studio.picture.runs.some((run) => run.is_measured)) return tour.length - 1;
    return tour.findIndex(({ family }) => family === studio.get("family"));
  }
  /** Why a stop cannot be shown, or nothing. */
  problemOf(at) {
    const { can_run: canRun } = this.studio.options;
    const { family, run } = this.tour[at];
    if (family) return this.studio.get("view").missing[family] ?? "";
    if (canRun && this.studio.get("running")) return "a run is under way";
    return canRun || run ? "" : "no run to show: BubbleStudio(..., run=run_emulated) has one";
  }
  go(at, event) {
    const { studio } = this;
    const { can_run: canRun } = studio.options;
    const { family, run } = this.tour[at];
    if (this.problemOf(at)) return;
    const alone = { compare: "", steady: false };
    if (family) studio.answers.load({ family, with_run: false, ...alone }, event);
    else if (canRun && this.now !== at) studio.order("run");
    else if (run) studio.answers.load({ ...run, ...alone }, event);
  }
  /** The nearest stop in a direction that can be shown. */
  goal(from, by) {
    let at = from + by;
    while (this.stops[at] && this.problemOf(at)) at += by;
    return this.stops[at] ? at : null;
  }
  step(by, event) {
    const at = this.goal(this.now, by);
    if (at !== null) this.go(at, event);
  }

  // The player: a line moves over the plots, and what is still to come is pale
  get longest() {
    return Math.max(...this.studio.picture.runs.map((run) => run.step.length_s));
  }
  get moments() {
    return [...new Set([...this.studio.picture.runs[0].actions.start, this.longest])].sort((one, other) => one - other);
  }
  seek(time) {
    const { picture } = this.studio;
    picture.playhead = Math.min(this.longest, Math.max(0, time));
    picture.mark();
  }
  stepBy(sign) {
    this.pause();
    const [all, now] = [this.moments, this.studio.picture.playhead];
    this.studio.picture.release();
    if (now === null) return this.seek(sign > 0 ? 0 : all.at(-1));
    return this.seek((sign > 0 ? all.find((one) => one > now) : all.findLast((one) => one < now)) ?? now);
  }
  toggle() {
    if (this.stopPlaying) this.pause();
    else this.start();
  }
  start() {
    const { picture, live } = this.studio;
    const from = picture.playhead === null || picture.playhead >= this.longest ? 0 : picture.playhead;
    picture.release();
    live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    this.play.textContent = "Pause";
    this.seek(from);
    this.stopPlaying = playThrough(from, this.moments, (time) => {
      this.seek(time);
      if (time >= this.longest) this.pause();
    });
  }
  pause() {
    if (!this.stopPlaying) return;
    this.stopPlaying();
    this.stopPlaying = null;
    this.studio.live.setAttribute("aria-live", "polite");
    this.play.textContent = "Play";
  }
}
