"""The cases of exercise 15.3: `diagnose_visit(records)` names rank, call and cause in records of all eight wards."""

from collections.abc import Callable
from typing import Any

from pllab.autopsy import WARDS, Record, Truth, wards
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_15_records import of_ward, told, whole_numbers

DiagnoseVisit = Callable[[list[Record]], Any]
_WHY = {
    wards.SKIPPED: "It made the call that comes after the missing one, and did not make the missing one after it.",
    wards.SWAPPED: "It made the two calls in the other order.",
    wards.SHAPE: "Its call has the right name and another shape.",
    wards.UNEVEN: "It made a call that is in no step: it has left the loop.",
    wards.STRAGGLER: "Nobody is stuck; from this call on one rank comes late in every step.",
    wards.NAN: "Nobody is stuck; its value was the first that is not a number, and later the sums are none either.",
    wards.SWALLOWED: "It made no wrong call; its record has an exception that it caught.",
    wards.SENDS: "Two ranks stand in a send to each other, and this one received first in the steps before.",
}


def parted(diagnose_visit: DiagnoseVisit) -> None:
    """Skipped, swapped, of another shape, and a loop that ended early."""
    for ward in (wards.SKIPPED, wards.SWAPPED, wards.SHAPE, wards.UNEVEN):
        _judge(diagnose_visit, ward)


def in_sends(diagnose_visit: DiagnoseVisit) -> None:
    """Both ends send."""
    _judge(diagnose_visit, wards.SENDS)


def swallowed(diagnose_visit: DiagnoseVisit) -> None:
    """A rank that never came, with an exception in its record."""
    _judge(diagnose_visit, wards.SWALLOWED)


def not_stuck(diagnose_visit: DiagnoseVisit) -> None:
    """Nobody hangs: the values and the times tell."""
    _judge(diagnose_visit, wards.NAN)
    _judge(diagnose_visit, wards.STRAGGLER)


def _judge(diagnose_visit: DiagnoseVisit, ward: str) -> None:
    for records, truth in of_ward(ward, 20):
        answer = diagnose_visit(list(records))
        rank, call, cause = whole_numbers(answer, "a tuple of rank, number of the call, and cause", 3)
        _compare(Truth(rank, call, cause), truth, told(records, 6))


def _compare(found: Truth, truth: Truth, where: str) -> None:
    if found.cause not in WARDS:
        raise Wrong("no_cause", f"You named the cause {found.cause!r}; the eight causes are {', '.join(WARDS)}.")
    right = f"the cause is {truth.cause}, on rank {truth.rank}. {_WHY[truth.cause]}"
    if found.cause != truth.cause:
        raise Wrong(f"not_{truth.cause.split()[0].lower()}", f"{where}\nYou named {found.cause}; {right}")
    if found.rank != truth.rank:
        raise Wrong("wrong_rank", f"{where}\nYou named rank {found.rank} for {found.cause}; {right}")
    if found.call != truth.call:
        raise Wrong(
            "wrong_call",
            f"{where}\nRank {found.rank} and {found.cause} are right, and the call is {truth.call}, not {found.call}: "
            "the first call of this rank that the fault changed, or that it should have made and did not.",
        )
