"""Every wrong solution is refused with its own hint, and every right one passes.

By default each exercise is tried with its first right solution and, where that is quick, with one of its wrong ones,
always the same; `make exhaustive` tries all. Mutants are wrong solutions, variants right ones; strangers wrote theirs
from the statement alone, and have a file of their own where one would be too long.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pllab.lesson import Exercise, Outcome, asking
from pllab.lesson.exercise import EXERCISES
from pllab.lesson.exercises import lesson_09_bench
from pllab.lesson.verdict import Verdict
from tests.lesson.judge import judged, name_of
from tests.tiers import exhaustive

Solution = Callable[..., Any]

_TRIES = 3


def zoo(kind: str) -> list[ModuleType]:
    return [import_module(f"tests.lesson.{path.stem}") for path in sorted(Path(__file__).parent.glob(f"{kind}_*.py"))]


MUTANTS, VARIANTS, STRANGERS = zoo("mutants"), zoo("variants"), zoo("strangers")
LET_THROUGH = [wrong for module in MUTANTS for wrong in getattr(module, "LET_THROUGH", [])]
HANGING = [wrong for module in MUTANTS for wrong in getattr(module, "HANGING", [])]


# Ranks start slowly in the process of a check: of the exercises with ranks, which have more time, one stands for all.
QUICK = [exercise for exercise in EXERCISES if exercise.deadline_s <= 20 or exercise.id == "02.3"]

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)


def wrong_ones(exercise: Exercise) -> list[tuple[Solution, str]]:
    """The wrong solutions of an exercise with their hints, in an order by chance that never changes."""
    wrong = [(wrong, hint_id) for module in MUTANTS for number, hint_id, wrong in module.WRONG if number == exercise.id]
    return sorted(wrong, key=lambda one: sha256(f"{exercise.id} {name_of(one[0])}".encode()).digest())


def right_ones(exercise: Exercise) -> list[Solution]:
    return [solution for module in VARIANTS + STRANGERS for solution in module.RIGHT.get(exercise.id, ())]


def assert_refused(exercise: Exercise, wrong: Iterable[tuple[Solution, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its hint, and no two alike; all are judged before any complaint, so that one run tells everything.

    On a busy machine a deadline can pass in an earlier claim; those that are alike by that are judged again.
    """
    monkeypatch.setattr(lesson_09_bench, "MEETING_S", 0.5)  # a sequential solution waits this long
    wrong = {name_of(solution): (solution, hint_id) for solution, hint_id in wrong}
    found: dict[str, Verdict] = {}
    alike = list(wrong)
    for _ in range(_TRIES):
        found |= {name: judged(exercise.id, wrong[name][0]) for name in alike}
        bad = [
            f"{name}, which is {wrong[name][1]}: {verdict}"
            for name, verdict in found.items()
            if (verdict.outcome, verdict.hint_id) != (Outcome.NOT_YET, wrong[name][1])
        ]
        assert not bad, "\n".join(bad)
        patterns = Counter(map(_pattern, found.values()))
        alike = [name for name, verdict in found.items() if patterns[_pattern(verdict)] > 1]
        if not alike:
            return
    raise AssertionError(f"alike: {', '.join(alike)}")


def _pattern(verdict: Verdict) -> tuple[int, str]:
    """The case that failed and why: of wrong solutions that agree in both one is enough."""
    return verdict.passed, verdict.hint_id


def assert_passes(exercise: Exercise, solutions: Iterable[Solution], **changes: Any) -> None:
    before = set(threading.enumerate())  # those of an earlier test may end meanwhile
    verdicts = {name_of(solution): judged(exercise.id, solution, **changes) for solution in solutions}
    bad = [f"{name}: {verdict}" for name, verdict in verdicts.items() if verdict.outcome is not Outcome.RIGHT]
    assert not bad, "\n".join(bad)
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("exercise", QUICK, ids=lambda exercise: exercise.id)
def test_a_wrong_solution_is_refused_with_its_own_hint(exercise, monkeypatch):
    assert_refused(exercise, wrong_ones(exercise)[:1], monkeypatch)


@pytest.mark.exhaustive
@each_exercise
def test_every_wrong_solution_is_refused_in_its_own_way(exercise, monkeypatch):
    assert_refused(exercise, wrong_ones(exercise), monkeypatch)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("exercise_id", "hint_id", "solution"), LET_THROUGH, ids=name_of)
def test_what_a_check_let_through_once_is_refused(exercise_id, hint_id, solution):
    """Its claim and its hint may be those of another wrong solution."""
    verdict = judged(exercise_id, solution)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, hint_id), str(verdict)


@each_exercise
def test_a_right_solution_passes(exercise):
    """Without what the exercise asks for, as in a check, if that is quick."""
    changes = {"package": exercise.package, "deadline_s": 60.0} if exercise in QUICK else {}
    assert_passes(exercise, right_ones(exercise)[:1], **changes)


@pytest.mark.exhaustive
@each_exercise
def test_every_other_right_solution_passes(exercise):
    assert_passes(exercise, right_ones(exercise)[1:])


@pytest.mark.parametrize(
    ("exercise_id", "hint_id", "solution"),
    [HANGING[0], *exhaustive(*HANGING[1:])],
    ids=name_of,
)
def test_a_solution_that_never_ends_is_refused_by_the_deadline(exercise_id, hint_id, solution, monkeypatch):
    """Also on a busy machine, where a check would say that it could not decide, since it goes on for ever."""
    monkeypatch.setattr(asking, "is_starved", lambda *_: False)
    verdict = judged(exercise_id, solution, deadline_s=4.0)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, hint_id)
    assert verdict.where.endswith(f"of {solution.__name__}")


def test_every_exercise_has_right_and_wrong_ones():
    for exercise in EXERCISES:
        assert len(right_ones(exercise)) >= 6, exercise.id
        assert len({hint_id for _, hint_id in wrong_ones(exercise)}) >= 4, exercise.id
        names = [name_of(wrong) for wrong, _ in wrong_ones(exercise)]
        assert len(set(names)) == len(names), f"{exercise.id}: of two with one name only one is judged by its hint"
        assert len(set(exercise.claims)) == len(exercise.cases), exercise.id
