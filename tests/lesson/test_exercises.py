"""Every wrong solution is refused with its own hint, and every right one passes."""

import threading
from importlib import import_module
from pathlib import Path

import cloudpickle
import pytest

from pllab.lesson import Outcome, check
from pllab.lesson.exercise import exercises_of
from pllab.lesson.exercises import lesson_09_compute
from tests.lesson.judge import judged

LESSONS = sorted(path.stem[-2:] for path in Path(__file__).parent.glob("mutants_*.py"))
MUTANTS = [import_module(f"tests.lesson.mutants_{lesson}") for lesson in LESSONS]
VARIANTS = [import_module(f"tests.lesson.variants_{lesson}") for lesson in LESSONS]
WRONG = [wrong for module in MUTANTS for wrong in module.WRONG]
HANGING = [wrong for module in MUTANTS for wrong in getattr(module, "HANGING", [])]
RIGHT = [right for module in VARIANTS for right in module.RIGHT]
EXERCISES = [exercise for lesson in LESSONS for exercise in exercises_of(lesson)]


def _name(value):
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("exercise_id", "hint_id", "solution"), WRONG, ids=_name)
def test_a_wrong_solution_is_refused_with_its_own_hint(exercise_id, hint_id, solution, monkeypatch):
    monkeypatch.setattr(lesson_09_compute, "_MEETING_S", 0.5)  # a sequential solution waits this long
    assert judged(exercise_id, solution) == hint_id


@pytest.mark.parametrize(("exercise_id", "solution"), RIGHT, ids=_name)
def test_a_right_solution_passes(exercise_id, solution):
    before = set(threading.enumerate())  # those of an earlier test may end meanwhile
    assert judged(exercise_id, solution) == "right"
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_a_right_solution_passes_in_the_process_of_a_check(exercise):
    """Sent by value, as a function of a notebook cell is."""
    solution = next(solution for exercise_id, solution in RIGHT if exercise_id == exercise.id)
    for module in VARIANTS:
        cloudpickle.register_pickle_by_value(module)
    try:
        assert check(exercise.id, solution, deadline_s=60.0).outcome is Outcome.RIGHT
    finally:
        for module in VARIANTS:
            cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize(("exercise_id", "hint_id", "solution"), HANGING, ids=_name)
def test_a_solution_that_never_ends_is_refused_by_the_deadline(exercise_id, hint_id, solution):
    verdict = check(exercise_id, solution, deadline_s=2.0)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, hint_id)
    assert verdict.where.endswith(f"of {solution.__name__}")


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_every_exercise_has_three_right_variants_and_more_wrong_ones(exercise):
    assert sum(exercise_id == exercise.id for exercise_id, _ in RIGHT) >= 3
    assert len({hint_id for exercise_id, hint_id, _ in WRONG if exercise_id == exercise.id}) >= 3
    assert len(set(exercise.hints)) == 3
    assert len(set(exercise.claims)) == len(exercise.cases)
