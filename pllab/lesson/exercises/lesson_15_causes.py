"""The cases of exercise 15.3: `diagnose_visit(records)` names rank, call and cause in records of all eight wards."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pllab.autopsy import CAUSES, Record, lateness
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_15_records import of_ward, told, whole_numbers
from pllab.lesson.faults import Truth

DiagnoseVisit = Callable[[list[Record]], Any]
_WHY = {
    SKIPPED: "It made the call that comes after the missing one, and did not make the missing one after it.",
    SWAPPED: "It made the two calls in the other order.",
    SHAPE: "Its call has the right name and another shape.",
    UNEVEN: "It made a call that is in no step: it has left the loop.",
    STRAGGLER: "Nobody is stuck; it came {late:.2f} s after all others to its call {call}, and nobody came 0.2 s "
    "late to an earlier one.",
    NAN: "Nobody is stuck; it put in the first value that is NaN, and the sums carry NaN to all ranks.",
    SWALLOWED: "It made no wrong call; its record has an exception that it caught.",
    SENDS: "Two ranks stand in a send to each other, and this one received first in the steps before.",
}
_KILLED = "was killed by signal 6 (SIGABRT)"
_MISSED = "raised PeerError: all_gather on rank {} failed because another rank went away"


def parted(diagnose_visit: DiagnoseVisit) -> None:
    """Skipped, swapped, of another shape, and a loop that ended early."""
    for ward in (SKIPPED, SWAPPED, SHAPE, UNEVEN):
        _judge(diagnose_visit, ward)
    for records, truth in of_ward(SHAPE, 20):
        _ask(diagnose_visit, _ended_by_gloo(records, truth), truth)


def _ended_by_gloo(records: list[Record], truth: Truth) -> list[Record]:
    """As real ranks leave a wrong shape: a rank not at fault is killed, and the others miss it."""
    killed = max(one.rank for one in records if one.rank != truth.rank)
    return [replace(one, state=_KILLED if one.rank == killed else _MISSED.format(one.rank)) for one in records]


def in_sends(diagnose_visit: DiagnoseVisit) -> None:
    """Both ends send."""
    _judge(diagnose_visit, SENDS)


def swallowed(diagnose_visit: DiagnoseVisit) -> None:
    """A rank that never came, with an exception in its record."""
    _judge(diagnose_visit, SWALLOWED)


def not_stuck(diagnose_visit: DiagnoseVisit) -> None:
    """Nobody hangs: the values and the times tell."""
    _judge(diagnose_visit, NAN)
    _judge(diagnose_visit, STRAGGLER)


def _judge(diagnose_visit: DiagnoseVisit, ward: str) -> None:
    for records, truth in of_ward(ward, 20):
        _ask(diagnose_visit, records, truth)


def _ask(diagnose_visit: DiagnoseVisit, records: list[Record], truth: Truth) -> None:
    answer, where = diagnose_visit(list(records)), told(records, 6)
    ended = [f"  rank {one.rank} {one.state}" for one in records if one.state not in ("running", "returned")]
    where = "\n".join([where, *sorted(ended)])
    rank, call, cause = whole_numbers(answer, "a tuple of rank, number of the call, and cause", 3, where)
    late = lateness(records)[truth.rank].get(truth.call, 0.0)
    _compare(Truth(rank, call, cause), truth, where, _WHY[truth.cause].format(late=late, call=truth.call))


def _compare(found: Truth, truth: Truth, where: str, why: str) -> None:
    if found.cause not in CAUSES:
        raise Wrong("no_cause", f"You named the cause {found.cause!r}; the eight causes are {', '.join(CAUSES)}.")
    right = f"the cause is {truth.cause}, on rank {truth.rank}. {why}"
    if found.cause != truth.cause:
        raise Wrong(f"not_{truth.cause.split()[0].lower()}", f"{where}\nYou named {found.cause}; {right}")
    if found.rank != truth.rank:
        raise Wrong("wrong_rank", f"{where}\nYou named rank {found.rank} for {found.cause}; {right}")
    if found.call != truth.call:
        raise Wrong(
            "wrong_call",
            f"{where}\nRank {found.rank} and {found.cause} are right, and the call is {truth.call}, not {found.call}: "
            "the first call of this rank that the fault changed, or that it should have made and did not. "
            f"{why}",
        )
