"""Files from what is on screen: their names and types, and writing them."""

from pathlib import Path
from typing import TypeVar

FILE_TYPES = {
    "PNG": ("png", "image/png"),
    "SVG": ("svg", "image/svg+xml"),
    "CSV": ("csv", "text/csv"),
    "Trace": ("trace.json", "application/json"),
    "HTML": ("html", "text/html"),
}

Content = TypeVar("Content", str, bytes)


def write(path: Path | str | None, content: Content) -> Content:
    """Write text or bytes to `path` if there is one, and give them back."""
    if path is not None:
        Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    return content
