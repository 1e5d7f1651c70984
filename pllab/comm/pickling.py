"""Pickle values for a new process and back, or refuse them in one sentence with the way out.

A new process imports a function from its module, so it cannot reach one typed into a notebook cell or at a prompt.
Python notices that in the new process, after seconds, as "Can't get attribute ... on <module '__main__'>"; here it is
noticed before anything starts.
"""

import pickle
import pickletools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

_WAY_OUT = "put it in a module (a .py file) and import it, or run the cell on Ranks with %%px"


def pack(fn: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """Pickle a function with its arguments for another process.

    Raises:
        ValueError: the function or an argument cannot travel; the sentence says why and what to do.
    """
    _check_function(fn)
    try:
        payload = pickle.dumps((fn, args))
    except Exception as error:
        raise ValueError(_why_not(fn, args, error)) from None
    if _main_is_interactive() and _names_main(payload):
        raise ValueError(
            f"an argument of {_name(fn)} has a class defined in a notebook cell or at a prompt, which a "
            "new process cannot import; put the class in a module (a .py file) and import it"
        )
    return payload


def pack_value(value: Any, what: str) -> bytes:
    """Pickle the result or a report of a rank.

    Raises:
        ValueError: it cannot be pickled.
    """
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise ValueError(
            f"the {what}, {_shown(value)}, cannot be sent to the parent process ({error}); return plain data or tensors"
        ) from None


def _check_function(fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise ValueError(f"launch needs a function and was given {_shown(fn)}")
    inner: Any = fn
    while isinstance(inner, partial):
        inner = inner.func
    qualified = getattr(inner, "__qualname__", "")
    if qualified.endswith("<lambda>"):
        raise ValueError(f"a lambda has no name that a new process could import it by; {_WAY_OUT}")
    if "<locals>" in qualified:
        raise ValueError(
            f"{_name(inner)} is defined inside another function, where a new process cannot import it; {_WAY_OUT}"
        )
    if getattr(inner, "__module__", None) == "__main__" and _main_is_interactive():
        raise ValueError(
            f"{_name(inner)} was defined in a notebook cell or at a prompt, which a new process cannot "
            f"import; {_WAY_OUT}"
        )


def _why_not(fn: Callable[..., Any], args: tuple[Any, ...], error: Exception) -> str:
    """Which part of the payload could not be pickled."""
    for position, value in enumerate(args):
        try:
            pickle.dumps(value)
        except Exception as reason:
            return (
                f"argument {position} of {_name(fn)}, {_shown(value)}, cannot be sent to another process "
                f"({reason}); send plain data or tensors and make the rest inside the function"
            )
    return f"{_name(fn)} cannot be sent to another process ({error}); {_WAY_OUT}"


def _names_main(payload: bytes) -> bool:
    """Whether unpickling would look something up in __main__; the name inside nested bytes does not count."""
    return b"__main__" in payload and any(text == "__main__" for _, text, _ in pickletools.genops(payload))


def _main_is_interactive() -> bool:
    """Whether __main__ is a notebook, a prompt or `python -c`, and not a file that can be imported again."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return file is None or not Path(file).is_file()


def _name(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__name__', type(fn).__name__)}()"


def _shown(value: Any) -> str:
    """The value for a sentence: its type and a short repr."""
    try:
        text = repr(value)
    except Exception:
        text = "without a readable repr"
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
