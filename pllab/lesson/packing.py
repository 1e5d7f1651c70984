"""A solution packed for another process, or a verdict at once.

Only `pack` runs the learner's code: it asks the solution's classes how to pickle them.
"""

import dis
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import cloudpickle

from pllab.lesson.exercise import Exercise
from pllab.lesson.keeping import namespace_of
from pllab.lesson.own_code import functions_of, is_theirs
from pllab.lesson.verdict import Outcome, Verdict, refusal

_CANNOT_TRAVEL = (
    "The check sends your function to a fresh process, and something it uses cannot be sent ({error}); "
    "make locks, queues, threads, widgets and open files inside the function."
)

Source = tuple[tuple[str, tuple[str, ...]], ...]  # the name of each cell with its lines


@dataclass(frozen=True)
class Packed:
    """A solution on its way to another process: as cloudpickle, with the cells it comes from."""

    function: bytes
    source: Source


def pack(exercise: Exercise, solution: Callable[..., Any] | None) -> Packed | Verdict:
    """Pack a solution; a verdict at once if it is not attempted or cannot travel."""
    if solution is None or _is_stub(solution):
        return Verdict(exercise=exercise, outcome=Outcome.NOT_ATTEMPTED)
    try:
        return Packed(cloudpickle.dumps(solution), tuple(_sources(solution)))
    except Exception as error:  # pickling runs foreign code; every failure means the same to the student
        return refusal(exercise, "cannot_travel", _CANNOT_TRAVEL.format(error=error))


def _is_stub(solution: Callable[..., Any]) -> bool:
    """Whether the body only raises NotImplementedError; then no process is needed."""
    code = getattr(solution, "__code__", None)
    if not isinstance(code, CodeType) or code.co_names != ("NotImplementedError",):
        return False
    return not any(instruction.opname.startswith("RETURN") for instruction in dis.get_instructions(code))


def _sources(solution: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The learner's cells that the solution comes from, so that its traceback has their lines."""
    beside = [one for one in namespace_of(solution).values() if isinstance(one, FunctionType | type)]
    for name in {each.__code__.co_filename for one in (solution, *beside) for each in functions_of(one)}:
        if is_theirs(name):
            yield name, tuple(linecache.getlines(name))
