"""A bare HTML page with a stand-in for anywidget's model: the widget's own text runs, nothing else."""

import base64
import json
from typing import Any

import pytest
from traitlets import TraitError

from pllab.show.theme import DARK, LIGHT, Look

expect = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright").expect

both_schemes = pytest.mark.parametrize(
    "chromium_page", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)], indirect=True
)

# The part of anywidget's model that widgets use, with what ipywidgets does: one message in flight, and what changes
# meanwhile is merged into the next.
MODEL = """
const read = (value) => {
  if (value === null || typeof value !== "object") return value;
  if ("base64" in value) return new DataView(Uint8Array.from(atob(value.base64), (one) => one.charCodeAt(0)).buffer);
  for (const [name, one] of Object.entries(value)) value[name] = read(one);
  return value;
};
class Model {
  state = {};
  listeners = {};
  changed = {};
  sent = 0;
  asked = []; // messages
  unanswered = 0;
  constructor(state) { this.hear(state); }
  hear(traits) {
    for (const [name, value] of Object.entries(traits)) this.state[name] = read(value);
    for (const name of Object.keys(traits)) this.tell(name);
  }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = this.changed[name] = value;
    this.tell(name);
  }
  tell(name) { for (const react of [...(this.listeners[`change:${name}`] ?? [])]) react(); }
  on(name, react) { (this.listeners[name] ??= []).push(react); }
  off(name, react) { this.listeners[name] = (this.listeners[name] ?? []).filter((one) => one !== react); }
  async save_changes() {
    if (this.busy || !Object.keys(this.changed).length) return;
    const sent = this.changed;
    [this.busy, this.changed] = [true, {}];
    this.sent += 1;
    this.hear(await window.kernel(sent));
    this.busy = false;
    this.save_changes();
  }
  async send(content) {
    this.asked.push(content);
    this.unanswered += 1;
    const news = await window.message(content);
    this.unanswered -= 1;
    this.hear(news);
  }
}
"""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>widget</title>
<style>:root { color-scheme: light dark; } body { margin: 16px; }</style></head>
<body><button id="outside">outside</button><div id="widget"></div></body></html>"""

LOAD = """
const load = async (source) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  return import(address).finally(() => URL.revokeObjectURL(address));
};
"""

MOUNT = f"""async ([source, css, state]) => {{
  {MODEL} {LOAD}
  document.head.append(Object.assign(document.createElement("style"), {{ textContent: css }}));
  const module = await load(source);
  window.model = new Model(state);
  window.unmount = module.default.render({{ model: window.model, el: document.querySelector("#widget") }});
}}"""

# A second view of the same model, as a cell that shows the widget again has it.
SHOW_AGAIN = f"""async (source) => {{
  {LOAD}
  const el = document.body.appendChild(document.createElement("div"));
  (await load(source)).default.render({{ model: window.model, el }});
}}"""

LISTENERS_LEFT = "Object.values(window.model.listeners).flat().length"
PASSED = "window.passed = []; document.addEventListener('keydown', (event) => passed.push(event.key))"


def mount(page, widget):
    """Draw a widget, whose kernel is this process, and wait until it says that it is drawn; returns its root."""
    known = traits_of(widget)

    def change(values):
        try:
            with widget.hold_trait_notifications():
                for name, value in values.items():
                    setattr(widget, name, value)
        except TraitError:
            return {}  # ipywidgets logs it, and the browser hears nothing
        return news(values)

    def news(said):
        """What the browser does not know yet."""
        now = traits_of(widget)
        fresh = {name: value for name, value in now.items() if (known | said).get(name) != value}
        known.update(now)
        return fresh

    def message(content):
        widget._handle_custom_msg(content, [])
        return news({})

    if not hasattr(page, "answers"):  # a function can be exposed once for each page
        for name in ("kernel", "message"):
            page.expose_function(name, lambda content, name=name: page.answers[name](content))
    page.answers = {"kernel": change, "message": message}
    page.set_content(PAGE)
    page.evaluate(MOUNT, [str(widget._esm), str(widget._css), traits_of(widget)])
    page.locator('.pl-widget[data-pl-state="ready"]').wait_for()
    return page.locator(".pl-widget")


def traits_of(widget) -> dict[str, Any]:
    """The traits as JSON; bytes as base64."""
    values = {name: getattr(widget, name) for name in widget.keys if name != "layout" and not name.startswith("_")}
    return json.loads(json.dumps(values, default=lambda data: {"base64": base64.b64encode(data).decode()}))


def push(page, widget, *names: str) -> None:
    """Do what the kernel does: send some traits."""
    page.evaluate("traits => window.model.hear(traits)", {name: traits_of(widget)[name] for name in names})


def findings(page) -> list[str]:
    """What axe-core has against the widget as it stands, a line for each rule with the first place that breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    broken = Axe().run(page, context=".pl-widget").response["violations"]
    return [f"{one['id']}: {one['help']}, {one['nodes'][0]['html']}" for one in broken]


def press(page, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        page.keyboard.press(key)


def enter(box, text: str, key: str = "Enter") -> None:
    """Type a text in place of what stands in a box, and leave it by a key."""
    box.fill(text)
    box.press(key)


def look_of(page) -> Look:
    """The colours of the scheme that the page asks for."""
    return DARK if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else LIGHT


def style_of(place, name: str) -> str:
    """How the browser draws an element: `style_of(root, "fontSize")` -> `"18px"`."""
    return place.evaluate("(node, name) => getComputedStyle(node)[name]", name)


def as_drawn(colour: str) -> str:
    """A colour as the browser writes it: `as_drawn("#D55E00")` -> `"rgb(213, 94, 0)"`."""
    return f"rgb({', '.join(map(str, bytes.fromhex(colour[1:])))})"


def brightness(colour: str) -> float:
    """From 0 to 255: `brightness("rgb(255, 255, 0)")` -> 170."""
    return sum(float(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")) / 3


def ground_of(place) -> float:
    """How bright the ground of an element is."""
    return brightness(style_of(place, "backgroundColor"))


def block(root, action: str):
    """The block of an action in the schedule editor."""
    return root.locator(f'[data-id="{action}"]')


def order(root, rank: int) -> list[str]:
    """The actions of a rank in reading order."""
    return root.locator(".pl-row").nth(rank).locator(".pl-block").evaluate_all("all => all.map((n) => n.dataset.id)")
