"""Solutions by people who read the lesson alone: theirs that are right pass, theirs that are wrong are refused.

`make exhaustive` tries them; the tests of the exercises try solutions of our own before.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pllab.lesson.exercise import Exercise, exercises_of
from tests.lesson.judge import judged

LESSONS = sorted(path.stem[-2:] for path in Path(__file__).parent.glob("strangers_*.py"))
MODULES = {lesson: import_module(f"tests.lesson.strangers_{lesson}") for lesson in LESSONS}
EXERCISES = [exercise for lesson in LESSONS for exercise in exercises_of(lesson)]


def of(exercise: Exercise, kind: str) -> list[Any]:
    return [row[1] for row in getattr(MODULES[exercise.id[:2]], kind) if row[0] == exercise.id]


def verdicts(exercise: Exercise, kind: str) -> dict[str, str]:
    return {solution.__name__: judged(exercise.id, solution) for solution in of(exercise, kind)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_what_strangers_wrote_is_told_apart(exercise: Exercise) -> None:
    right, wrong = verdicts(exercise, "RIGHT"), verdicts(exercise, "WRONG")
    assert {name for name, verdict in right.items() if verdict != "right"} == set(), right
    assert {name for name, verdict in wrong.items() if verdict == "right"} == set(), wrong


def test_every_exercise_met_strangers() -> None:
    few = {exercise.id for exercise in EXERCISES if len(of(exercise, "RIGHT")) < 3 or len(of(exercise, "WRONG")) < 5}
    assert few == set()
