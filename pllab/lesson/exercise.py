"""What an exercise is: a few named cases that a right solution passes, and three hints.

An exercise is a value. The wrong solutions it must refuse live in the tests, never here; the right solution
is the package's own function. This file knows no lesson; the exercises themselves are in
`pllab.lesson.exercises`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class Wrong(Exception):
    """What a case raises at a wrong solution: the class of the bug and a sentence that teaches.

    Example: `raise Wrong("late_binding", "All tasks computed the last pair.")`
    """

    def __init__(self, hint_id: str, sentence: str) -> None:
        super().__init__(hint_id, sentence)
        self.hint_id = hint_id
        self.sentence = sentence


@dataclass(frozen=True)
class Case:
    """One thing a solution must do: the claim as a student reads it, and the test that raises `Wrong`.

    on_hang: the hint for a solution that never comes back in this case, for example `("hang", "It waits for
    ...")`.
    """

    claim: str
    test: Callable[[Any], None]
    on_hang: tuple[str, str] | None = None


def case(claim: str, *, on_hang: tuple[str, str] | None = None) -> Callable[[Callable[[Any], None]], Case]:
    """Make a test the case that it stands for, so that its claim is written once, above it.

    Example:
        @case("no item is done twice")
        def nothing_twice(my_share): ...   # nothing_twice is a Case
    """
    return lambda test: Case(claim, test, on_hang)


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """An exercise of a lesson.

    `id` is "09.1", `difficulty` goes from 1 to 3, `hints` from the symptom to almost the answer. `deadline_s` is
    how long all cases together may take; an exercise that starts ranks needs more than the default.
    """

    id: str
    title: str
    minutes: int
    difficulty: int
    cases: tuple[Case, ...]
    hints: tuple[str, str, str]
    deadline_s: float = 20.0

    @property
    def claims(self) -> tuple[str, ...]:
        """What is tested, in order."""
        return tuple(case.claim for case in self.cases)


def find(exercise_id: str) -> Exercise:
    """Look an exercise up: `find("09.1")`; only the file of that lesson is imported.

    Raises:
        ValueError: there is no such exercise.
    """
    lesson = exercise_id.partition(".")[0]
    known = exercises_of(lesson)
    for exercise in known:
        if exercise.id == exercise_id:
            return exercise
    there = ", ".join(exercise.id for exercise in known) or "none"
    raise ValueError(f"there is no exercise {exercise_id!r}; lesson {lesson!r} has {there}")


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """All exercises of a lesson, in order: `exercises_of("09")`; empty when it has none."""
    if not (lesson.isdecimal() and lesson.isascii()):
        return ()
    name = f"pllab.lesson.exercises.lesson_{lesson}"
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return ()
    found: tuple[Exercise, ...] = module.EXERCISES
    return found
