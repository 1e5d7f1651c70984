"""A widget as one HTML file: its own source and data, and a stand-in for the kernel that keeps what is chosen.

The page opens from a disk: no kernel, no network, no other file.
"""

import base64
import html
import json
from collections.abc import Mapping
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 1500px; margin: 24px auto; padding: 0 20px; }}
{css}
</style>
</head>
<body>
<main id="widget"></main>
<noscript><p>{alt}</p></noscript>
<script type="application/json" id="state">{state}</script>
<script type="module">
{source}
{model}
</script>
</body>
</html>
"""

_MODEL = """
class PageModel {
  constructor({ plain, bytes, file }) {
    const read = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
    this.values = { ...plain, ...Object.fromEntries(Object.entries(bytes).map(([name, text]) => [name, read(text)])) };
    this.file = file;
    this.reacts = {};
  }
  get(name) { return this.values[name]; }
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    for (const react of this.reacts[name] ?? []) react();
    if (name !== "order") return;
    this.values.file = this.file.text;
    this.set("delivery", { name: this.file.name, type: this.file.type, number: value.number });
  }
  save_changes() {}
  on(event, react) { (this.reacts[event.replace("change:", "")] ??= []).push(react); }
  off() {}
}
const page = new PageModel(JSON.parse(document.querySelector("#state").textContent));
render({ model: page, el: document.querySelector("#widget") });
"""


def to_page(
    title: str, alt: str, source: str, css: str, values: Mapping[str, Any], file: Mapping[str, str] | None = None
) -> str:
    """The page of a widget: its module and style sheet, its traits, and the one file it can still hand out.

    `alt` says the same in a sentence where scripts are off; `file` has a name, a type and a text.
    """
    plain = {name: value for name, value in values.items() if not isinstance(value, bytes)}
    coded = {name: base64.b64encode(value).decode() for name, value in values.items() if isinstance(value, bytes)}
    state = json.dumps({"plain": plain, "bytes": coded, "file": file}).replace("</", "<\\/")
    return _PAGE.format(
        title=html.escape(title), alt=html.escape(alt), css=css, state=state, source=source, model=_MODEL
    )
