"""What an exercise asks for is refused when the package's own is handed in, called, or returned; nothing else is."""

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

import pytest

from pllab import comm, data, parallel, pipeline, schedule, transfers
from pllab.comm.fork_server import ForkServer
from pllab.lesson import Outcome, check, checking
from pllab.lesson.exercise import EXERCISES, Case, Refused, exercises_of
from pllab.parallel.tensor import copy_in, reduce_out
from pllab.simulate import Costs
from tests.lesson.committed import NOTEBOOKS, read
from tests.lesson.test_asking import verdict_on

PACKAGED = [exercise for exercise in EXERCISES if exercise.package]


def texts(made: schedule.Schedule) -> list[list[str]]:
    return [[str(action) for action in row] for row in made.rows]


def winner(seconds: dict[str, Any], losses: dict[str, Any]) -> str | None:
    resolve_name("pllab.bench.measure.check_same_losses")(losses)
    return None


def timed(fn: Callable[[], Any], synchronize: Callable[[], Any], *_: Any, **__: Any) -> Any:
    return resolve_name("pllab.bench.compare")({"fn": fn}, before={"fn": synchronize}).seconds["fn"]


# Each calls the package's own in a line or two, and all passed but 01.3 and 16.2; or names it, to be handed in itself.
CALLS: list[tuple[str, Callable[..., Any] | str]] = [
    ("00.1", lambda items, rank, size: list(data.DataPartitioner(items, [1 / size] * size).use(rank))),
    ("01.2", timed),
    ("01.3", lambda *asked, **more: tuple(resolve_name("pllab.bench.roofline.bound_of")(*asked, **more))),
    ("02.2", lambda rank, size, file, s: comm.setup(rank, size, "gloo", init_file=file, timeout_s=s)),
    ("03.1", lambda x, root=0: comm.run_transfers(transfers.tree_broadcast(comm.world_size(), root), x)),
    ("05.1", lambda model: [parallel.DataParallel(model), None][1]),
    ("08.1", lambda m, p: list(map(list, resolve_name("pllab.pipeline.workers.clock_cycles")(m, p)))),
    ("08.1", lambda m, p: getattr(import_module("pllab.pipeline"), "clock" + "_cycles")(m, p)),
    ("08.1", lambda m, p: partial(pipeline.clock_cycles, m)(p)),
    ("08.1", lambda m, p: map(list, pipeline.clock_cycles(m, p))),
    (
        "09.2",
        lambda batches, cells, stages, _, *queues: pipeline.compute([pipeline.Task(int)] * len(cells), *queues, 5.0),
    ),
    ("10.1", lambda p, m: [[str(action) for action in row] for row in schedule.one_f_one_b(p, m).rows]),
    ("11.2", lambda p, m, v: texts(schedule.interleaved(p, m, v))),
    ("11.3", lambda p, m: texts(schedule.zb_h1(p, m))),
    ("11.3", lambda p, m: texts(schedule.zero_bubble(p, m, Costs(), p))),
    ("12.2", lambda: (copy_in, reduce_out)),
    ("12.2", lambda: (lambda x: copy_in(x), lambda x: reduce_out(x))),
    ("16.2", winner),
    *((exercise.id, f"pllab.{exercise.package[0]}") for exercise in PACKAGED),
]
REFUSES = re.compile(
    r"(do not (use|call)|do without|refuses|rejects|leave) the package's|the package's own[^.]*(refused|not count)",
    re.IGNORECASE,
)
FEW = {"05.1", "08.1", "10.1"}  # ranks, disguises and a generator that the check reads, and a decorator around it


def refused_names(paths):
    """In the process of a check: which of these functions and classes refuse a call, as they name themselves."""
    found = []
    for path in paths:
        thing = resolve_name(f"pllab.{path}")
        for one in filter(callable, vars(thing).values() if isinstance(thing, type) else [thing]):
            try:
                one()
            except Refused as refused:
                found.append(refused.sentence.split()[2].removeprefix("pllab."))
                break
            except TypeError:  # what a dataclass makes stays
                pass
    return found


def test_each_function_and_class_that_is_asked_for_can_be_taken_out(monkeypatch):
    """Most are imported after that, as a solution would: the server has imported nothing of this process."""
    server = ForkServer("pllab.lesson.answering")
    monkeypatch.setattr(checking, "warm_server", lambda *_: server)
    paths, seen = sorted({path for exercise in PACKAGED for path in exercise.package}), []
    case = Case("", lambda solution: seen.extend(solution(paths)))
    verdict = verdict_on(case, refused_names, package=tuple(paths), deadline_s=60.0)
    server.end()
    assert seen == paths, str(verdict)


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
