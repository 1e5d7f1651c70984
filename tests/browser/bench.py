"""A bare HTML page with a stand-in for anywidget's model: the widget's own text runs, nothing else."""

import json

import pytest

both_schemes = pytest.mark.parametrize("chromium_page", ["light", "dark"], indirect=True)

# The part of anywidget's model that widgets use: get, set, save_changes, on, off.
FAKE_MODEL = """
class FakeModel {
  constructor(state) { this.state = state; this.listeners = {}; this.saves = 0; }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    for (const react of [...(this.listeners[`change:${name}`] ?? [])]) react();
  }
  save_changes() { this.saves += 1; }
  on(name, react) { (this.listeners[name] ??= []).push(react); }
  off(name, react) { this.listeners[name] = (this.listeners[name] ?? []).filter((one) => one !== react); }
}
"""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>widget</title>
<style>:root { color-scheme: light dark; } body { margin: 16px; }</style></head>
<body><button id="outside">outside</button><div id="widget"></div></body></html>"""

MOUNT = """async ([source, css, state, fake]) => {
  document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const module = await import(address);
  URL.revokeObjectURL(address);
  const FakeModel = new Function(fake + "; return FakeModel;")();
  window.model = new FakeModel(state);
  window.unmount = module.default.render({ model: window.model, el: document.querySelector("#widget") });
}"""


def mount(page, widget):
    """Draw a widget in the page and wait until it says that it is drawn; returns the widget's root."""
    state = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_")}
    plain = json.loads(json.dumps({name: value for name, value in state.items() if _is_plain(value)}))
    page.set_content(PAGE)
    page.evaluate(MOUNT, [str(widget._esm), str(widget._css), plain, FAKE_MODEL])
    root = page.locator(".pl-widget")
    page.locator('.pl-widget[data-pl-state="ready"]').wait_for()
    return root


def brightness(colour):
    """From 0 to 255: `brightness("rgb(255, 255, 0)")` -> 170."""
    return sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")) / 3


def _is_plain(value) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)
