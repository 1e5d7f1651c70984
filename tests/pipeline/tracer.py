"""Which way a call goes through the package: the files and functions that it passes, on every thread."""

import gc
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pllab

ROOT = Path(pllab.__file__).parent


class Step(NamedTuple):
    """A function that is called: its file within the package, and its name with its class."""

    file: str
    name: str


class Way(NamedTuple):
    """The calls of named functions of the package, thread by thread, in the order in which they begin."""

    threads: tuple[tuple[Step, ...], ...]

    @property
    def files(self) -> set[str]:
        """The files that it passes."""
        return {step.file for steps in self.threads for step in steps}

    @property
    def functions(self) -> set[Step]:
        """The functions that it passes."""
        return {step for steps in self.threads for step in steps}

    @property
    def changes(self) -> int:
        """How often a call is in another file than the call before it on the same thread."""
        return sum(a.file != b.file for steps in self.threads for a, b in pairwise(steps))


def way_of(call: Callable[[], object]) -> Way:
    """Follow the second of two calls, on this thread and on those that the first call starts.

    Lambdas, comprehensions and generators do not count: what a generator does is part of the function that it serves.
    """
    steps: defaultdict[int, list[Step]] = defaultdict(list)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_named = not code.co_name.startswith("<") and not code.co_flags & inspect.CO_GENERATOR
        if event == "call" and is_named and code.co_filename.startswith(str(ROOT)):
            file = str(Path(code.co_filename).relative_to(ROOT))
            steps[threading.get_ident()].append(Step(file, code.co_qualname))

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # what others have left behind is not on the way
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
        steps.clear()
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        gc.enable()
    return Way(tuple(map(tuple, steps.values())))
