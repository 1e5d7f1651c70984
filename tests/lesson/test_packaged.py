"""What an exercise asks for is refused when the package's own is handed in, called, or returned; nothing else is."""

import os
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

import pytest

from pllab import comm, parallel, pipeline, schedule, transfers
from pllab.lesson import Outcome, check
from pllab.lesson.exercise import EXERCISES, exercises_of
from pllab.lesson.own_code import functions_of
from pllab.parallel.tensor import copy_in, reduce_out
from pllab.simulate import Costs
from tests.lesson.committed import NOTEBOOKS, read
from tests.lesson.test_asking import answer_to

PACKAGED = [exercise for exercise in EXERCISES if exercise.package]


# Each calls the package's own in a line: in disguise, late, on ranks, or by the second name of an exercise that has
# several. Or it names the package's own, to be handed in itself.
CALLS: list[tuple[str, Callable[..., Any] | str]] = [
    ("03.1", lambda x, root=0: comm.run_transfers(transfers.tree_broadcast(comm.world_size(), root), x)),
    ("05.1", lambda model: [parallel.DataParallel(model), None][1]),
    ("08.1", lambda m, p: getattr(import_module("pllab.pipeline"), "clock" + "_cycles")(m, p)),
    ("08.1", lambda m, p: partial(pipeline.clock_cycles, m)(p)),
    ("08.1", lambda m, p: map(list, pipeline.clock_cycles(m, p))),
    ("11.3", lambda p, m: schedule.zb_h1(p, m)),
    ("11.3", lambda p, m: schedule.zero_bubble(p, m, Costs(), p)),
    ("12.2", lambda: (copy_in, reduce_out)),
    ("12.2", lambda: (lambda x: copy_in(x), lambda x: reduce_out(x))),
    ("16.2", lambda seconds, losses: resolve_name("pllab.bench.measure.check_same_losses")(losses)),
    *((exercise.id, f"pllab.{exercise.package[0]}") for exercise in PACKAGED),
]
REFUSES = re.compile(
    r"(do not (use|call)|do without|refuses|rejects|leave) the package's|the package's own[^.]*(refused|not count)",
    re.IGNORECASE,
)
FEW = {"05.1", "08.1", "10.1"}  # ranks, disguises and a generator that the check reads, and a decorator around it


def names_taken_out(paths):
    """In the process of a check: those of these functions and classes that have another body."""
    functions = {path: functions_of(resolve_name(f"pllab.{path}")) for path in paths}
    return [path for path, of in functions.items() if any(one.__code__.co_filename == os.devnull for one in of)]


def test_each_function_and_class_that_is_asked_for_can_be_taken_out():
    paths = sorted({path for exercise in PACKAGED for path in exercise.package})
    assert answer_to(lambda asked: asked(paths), names_taken_out, package=tuple(paths), deadline_s=60.0) == paths


def test_the_statements_say_of_which_exercises_the_packages_own_does_not_count():
    """Each in its own words, or all of a lesson in the paragraph before them: the package has nothing for 17.1."""
    said = set()
    for path in NOTEBOOKS:
        cells = {cell.id: cell.source for cell in read(path).cells}
        head = next((text for text in cells.values() if "## Exercises\n" in text), "").partition("### Exercise")[0]
        for exercise in exercises_of(path.name[:2]):
            words = head + cells[exercise.id.replace(".", "-ex")].partition("<details>")[0]
            said |= {exercise.id} if REFUSES.search(" ".join(words.split())) else set()
    assert said == {exercise.id for exercise in PACKAGED} | {"17.1"}


@pytest.mark.parametrize(
    ("exercise_id", "solution"),
    [
        pytest.param(*call, marks=[] if call[0] in FEW else pytest.mark.exhaustive, id=f"{call[0]}-{number}")
        for number, call in enumerate(CALLS)
    ],
)
def test_a_call_of_the_packages_own_function_is_refused(exercise_id, solution):
    given = resolve_name(solution) if isinstance(solution, str) else solution  # not before: importing takes seconds
    verdict = check(exercise_id, given, deadline_s=90.0)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "packaged"), str(verdict)
