"""The machine a learner builds: where it is kept."""

import functools
import os
import tempfile
from pathlib import Path


@functools.lru_cache(maxsize=1)
def _temporary() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="pllab-home-")


def home() -> Path:
    """The learner's folder: what PLLAB_HOME names; a temporary one under CI; by default the current folder."""
    if named_folder := os.environ.get("PLLAB_HOME"):
        return Path(named_folder)
    return Path(_temporary().name) if os.environ.get("CI") else Path.cwd()
