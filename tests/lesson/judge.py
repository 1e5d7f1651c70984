"""A quick way to put a solution to the cases, and the cell of a notebook that one comes from."""

import linecache
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle

from pllab.lesson import checking
from pllab.lesson.exercise import Exercise, find
from pllab.lesson.packing import pack
from pllab.lesson.verdict import Outcome, Verdict

_TRIES = 5


def judged(exercise_id: str, solution: Callable[..., Any], **changes: Any) -> Verdict:
    """The verdict of a check, also of a solution made of the package's own; a busy machine gets more tries.

    changes: of the exercise, such as its deadline.
    """
    for _ in range(_TRIES):  # many wrong ones are made of the package's own
        verdict = judged_on(replace(find(exercise_id), **{"package": (), **changes}), solution)
        if verdict.outcome is not Outcome.UNDECIDED:
            break
    return verdict


def judged_on(exercise: Exercise, solution: Callable[..., Any]) -> Verdict:
    """The verdict of one try, in a process of its own as in a check; a module of tests goes there by its value."""
    home = sys.modules.get(getattr(solution, "__module__", ""))
    if home is not None and home.__name__.startswith("tests."):
        cloudpickle.register_pickle_by_value(home)
    server = checking.warm_server(*checking.PRELOADED)
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        return checking.judge(exercise, pack(solution), server, Path(folder), exercise.deadline_s)


def with_switches(solution: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """Make solutions of one whose first argument holds the names of what it is to do otherwise, above all wrong."""

    def that(*switches: str) -> Callable[..., Any]:
        def switched(*given: Any) -> Any:
            return solution(switches, *given)

        switched.__name__ = "_".join(switches)
        switched.__module__ = solution.__module__  # which goes to the other process by its value
        return switched

    return that


def name_of(solution: Callable[..., Any]) -> str:
    """Its name; one that is made by a function has its maker's text."""
    return getattr(solution, "__name__", str(solution))


def cell(code: str, **names: Any) -> dict[str, Any]:
    """The names of a notebook after a cell, which `inspect` and tracebacks can read as in Jupyter."""
    number = len(linecache.cache)
    name = f"<ipython-input-{number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    names = {"__name__": "__main__"} | names
    exec(compile(code, name, "exec"), names)
    return names
