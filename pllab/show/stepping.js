// Views that show one moment of several: buttons and keys step, space plays. Python puts this behind view.js.

const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** A view whose trait `step` says which moment is shown; a subclass says how many there are, in `last`. */
class SteppedView extends View {
  constructor(context, widget, tableName, stepMs) {
    super(context, widget, tableName);
    this.stepMs = stepMs;
    this.timer = 0;
    this.back = buttonOf("Step back", () => this.seek(this.step - 1));
    this.play = buttonOf("", () => this.toggle(), { class: "pl-play" });
    this.forth = buttonOf("Step forward", () => this.seek(this.step + 1));
    this.stops.push(() => this.stop());
  }
  get step() {
    return Math.min(this.last, this.get("step"));
  }
  go(to) {
    this.set("step", Math.min(this.last, Math.max(0, to)));
  }
  seek(to) {
    this.pause();
    this.go(to);
  }

  // Playing, in jumps, so that no motion has to be reduced
  toggle() {
    if (this.timer) this.pause();
    else this.start();
  }
  start() {
    if (this.step === this.last) this.go(0);
    this.live.setAttribute("aria-live", "off"); // a stream of announcements helps nobody
    this.wait();
    this.show();
  }
  wait() {
    this.timer = setTimeout(() => this.jump(), this.stepMs);
  }
  jump() {
    this.go(this.step + 1);
    if (this.step === this.last) this.pause();
    else this.wait();
  }
  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }
  pause() {
    this.stop();
    this.live.setAttribute("aria-live", "polite");
    this.show();
  }
  showPlayer() {
    this.back.disabled = this.step === 0;
    this.forth.disabled = this.step === this.last;
    this.play.textContent = this.timer ? "Pause" : "Play";
    this.keepKeys();
  }
}
