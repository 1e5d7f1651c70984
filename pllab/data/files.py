"""Files that are replaced in one go: what was there before, or all of the new text, and never a part."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever reads half of it, not even after a crash.

    Raises:
        OSError: the folder is missing or cannot be written.
    """
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)
