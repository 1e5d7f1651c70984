"""The editor's text for the browser: `common.js`, then its own files in the order in which they build on each other."""

from pathlib import Path

from pllab.show.widget import read_source


def read_editor_source() -> str:
    """One ES module: dragging, the lines of an illegal order, then the editor itself."""
    rest = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("editor_edges.js", "editor.js")]
    return "\n".join([read_source("editor_drag.js"), *rest])
