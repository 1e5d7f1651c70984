// The base class of all widgets' views. Python puts this text after common.js.

/** A button with a word on it. */
function buttonOf(text, click, more = {}) {
  return element("button", { type: "button", click, ...more }, text);
}

/** Buttons and sliders that belong together. */
function toolsOf(name, ...children) {
  return element("div", { class: "pl-tools", role: "group", "aria-label": name }, ...children);
}

/** Names that no other view in the page has, for ids. */
function uniqueName(widget) {
  return `pl-${widget}-${Math.random().toString(36).slice(2, 10)}`;
}

/** How much larger everything is on a projector of more than 1280 pixels, as the fonts in the style sheets. */
function growth() {
  return Math.min(1.5, Math.max(1, innerWidth / 1280));
}

/**
 * Play through a run from a moment on: call `move` with times up to the last, smoothly in 5 to 20 seconds, or from moment
 * to moment where motion is unwanted; returns how to stop.
 */
function playThrough(from, moments, move) {
  const end = moments.at(-1);
  const ms = Math.min(20, Math.max(5, moments.length * 0.3)) * 1000;
  const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const begun = performance.now() - (from / end || 0) * ms;
  let [now, timer] = [from, 0];
  const wait = () => { timer = isStill ? setTimeout(go, 800) : requestAnimationFrame(go); };
  const go = () => {
    now = isStill ? moments.find((one) => one > now) ?? end : Math.min(end, ((performance.now() - begun) / ms) * end);
    if (now < end) wait(); // before the move, which may stop it
    move(now);
  };
  wait();
  return () => {
    cancelAnimationFrame(timer);
    clearTimeout(timer);
  };
}

/** A look as CSS properties: its own colours, and for each kind `--look-F`, `--look-F-later` and `--look-F-line`. */
function propertiesOf(look) {
  const own = Object.entries(look).filter(([, value]) => String(value).startsWith("#"));
  const kinds = Object.entries(look.outlines).flatMap(([kind, line]) =>
    [[kind, tintOf(look, kind)], [`${kind}-later`, tintOf(look, kind, true)], [`${kind}-line`, line]]);
  return [...own, ...kinds].map(([name, colour]) => [`--look-${name}`, colour]);
}

/**
 * One widget in one page: its root, its spoken line, and the button that all have. A widget's own view extends it: the
 * constructor makes the parts, `show` brings them in line with the traits.
 */
class View {
  constructor({ model, el }, widget) {
    this.model = model;
    this.theme = model.get("theme");
    this.root = element("div", { class: `pl-widget pl-${widget}`, "data-pl-state": "drawing" });
    this.title = element("strong");
    this.summary = element("span");
    this.live = element("p", { class: "pl-live", "aria-live": "polite" });
    this.projector = buttonOf("Projector", () => this.set("projector", !this.isLarge));
    this.stops = [];
    el.replaceChildren(this.root);
    this.wearLook();
  }
  get(trait) {
    return this.model.get(trait);
  }
  set(trait, value) {
    this.model.set(trait, value);
    this.model.save_changes();
  }
  titleLine() {
    return element("p", { class: "pl-title" }, this.title, " ", this.summary);
  }
  /** Wrap a method so that its failure is shown in the widget: callbacks otherwise fail in silence. */
  safely(work) {
    const { root } = this;
    return (...values) => {
      try {
        return work.apply(this, values);
      } catch (error) {
        if (root.dataset.plState === "error") return null; // it is said already
        root.dataset.plState = "error";
        root.append(element("p", { class: "pl-error", role: "alert" }, `This widget failed: ${error.message}`));
        throw error;
      }
    };
  }
  follow(traits, work) {
    const react = this.safely(work);
    for (const trait of traits) {
      this.model.on(`change:${trait}`, react);
      this.stops.push(() => this.model.off(`change:${trait}`, react));
    }
  }
  followWidth(node, work) {
    this.stops.push(watchWidth(node, this.safely(work)));
  }
  /** Wear the colours of the page, now or once the widget stands in it, and again when it turns light or dark. */
  wearLook() {
    const wear = this.safely(() => {
      if (!this.root.isConnected) return;
      for (const [name, colour] of propertiesOf(lookOf(this.theme, this.root))) this.root.style.setProperty(name, colour);
    });
    wear();
    this.stops.push(watchWidth(this.root, wear), watchTheme(wear));
  }
  /** Draw for the first time, and from now on when the projector is chosen. */
  begin() {
    this.follow(["projector"], this.showView);
    this.listenForProjector();
    this.safely(this.showView)();
    if (this.isLarge) this.followWidth(this.root, () => (this.project(), this.takeKeys())); // once it stands in the page
  }
  get isLarge() {
    return Boolean(this.get("projector"));
  }
  showView() {
    this.projector.setAttribute("aria-pressed", String(this.isLarge));
    this.project();
    this.show();
    this.takeKeys();
  }

  // The projector: the widget fills the window, above everything else, and comes back to its place
  project() {
    const { root } = this;
    if (!root.isConnected || root.matches(":popover-open") === this.isLarge) return;
    root.parentNode.style.minHeight = this.isLarge ? `${root.offsetHeight}px` : "";
    root.classList.toggle("pl-large", this.isLarge);
    if (this.isLarge) {
      // in the top layer, where no part of the page cuts it off
      root.popover = "manual";
      root.showPopover();
      document.dispatchEvent(new CustomEvent("pl-projector", { detail: this.theme }));
    } else {
      root.hidePopover();
      root.popover = null;
      this.fillsScreen = false; // so that the end of this full screen, told later, does not leave the next one
      if (document.fullscreenElement) document.exitFullscreen();
    }
  }
  /** Keys go where one looks: once it fills the window, and its picture is drawn. */
  takeKeys() {
    if (!this.isLarge || !this.root.isConnected || this.root.contains(document.activeElement)) return;
    this.before = document.activeElement;
    this.focusPicture();
  }
  focusPicture() {
    const picture = this.root.querySelector('[role=application], [role=grid][tabindex="0"], [role=grid] [tabindex="0"]');
    picture?.focus({ preventScroll: true });
  }
  /** Keys go back to where they were, in JupyterLab to the next cell; a press in the widget itself keeps them. */
  returnKeys() {
    const { before } = this;
    this.before = null;
    before?.focus({ preventScroll: true });
  }
  /** Take the keys from a button that is disabled now, which would lose them. */
  keepKeys() {
    const focused = document.activeElement;
    if (focused?.disabled && this.root.contains(focused)) this.focusPicture();
  }
  /**
   * The button and the key f fill the window and, as a browser allows it to a press, the screen; Escape comes back. Plain
   * letters and Enter stay here: JupyterLab would cut the cell at x.
   */
  listenForProjector() {
    const stopped = new AbortController();
    const on = (target, name, react) => target.addEventListener(name, this.safely(react), { signal: stopped.signal });
    const leave = () => {
      if (!this.isLarge) return;
      this.set("projector", false);
      this.returnKeys();
    };
    // one at a time; all views of a widget share its theme, and no other widget has the same object
    on(document, "pl-projector", ({ detail }) => detail === this.theme || leave());
    on(window, "resize", () => this.isLarge && this.showView()); // a full screen may be higher and not wider
    on(document, "fullscreenchange", () => {
      if (document.fullscreenElement) this.fillsScreen = this.isLarge;
      else if (this.fillsScreen) leave();
    });
    on(this.projector, "click", () => this.isLarge && document.documentElement.requestFullscreen?.().catch(() => {}));
    on(this.root, "keydown", (event) => {
      const { key, target } = event;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (key.length === 1 || (key === "Enter" && !event.shiftKey)) event.stopPropagation();
      if (event.defaultPrevented || /INPUT|SELECT|TEXTAREA/.test(target.tagName)) return;
      if (key === "Escape") leave();
      if (key === "f") this.projector.click();
    });
    this.stops.push(() => stopped.abort());
  }
  /** Say a sentence, once. */
  say(sentence) {
    if (this.live.textContent !== sentence) this.live.textContent = sentence;
  }
  isReady() {
    if (this.root.dataset.plState !== "error") this.root.dataset.plState = "ready"; // what failed has failed
  }
  close() {
    for (const stop of this.stops) stop();
  }
}

/** What anywidget asks a module for. */
function widgetOf(Kind) {
  return {
    render(context) {
      const view = new Kind(context);
      return () => view.close();
    },
  };
}
