"""A solution on its way to another process.

Only `pack` runs the learner's code: it asks the solution's classes how to pickle them.
"""

import base64
import dis
import functools
import io
import linecache
import marshal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from pllab.lesson.exercise import Refused
from pllab.lesson.own_code import namespace_of, their_functions

_CANNOT_TRAVEL = (
    "The check sends your function to a fresh process, and something it uses cannot be sent ({error}); "
    "make locks, queues, threads, widgets and open files inside the function."
)
_NO_FUNCTION = "The check was given {given!r:.60}, which is no function; pass the function itself."

Source = tuple[tuple[str, tuple[str, ...]], ...]  # the name of each cell with its lines


@dataclass(frozen=True)
class Packed:
    """A solution as cloudpickle in base64, with the cells it comes from.

    Without `function` the other process makes it: of the last check of the exercise in these cells.
    """

    source: Source
    function: str = ""


def pack(solution: Callable[..., Any] | None) -> Packed:
    """Pack a solution.

    Raises:
        Refused: it is not attempted, no function, or cannot travel.
    """
    if solution is None or _is_stub(solution):
        raise Refused
    try:
        if not callable(solution):
            raise Refused("no_function", _NO_FUNCTION.format(given=solution))
        _Pickler(packed := io.BytesIO()).dump(solution)
        return Packed(tuple(_sources(solution)), base64.b64encode(packed.getvalue()).decode())
    except Exception as error:  # pickling runs foreign code; every failure means the same to the student
        raise Refused("cannot_travel", _CANNOT_TRAVEL.format(error=error)) from None


class _Pickler(cloudpickle.Pickler):
    """Takes a function under `functools.cache` along, of which cloudpickle sends only the name, and code with its file.

    cloudpickle 3.1.3 leaves the file out, without which no traceback has the learner's lines.
    """

    def reducer_override(self, obj: Any) -> Any:
        """How to make it anew, with nothing remembered."""
        if isinstance(obj, functools._lru_cache_wrapper) and obj.__module__ == "__main__":
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        return super().reducer_override(obj)


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _is_stub(solution: Callable[..., Any]) -> bool:
    """Whether the body only raises NotImplementedError; then no process is needed."""
    code = getattr(solution, "__code__", None)
    if not isinstance(code, CodeType) or code.co_names != ("NotImplementedError",):
        return False
    return not any(instruction.opname.startswith("RETURN") for instruction in dis.get_instructions(code))


def _sources(solution: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The learner's cells that the solution comes from, so that its traceback has their lines."""
    beside = [one for one in namespace_of(solution).values() if isinstance(one, FunctionType | type)]
    for name in {each.__code__.co_filename for one in (solution, *beside) for each in their_functions(one)}:
        yield name, tuple(linecache.getlines(name))
