"""The studio as one HTML file, which needs no kernel, no network and no other file.

The page has the widget's source and data, and a stand-in for the kernel that answers from runs made beforehand.
"""

import base64
import html
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pllab.show.studio.runs import Shown
from pllab.show.widget import Widget

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; }}
{css}
</style>
</head>
<body>
<main id="widget"></main>
<noscript><p>{alt}</p></noscript>
<script type="text/plain" id="state">{state}</script>
<script type="module">
{source}
{model}
</script>
</body>
</html>
"""


def values_of(widget: Widget, **changes: Any) -> dict[str, Any]:
    """The traits of a widget that a page begins with."""
    values = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_") and name != "layout"}
    return values | {"order": {}, "page": {}} | changes


def to_page(title: str, alt: str, source: str, css: str, values: Mapping[str, Any], runs: Mapping[str, Shown]) -> str:
    """The page of a widget: its module and style sheet, its traits, and the runs that its controls reach.

    `alt` is the sentence shown if scripts are off. The runs travel deflated, as the browser inflates them.
    """
    shown = {key: one.to_dict() for key, one in runs.items()}
    blocks = [one.pop("actions") for one in shown.values()]
    state = json.dumps({"values": values, "runs": shown, "sizes": [len(block) for block in blocks]}).encode()
    packed = zlib.compress(len(state).to_bytes(4, "little") + state + b"".join(blocks), 9)
    model = Path(__file__).with_name("page_model.js").read_text(encoding="utf-8")
    return _PAGE.format(
        title=html.escape(title),
        alt=html.escape(alt),
        css=css,
        state=base64.b64encode(packed).decode(),
        source=source,
        model=model,
    )
