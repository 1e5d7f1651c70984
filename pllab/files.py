"""Files that are replaced in one step: a reader sees the old content or all of the new, never a part."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that nobody ever reads half of it, not even after a crash; text is written as UTF-8.

    Example: `write_whole(Path("result.json"), "{}")`.

    Raises:
        OSError: the folder is missing or cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except OSError as error:
        error.filename = str(path)  # a full disk names no file
        raise
    finally:
        Path(draft).unlink(missing_ok=True)
