"""Whose code it is, the learner's or that of Python, libraries or pllab, and which names it reads and binds."""

import builtins
import functools
import inspect
import os
import symtable
import sys
import sysconfig
import textwrap
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


def is_stub(error: BaseException) -> bool:
    """Whether a stub raised it; torch raises the same for a module without a forward."""
    return isinstance(error, NotImplementedError) and "raise NotImplementedError" in their_line(error)


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


def their_functions(thing: Any) -> Iterator[FunctionType]:
    """Those that the learner wrote; a named tuple has methods of Python's making."""
    return (function for function in functions_of(thing) if is_theirs(function.__code__.co_filename))


def namespace_of(thing: Any) -> dict[str, Any]:
    """The names that a definition takes from its surroundings."""
    function = next(their_functions(thing), None)
    return function.__globals__ if function else vars(sys.modules.get(thing.__module__) or builtins)


def names_read(source: str, *, at_once: bool = False) -> list[str]:
    """The names that some source reads from around it, without the variables of its functions; Python's own too.

    at_once: without those that it reads when a function of it is called.
    """
    top = symtable.symtable(textwrap.dedent(source), "<solution>", "exec")
    names = [symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()]
    tables = top.get_children()
    while tables:
        table = tables.pop(0)
        if not (at_once and table.get_type() == "function"):
            names += [symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()]
            tables += table.get_children()
    return list(dict.fromkeys(names))


def names_bound(source: str) -> frozenset[str]:
    """The names that some source binds, without the variables of its functions."""
    symbols = symtable.symtable(source, "<solution>", "exec").get_symbols()
    return frozenset(symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported())
