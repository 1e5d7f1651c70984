"""The cases of exercise 15.3: `diagnose_visit(records)` names rank, call and cause in records of all eight wards."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap

from pllab.autopsy import Call, Record
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import Function, case
from pllab.lesson.exercises.lesson_15_records import judge, of_ward, parts_of
from pllab.lesson.faults import Truth
from pllab.lesson.mistakes import Mistake

Visit = Callable[[list[Record], Truth], tuple[list[Record], Truth]]
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


def _judge(diagnose_visit: Function, ward: str, left: Visit | None = None) -> None:
    why = _WHY[ward]
    mistakes = [
        Mistake("nothing", why, when=lambda found, *_: found is None),
        Mistake("wrong_cause", why, when=lambda found, *_: found[2] != ward),
        Mistake("wrong_rank", why, when=lambda found, _, right: found[2] == ward and found[0] != right[0]),
        Mistake("wrong_call", why, when=lambda found, _, right: found[::2] == right[::2]),
        Mistake("wrong", why),
    ]
    visits = of_ward(ward) if left else of_ward(ward, 20)
    questions = [(records, tuple(truth)) for records, truth in (starmap(left, visits) if left else visits)]
    form = partial(parts_of, kinds=(int, int, str), form="(rank, number of the call, cause)")
    judge(diagnose_visit, questions, form, mistakes)


def _ended_by_gloo(records: list[Record], truth: Truth) -> tuple[list[Record], Truth]:
    """As real ranks leave a wrong shape: a rank not at fault is killed, and the others miss it."""
    killed = max(one.rank for one in records if one.rank != truth.rank)
    missed = "raised PeerError: all_gather on rank {} failed because another rank went away"
    return [
        replace(one, state="was killed by signal 6 (SIGABRT)" if one.rank == killed else missed.format(one.rank))
        for one in records
    ], truth


def _renumbered(records: list[Record], truth: Truth) -> tuple[list[Record], Truth]:
    """Ranks counted from the other end: the one at fault is odd no more."""
    last = len(records) - 1

    def counted(call: Call) -> Call:
        return replace(call, peer=None if call.peer is None else last - call.peer)

    turned = [replace(one, rank=last - one.rank, calls=tuple(map(counted, one.calls))) for one in records]
    return turned, truth._replace(rank=last - truth.rank)


def _close_to_the_limit(records: list[Record], truth: Truth) -> tuple[list[Record], Truth]:
    """First two ranks come late together, then one by less than 0.2 s, and then the straggler by little more."""
    others = sorted(one.rank for one in records if one.rank != truth.rank)
    records = _late(records, truth.call - 8, others[:2], 1.0)
    records = _late(records, truth.call - 4, others[:1], 0.15)
    return _late(records, truth.call, [truth.rank], 0.28), truth


def _late(records: list[Record], number: int, ranks: Sequence[int], seconds: float) -> list[Record]:
    """The same records, but these ranks come to this call so long after all others; all go on from there."""
    last = max(one.calls[number].started_s for one in records if one.rank not in ranks)
    shift = last + seconds - min(one.calls[number].started_s for one in records if one.rank in ranks)

    def moved(call: Call, is_late: bool) -> Call:
        if call.number < number:
            return call
        start = call.started_s + shift if call.number > number else last + seconds if is_late else call.started_s
        return replace(call, started_s=start, finished_s=None if call.finished_s is None else call.finished_s + shift)

    return [replace(one, calls=tuple(moved(call, one.rank in ranks) for call in one.calls)) for one in records]


@case("ranks that diverge: skipped, swapped, another shape, or out of the loop")
def parted(diagnose_visit: Function) -> None:
    for ward in (SKIPPED, SWAPPED, SHAPE, UNEVEN):
        _judge(diagnose_visit, ward)
    _judge(diagnose_visit, SHAPE, _ended_by_gloo)


@case("sends that wait for each other")
def in_sends(diagnose_visit: Function) -> None:
    _judge(diagnose_visit, SENDS)
    _judge(diagnose_visit, SENDS, _renumbered)


@case("an exception that nobody saw")
def swallowed(diagnose_visit: Function) -> None:
    _judge(diagnose_visit, SWALLOWED)


@case("no rank is stuck: a NaN, or a straggler")
def not_stuck(diagnose_visit: Function) -> None:
    _judge(diagnose_visit, NAN)
    _judge(diagnose_visit, STRAGGLER)
    _judge(diagnose_visit, STRAGGLER, _close_to_the_limit)
