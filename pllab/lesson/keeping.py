"""Where a learner's own things are kept over the course."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path


def home() -> Path:
    """The learner's folder: PLLAB_HOME if that is set, under CI a temporary one of this process, else the current one.

    It need not be there yet.
    """
    named = os.environ.get("PLLAB_HOME")
    if named:
        return Path(named).expanduser()
    return _temporary_folder() if os.environ.get("CI") else Path.cwd()


@cache
def _temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="pllab-home-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
