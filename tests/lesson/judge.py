"""A quick way to put a solution to the cases, in this process, and the cell of a notebook that one comes from."""

import linecache
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle

from pllab.lesson import asking
from pllab.lesson.checking import warm_nursery
from pllab.lesson.exercise import Exercise, find
from pllab.lesson.judging import run_cases
from pllab.lesson.trial import Packed, pack
from pllab.lesson.verdict import Outcome


def judged(exercise_id: str, solution: Callable[..., Any]) -> str:
    """`"right"`, or the id of the first hint that refuses it, or what else ended the check."""
    if find(exercise_id).is_asked:
        return _asked(replace(find(exercise_id), package=()), solution)
    events: list[dict[str, Any]] = []
    run_cases(find(exercise_id), solution, lambda **event: events.append(event))
    failed = [event for event in events if event["event"] != "passed"]
    if failed[0]["event"] == "done":
        return "right"
    first = failed[0]
    return first.get("hint_id", first["event"])


def _asked(exercise: Exercise, solution: Callable[..., Any]) -> str:
    """In a process of its own, as a check does; a module of tests goes there whole, not by its name."""
    home = sys.modules.get(getattr(solution, "__module__", ""))
    if home is not None and home.__name__.startswith("tests."):
        cloudpickle.register_pickle_by_value(home)
    packed = pack(exercise, solution)
    assert isinstance(packed, Packed), str(packed)
    with tempfile.TemporaryDirectory(prefix="pllab-check-") as folder:
        verdict = asking.judge(exercise, packed, warm_nursery(), Path(folder), exercise.deadline_s)
    return "right" if verdict.outcome is Outcome.RIGHT else verdict.hint_id or str(verdict.outcome)


def cell(code: str, **names: Any) -> dict[str, Any]:
    """The names of a notebook after a cell, which `inspect` and tracebacks can read as in Jupyter."""
    number = len(linecache.cache)
    name = f"<ipython-input-{number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    names = {"__name__": "__main__"} | names
    exec(compile(code, name, "exec"), names)
    return names
