"""What every widget of this room shares: its sources, its palette, and its static twin.

anywidget sends one ES module and one style sheet to the browser and knows no build step, so the common part
of each is put in front of the widget's own text here.
"""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from pllab.show.figure import Figure
from pllab.show.theme import as_json


def read_source(name: str) -> str:
    """The text of `common.js` and `<name>.js`, or of the `.css` pair: `read_source("player.js")`."""
    folder = Path(__file__).parent
    common = (folder / f"common{Path(name).suffix}").read_text(encoding="utf-8")
    return f"{common}\n{(folder / name).read_text(encoding='utf-8')}"


class Widget(anywidget.AnyWidget):
    """An anywidget with the palette and a static twin: `.state()` is a dict, `.static()` the figure of it."""

    theme = traitlets.Dict(read_only=True).tag(sync=True)
    table = traitlets.Bool(False, help="whether the table is shown instead of the picture").tag(sync=True)
    projector = traitlets.Bool(False, help="whether type is enlarged for a projector").tag(sync=True)

    @traitlets.default("theme")
    def _the_palette(self) -> dict[str, Any]:
        return as_json()

    def state(self) -> dict[str, Any]:
        """What the widget shows now, as plain data."""
        raise NotImplementedError

    def static(self) -> Figure:
        """The same numbers as a figure with a text alternative."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add the static twin, which GitHub and an HTML export show in place of the widget."""
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **self.static()._repr_mimebundle_()}, metadata
