"""Whose code it is: the learner's, or that of Python, libraries or pllab."""

import functools
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pllab

_OURS = tuple(
    f"{Path(place).resolve()}{os.sep}"
    for place in {*sysconfig.get_paths().values(), str(Path(pllab.__file__).parent), str(Path(os.__file__).parent)}
    if place != sysconfig.get_paths()["data"]
)
_LIBRARIES = ("<frozen", "<string>", "<eval_with_key", "<template>", "<attrs", "<__array_function__")


@functools.lru_cache(maxsize=4096)
def is_theirs(name: str) -> bool:
    """Whether a file of code is the learner's: a notebook cell, or outside Python, its libraries and pllab."""
    return not name.startswith(_LIBRARIES) and not os.path.realpath(name).startswith(_OURS)


def their_line(error: BaseException) -> str:
    """The innermost line of the learner's own code, in a class too: `line 3 of make_tasks: return a / 0`."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if is_theirs(frame.filename)]
    if not own:
        return ""
    return f"line {own[-1].lineno} of {own[-1].name}: {own[-1].line}".removesuffix(": ")


def copied(function: Callable[..., Any]) -> Callable[..., Any]:
    """Another function with the same code, which still works when the body of the first is replaced.

    Example: the programs of a check can enter a group even if the exercise asks for `comm.setup`.
    """
    assert isinstance(function, FunctionType)
    other = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    other.__kwdefaults__ = function.__kwdefaults__
    return other


def functions_of(thing: Any) -> Iterator[FunctionType]:
    """A function as it was written, without what is wrapped around it; of a class its methods.

    What a dataclass makes is left out.
    """
    for one in vars(thing).values() if isinstance(thing, type) else [thing]:
        core = inspect.unwrap(getattr(one, "__func__", getattr(one, "func", one)))  # of a method, and of a partial
        if isinstance(core, FunctionType) and core.__code__.co_filename != "<string>":
            yield core
