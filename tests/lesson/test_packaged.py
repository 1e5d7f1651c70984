"""What an exercise asks for is refused when the package's own is handed in, called, or returned; nothing else is."""

import re
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import pytest

from pllab import comm, parallel, pipeline, schedule, transfers
from pllab.comm.fork_server import ForkServer
from pllab.lesson import Outcome, check, checking
from pllab.lesson.exercise import EXERCISES, Case, Refused, exercises_of
from pllab.parallel.tensor import copy_in, reduce_out
from pllab.simulate import Costs
from tests.lesson.committed import NOTEBOOKS, read
from tests.lesson.test_asking import verdict_on

PACKAGED = [exercise for exercise in EXERCISES if exercise.package]


def winner(seconds: dict[str, Any], losses: dict[str, Any]) -> str | None:
    resolve_name("pllab.bench.measure.check_same_losses")(losses)
    return None


CALLS: dict[str, tuple[str, Callable[..., Any]]] = {
    "handed in": ("10.1", schedule.one_f_one_b),
    "called": ("08.1", lambda m, p: pipeline.clock_cycles(m, p)),
    "read when the check asks": ("08.1", lambda m, p: map(list, pipeline.clock_cycles(m, p))),
    "the next best": ("11.3", lambda p, m: schedule.zero_bubble(p, m, Costs(), p)),
    "called on ranks": (
        "03.1",
        lambda x, root=0: comm.run_transfers(transfers.tree_broadcast(comm.world_size(), root), x),
    ),
    "a class": ("05.1", lambda model: [parallel.DataParallel(model), None][1]),
    "handed back": ("12.2", lambda: (copy_in, reduce_out)),
    "called by what is handed back": ("12.2", lambda: (lambda x: copy_in(x), lambda x: reduce_out(x))),
    "imported late": ("16.2", winner),
}
REFUSES = re.compile(
    r"(do not (use|call)|do without|refuses|rejects|leave) the package's|the package's own[^.]*(refused|not count)",
    re.IGNORECASE,
)


def refused_names(paths):
    """In the process of a check: which of these functions and classes refuse a call, as they name themselves."""
    found = []
    for path in paths:
        thing = resolve_name(path)
        for one in filter(callable, vars(thing).values() if isinstance(thing, type) else [thing]):
            try:
                one()
            except Refused as refused:
                found.append(refused.sentence.split()[2])
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
    "call",
    [
        pytest.param(call, marks=[] if call[0] in ("08.1", "10.1") else pytest.mark.exhaustive)
        for call in CALLS.values()
    ],
    ids=CALLS,
)
def test_a_call_of_the_packages_own_function_is_refused(call):
    verdict = check(*call, deadline_s=90.0)
    assert (verdict.outcome, verdict.hint_id) == (Outcome.NOT_YET, "packaged"), str(verdict)
