"""An exercise, and the verdict of a check, which is shown as text and as HTML.

An exercise is a few named cases that a right solution passes, and three hints. The wrong solutions it must refuse are
in the tests. This file knows no lesson; the exercises themselves are in `pllab.lesson.exercises`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from importlib import import_module
from typing import Any


class Wrong(Exception):
    """A case raises it for a wrong solution: the class of the bug and a sentence that teaches.

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
    """Turn a test function into a case, so that its claim is written once, above it.

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
    package: tuple[str, ...] = ()
    deadline_s: float = 20.0

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of the cases, in order."""
        return tuple(case.claim for case in self.cases)


def find(exercise_id: str) -> Exercise:
    """Look an exercise up: `find("09.1")`; only the file of that lesson is imported.

    Raises:
        ValueError: there is no such exercise.
    """
    lesson = exercise_id.partition(".")[0]
    exercises = {exercise.id: exercise for exercise in exercises_of(lesson)}
    if exercise_id not in exercises:
        names = ", ".join(exercises) or "none"
        raise ValueError(f"there is no exercise {exercise_id!r}; lesson {lesson!r} has {names}")
    return exercises[exercise_id]


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """All exercises of a lesson, in order: `exercises_of("09")`; empty when it has none."""
    if not (lesson.isdecimal() and lesson.isascii()):
        return ()
    name = f"pllab.lesson.exercises.lesson_{lesson}"
    try:
        exercises: tuple[Exercise, ...] = import_module(name).EXERCISES
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return ()
    return exercises


class Outcome(StrEnum):
    """The three outcomes of a check."""

    NOT_ATTEMPTED = "not attempted"
    NOT_YET = "not yet"
    RIGHT = "right"


class NotRight(AssertionError):
    """Raised instead of shown when checks are strict; the message is the verdict's text."""


_CELL = "text-align:left;vertical-align:top"
_MORE_HELP = 'open Hint 1 above the check, or run: from pllab.lesson import hints; hints("{id}", 1)'
# A sign and an Okabe-Ito colour for each outcome; the sign says the same as the colour.
_SIGNS = {
    Outcome.NOT_ATTEMPTED: ("&#9675;", "#999999"),
    Outcome.NOT_YET: ("&#9651;", "#E69F00"),
    Outcome.RIGHT: ("&#9679;", "#009E73"),
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of a check.

    The text holds no time, no path and no process number, so a notebook's stored verdict compares equal to a new one.

    Example, as text:

        09.1 Tasks that remember their pair: not yet
          passed: there is one task for every pair of the schedule
          failed: task k computes pair k, even when it runs late
          hint (late_binding): All tasks computed the last pair.
          not tested yet: the order in which the tasks run does not matter
          more help: open Hint 1 above the check, or run: from pllab.lesson import hints; hints("09.1", 1)
    """

    exercise: Exercise
    outcome: Outcome
    num_passed: int = 0
    hint_id: str = ""
    hint: str = ""
    printed: str = ""
    where: str = ""

    @property
    def title(self) -> str:
        """The exercise and the outcome: `09.1 Tasks that remember their pair: not yet`."""
        return f"{self.exercise.id} {self.exercise.title}: {self.outcome}"

    def rows(self) -> list[tuple[str, str]]:
        """The lines of the verdict as (label, sentence)."""
        claims = self.exercise.claims
        if self.outcome is Outcome.NOT_ATTEMPTED:
            return [("will test", claim) for claim in claims] + [("next", "write the function, then run the check")]
        rows = [("passed", claim) for claim in claims[: self.num_passed]]
        if self.outcome is Outcome.NOT_YET:
            rows += [("failed", claim) for claim in claims[self.num_passed : self.num_passed + 1]]
            rows += [(f"hint ({self.hint_id})", self.hint)]
            rows += [("where", self.where)] if self.where else []
            rows += [("not tested yet", claim) for claim in claims[self.num_passed + 1 :]]
            rows += [("more help", _MORE_HELP.format(id=self.exercise.id))]
        return rows + ([("your function printed", self.printed)] if self.printed else [])

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {label}: {text}".replace("\n", "\n    ") for label, text in self.rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        sign, colour = _SIGNS[self.outcome]
        rows = "".join(
            f'<tr><th scope="row" style="{_CELL};white-space:nowrap">{escape(label)}</th>'
            f'<td style="{_CELL};white-space:pre-wrap">{escape(text)}</td></tr>'
            for label, text in self.rows()
        )
        return (
            f'<div role="status" style="border-left:6px solid {colour};padding:4px 12px">'
            f"<strong>{sign} {escape(self.title)}</strong>"
            f'<table style="margin:4px 0"><tbody>{rows}</tbody></table></div>'
        )
