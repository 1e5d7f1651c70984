// The race: bars that follow their traits. All words come from Python.

class RaceView extends View {
  constructor(context) {
    super(context, "race", "Race");
    this.title.textContent = this.get("title");
    this.track = element("div", { class: "pl-lanes" });
    this.axis = element("div", { class: "pl-ticks", "aria-hidden": "true" });
    this.unit = element("p", { class: "pl-unit" });
    const name = `Race: ${this.get("title")}`;
    const picture = element("div", { class: "pl-race-picture", role: "group", "aria-label": name }, this.track, this.axis, this.unit);
    this.pictures = [picture];
    this.root.append(this.titleLine(), picture, this.table, this.live, toolsOf("View", ...this.viewButtons));
    this.lanes = this.get("lanes").map((lane, index) => this.addLane(lane, index));
    this.follow(["lanes", "ticks", "top"], this.show);
    this.follow(["news"], this.tell);
    this.begin();
    this.tell();
  }
  /** The parts of one contestant; made once, so that bars glide instead of jumping. */
  addLane(lane, index) {
    const bar = element("div", { class: index ? "pl-bar" : "pl-bar pl-baseline" });
    const whisker = element("div", { class: "pl-whisker", hidden: true });
    const mark = element("div", { class: "pl-mark" });
    const share = { role: "progressbar", "aria-label": lane.name, "aria-valuemin": 0, "aria-valuemax": 100 };
    const progress = element("div", { class: "pl-progress", ...share }, mark);
    const value = element("span", { class: "pl-value" });
    const verdict = element("strong");
    this.track.append(
      element("div", { class: "pl-name" }, lane.name),
      element("div", { class: "pl-lane" }, element("div", { class: "pl-space" }, bar, whisker), progress),
      element("div", { class: "pl-result" }, value, " ", verdict),
    );
    return { bar, whisker, mark, progress, value, verdict };
  }

  show() {
    const [lanes, top] = [this.get("lanes"), this.get("top")];
    const share = (rate) => `${(100 * rate) / top}%`;
    lanes.forEach((lane, index) => this.showLane(lane, this.lanes[index], share));
    this.axis.replaceChildren(...this.get("ticks").map(({ at, text }) => element("span", { style: `left: ${share(at)}` }, text)));
    this.unit.textContent = this.get("unit");
    this.fillTable();
    this.isReady();
  }
  showLane(lane, parts, share) {
    parts.bar.style.width = share(lane.rate);
    parts.whisker.hidden = lane.num_rates < 2;
    parts.whisker.style.left = share(lane.low);
    parts.whisker.style.width = share(lane.high - lane.low);
    parts.mark.style.width = `${100 * lane.progress}%`;
    parts.progress.setAttribute("aria-valuenow", Math.round(100 * lane.progress));
    for (const word of ["value", "verdict"]) parts[word].textContent = lane[word];
  }
  tableView() {
    const headings = ["Contestant", "Progress", `Median (${this.get("unit")})`, "Range", "Verdict"];
    const rows = this.get("lanes").map((lane) => [
      lane.name, `${Math.round(100 * lane.progress)} %`, lane.value, lane.spread, lane.verdict,
    ]);
    return tableOf(this.get("title"), headings, rows);
  }
  tell() {
    this.say(this.get("news"));
  }
}

export default widgetOf(RaceView);
