"""The cases of exercise 15.2: `who_waits(records)` gives for each rank the ranks that it waits for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pllab.autopsy import CAUSES, Record, wait_for_graph
from pllab.autopsy.diagnosis import SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_15_records import changed, healthy, of_ward, told

WhoWaits = Callable[[list[Record]], Any]


def nobody(who_waits: WhoWaits) -> None:
    """All is finished, or nothing was called: an empty set for each rank."""
    idle = [replace(one, calls=()) for one in healthy(2, 1)]
    for records in (healthy(3, 8, finished=8), idle, next(of_ward(STRAGGLER))[0]):
        _judge(who_waits, records, "waits_for_nothing")


def for_the_absent(who_waits: WhoWaits) -> None:
    """One rank, or two, never came to the call."""
    for records, _ in of_ward(SWALLOWED):
        _judge(who_waits, records, "absent_unseen")
    two = healthy(4, 7)
    for rank in (0, 3):
        two[rank] = replace(two[rank], calls=tuple(replace(c, finished=True) for c in two[rank].calls[:4]))
    _judge(who_waits, two, "absent_unseen")


def for_the_different(who_waits: WhoWaits) -> None:
    """A rank that made another call of that number is waited for, and waits for all the others."""
    for ward in (SKIPPED, UNEVEN, SHAPE):
        for records, _ in of_ward(ward, 4):
            _judge(who_waits, records, "different_unseen")


def for_the_other_end(who_waits: WhoWaits) -> None:
    """In a send or a receive: for one rank, whatever the others do."""
    for records, _ in of_ward(SENDS):
        _judge(who_waits, records, "not_the_peer")
    three = healthy(3, 5)
    three[1] = changed(three[1], 4, name="receive", shape=(4,), peer=2)
    _judge(who_waits, three, "not_the_peer")


def from_the_first(who_waits: WhoWaits) -> None:
    """Several calls are under way: the first unfinished one holds the rank up."""
    for records, _ in of_ward(SWAPPED):
        _judge(who_waits, records, "not_the_first")
    late = healthy(3, 8)
    late[0] = changed(late[0], 5, finished=False)
    late[1] = replace(late[1], calls=late[1].calls[:7])
    _judge(who_waits, late, "not_the_first")


def everywhere(who_waits: WhoWaits) -> None:
    """The eight wards, and ranks whose older calls are gone."""
    for ward in CAUSES:
        for records, _ in of_ward(ward, 4):
            _judge(who_waits, records, "other_graph")
    for records, _ in of_ward(SKIPPED, 4):
        _judge(who_waits, [replace(one, calls=one.calls[2 * at :]) for at, one in enumerate(records)], "other_graph")


def _judge(who_waits: WhoWaits, records: Sequence[Record], hint: str) -> None:
    right = wait_for_graph(records)
    where = told(records)
    found = _sets(who_waits(list(records)), where)
    if missing := [rank for rank in right if rank not in found]:
        raise Wrong(
            "rank_missing",
            f"{where}\nRank {missing[0]} is not in your dictionary; a rank that waits for nobody has an empty set.",
        )
    if extra := [rank for rank in found if rank not in right]:
        raise Wrong("no_such_rank", f"{where}\nYour dictionary has a rank {extra[0]!r}, and there is none.")
    if own := [rank for rank in found if rank in found[rank]]:
        raise Wrong("waits_for_itself", f"{where}\nRank {own[0]} waits for itself in your answer, which no rank does.")
    for rank in right:
        if found[rank] != right[rank]:
            raise Wrong(
                hint,
                f"{where}\nRank {rank} waits for {_ranks(right[rank])}, and you say for {_ranks(found[rank])}.",
            )


def _sets(answer: Any, where: str) -> dict[Any, set[int]]:
    """The answer as a dictionary of sets, which it has to be."""
    if answer is None:
        told = f"{where}\nYour function returned None for them; return a dictionary from rank to a set of ranks."
        raise Wrong("nothing", told)
    if not isinstance(answer, dict):
        raise Wrong("wrong_form", f"Your function returned {answer!r}; return a dictionary from rank to set.")
    for others in answer.values():
        if not isinstance(others, set | frozenset):
            kind = type(others).__name__
            raise Wrong("no_set", f"An entry of your dictionary is {others!r}, a {kind}; return a set for every rank.")
    return answer


def _ranks(ranks: set[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)))}" if ranks else "nobody"
