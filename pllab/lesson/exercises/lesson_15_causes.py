"""The cases of exercise 15.3: `diagnose_visit(records)` names rank, call and cause in records of all eight wards."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pllab.autopsy import Record
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import case
from pllab.lesson.exercises.lesson_15_records import judge, of_ward, parts_of
from pllab.lesson.faults import Truth
from pllab.lesson.mistakes import Mistake

DiagnoseVisit = Callable[[list[Record]], Any]
_WHY = {
    SKIPPED: "That rank made the call after the missing one, and did not make the missing one later.",
    SWAPPED: "That rank made the two calls in the other order.",
    SHAPE: "The call of that rank has the right name and another shape.",
    UNEVEN: "That rank made a call that belongs to no step: it has left the loop.",
    STRAGGLER: "No rank is stuck; that call is the first to which one rank came 0.2 s or more after all others.",
    NAN: "No rank is stuck; that rank put in the first NaN, and the sums carry it to all ranks.",
    SWALLOWED: "That rank made no wrong call; its record has an exception that it caught.",
    SENDS: "Two ranks wait in a send to each other, and that one received first in earlier steps.",
}


def _judge(
    diagnose_visit: DiagnoseVisit, ward: str, left: Callable[[list[Record], Truth], list[Record]] | None = None
) -> None:
    why = _WHY[ward]
    mistakes = [
        Mistake("nothing", why, when=lambda found, *_: found is None),
        Mistake("wrong_cause", why, when=lambda found, *_: found[2] != ward),
        Mistake("wrong_rank", why, when=lambda found, _, right: found[2] == ward and found[0] != right[0]),
        Mistake("wrong_call", why, when=lambda found, _, right: found[::2] == right[::2]),
        Mistake("wrong", why),
    ]
    visits = ((left(records, truth) if left else records, tuple(truth)) for records, truth in of_ward(ward, 20))
    form = partial(parts_of, kinds=(int, int, str), form="(rank, number of the call, cause)")
    judge(diagnose_visit, visits, form, mistakes)


def _ended_by_gloo(records: list[Record], truth: Truth) -> list[Record]:
    """As real ranks leave a wrong shape: a rank not at fault is killed, and the others miss it."""
    killed = max(one.rank for one in records if one.rank != truth.rank)
    missed = "raised PeerError: all_gather on rank {} failed because another rank went away"
    return [
        replace(one, state="was killed by signal 6 (SIGABRT)" if one.rank == killed else missed.format(one.rank))
        for one in records
    ]


@case("ranks that diverge: skipped, swapped, another shape, or out of the loop")
def parted(diagnose_visit: DiagnoseVisit) -> None:
    for ward in (SKIPPED, SWAPPED, SHAPE, UNEVEN):
        _judge(diagnose_visit, ward)
    _judge(diagnose_visit, SHAPE, _ended_by_gloo)


@case("sends that wait for each other")
def in_sends(diagnose_visit: DiagnoseVisit) -> None:
    _judge(diagnose_visit, SENDS)


@case("an exception that nobody saw")
def swallowed(diagnose_visit: DiagnoseVisit) -> None:
    _judge(diagnose_visit, SWALLOWED)


@case("no rank is stuck: a NaN, or a straggler")
def not_stuck(diagnose_visit: DiagnoseVisit) -> None:
    _judge(diagnose_visit, NAN)
    _judge(diagnose_visit, STRAGGLER)
