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

# The part of anywidget's model that widgets use: get, set, save_changes, on, off. With a kernel it does what
# ipywidgets does: one message in flight, and what changes meanwhile is merged into the next.
MODELS = """
const read = (value) => value?.base64 === undefined ? value
  : new DataView(Uint8Array.from(atob(value.base64), (letter) => letter.charCodeAt(0)).buffer);
class FakeModel {
  constructor(state) {
    this.state = Object.fromEntries(Object.entries(state).map(([name, value]) => [name, read(value)]));
    this.listeners = {};
    this.changed = {};
    this.saves = 0;
  }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = this.changed[name] = value;
    this.tell(name);
  }
  tell(name) { for (const react of [...(this.listeners[`change:${name}`] ?? [])]) react(); }
  save_changes() { this.saves += 1; }
  send() {}
  on(name, react) { (this.listeners[name] ??= []).push(react); }
  off(name, react) { this.listeners[name] = (this.listeners[name] ?? []).filter((one) => one !== react); }
}
class KernelModel extends FakeModel {
  sent = 0;
  asked = []; // messages
  unanswered = 0;
  async save_changes() {
    if (this.busy || !Object.keys(this.changed).length) return;
    const sent = this.changed;
    [this.busy, this.changed] = [true, {}];
    this.sent += 1;
    const answer = await window.kernel(sent);
    for (const [name, value] of Object.entries(answer)) this.state[name] = read(value);
    for (const name of Object.keys(answer)) this.tell(name);
    this.busy = false;
    this.save_changes();
  }
  async send(content) {
    this.asked.push(content);
    this.unanswered += 1;
    const changed = await window.message(content);
    this.unanswered -= 1;
    for (const [name, value] of Object.entries(changed)) this.state[name] = read(value);
    for (const name of Object.keys(changed)) this.tell(name);
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

MOUNT = f"""async ([source, css, state, hasKernel]) => {{
  {MODELS} {LOAD}
  document.head.append(Object.assign(document.createElement("style"), {{ textContent: css }}));
  const module = await load(source);
  window.model = hasKernel ? new KernelModel(state) : new FakeModel(state);
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
    """Draw a widget in the page and wait until it says that it is drawn; returns the widget's root."""
    return _mount(page, widget, has_kernel=False)


def mount_with_kernel(page, widget):
    """The same, and what the browser sends is answered by the widget itself."""
    known = traits_of(widget)

    def kernel(changes):
        try:
            with widget.hold_trait_notifications():
                for name, value in changes.items():
                    setattr(widget, name, value)
        except TraitError:
            return {}  # ipywidgets logs it, and the browser hears nothing
        return fresh_traits(changes)

    def fresh_traits(changes):
        """What the browser does not know yet."""
        now = traits_of(widget)
        fresh = {name: value for name, value in now.items() if (known | changes).get(name) != value}
        known.update(now)
        return fresh

    def message(content):
        widget._handle_custom_msg(content, [])
        return fresh_traits({})

    if not hasattr(page, "answers"):  # a function can be exposed once for each page
        page.answers = {}
        for name in ("kernel", "message"):
            page.expose_function(name, lambda content, name=name: page.answers[name](content))
    page.answers = {"kernel": kernel, "message": message}
    return _mount(page, widget, has_kernel=True)


def _mount(page, widget, has_kernel: bool):
    page.set_content(PAGE)
    page.evaluate(MOUNT, [str(widget._esm), str(widget._css), traits_of(widget), has_kernel])
    root = page.locator(".pl-widget")
    page.locator('.pl-widget[data-pl-state="ready"]').wait_for()
    return root


def traits_of(widget) -> dict[str, Any]:
    """The traits as JSON; bytes as base64."""
    values = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    return json.loads(json.dumps({name: coded(value) for name, value in values.items() if is_plain(value)}))


def coded(value):
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def is_plain(value) -> bool:
    return value is None or isinstance(value, bool | int | float | str | bytes | list | dict)


def push(page, widget, *names: str) -> None:
    """Do what the kernel does: send some traits."""
    traits = json.loads(json.dumps({name: getattr(widget, name) for name in names}))
    page.evaluate("traits => Object.entries(traits).forEach(([name, value]) => window.model.set(name, value))", traits)


def findings(page) -> list[str]:
    """What axe-core has against the widget as it stands, a line for each rule with the first place that breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    broken = Axe().run(page, context=".pl-widget").response["violations"]
    return [f"{one['id']}: {one['help']}, {one['nodes'][0]['html']}" for one in broken]


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


def block(root, action: str):
    """The block of an action in the schedule editor."""
    return root.locator(f'[data-id="{action}"]')


def order(root, rank: int) -> list[str]:
    """The actions of a rank in reading order."""
    return root.locator(".pl-row").nth(rank).locator(".pl-block").evaluate_all("all => all.map((n) => n.dataset.id)")
