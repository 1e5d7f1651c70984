"""The cases of exercise 15.2: `who_waits(records)` gives for each rank the ranks that it waits for."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pllab.autopsy import Record, wait_for_graph
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.lesson_15_records import changed, healthy, judge, of_ward
from pllab.lesson.mistakes import Mistake

_MISTAKES = [
    Mistake(
        "rank_missing",
        "A rank that waits for no other needs an entry too, an empty set.",
        when=lambda found, _, right: found == {rank: others for rank, others in right.items() if others},
    ),
    Mistake(
        "waits_for_itself",
        "No rank waits for itself.",
        when=lambda found, _, right: {rank: others - {rank} for rank, others in found.items()} == right,
    ),
]


def _sets(answer: Any, *_: Any) -> dict[Any, set[Any]]:
    if not isinstance(answer, dict) or not all(isinstance(others, set | frozenset) for others in answer.values()):
        raise Wrong("wrong_form", f"Return a dictionary from each rank to a set; your function gave {answer!r}.")
    return {rank: set(others) for rank, others in answer.items()}


def _judge(who_waits: Function, many: Iterable[Sequence[Record]], hint_id: str = "wrong") -> None:
    judge(who_waits, ((records, wait_for_graph(records)) for records in many), _sets, _MISTAKES, hint_id)


def _of_wards(*wards: str, num_seeds: int = 8) -> list[list[Record]]:
    return [records for ward in wards for records, _ in of_ward(ward, num_seeds)]


@case("a rank that waits for no other has an empty set")
def nobody(who_waits: Function) -> None:
    """All is finished, or nothing was called."""
    idle = [replace(one, calls=()) for one in healthy(2, 1)]
    done = [changed(one, 7, finished=True) for one in healthy(3, 8)]
    _judge(who_waits, [done, idle, *_of_wards(STRAGGLER, NAN, num_seeds=4)])


@case("a collective waits for ranks that have not reached it")
def for_the_absent(who_waits: Function) -> None:
    """One rank, or two, never came to the call."""
    two = healthy(4, 7)
    for rank in (0, 3):
        two[rank] = replace(two[rank], calls=tuple(replace(c, finished=True) for c in two[rank].calls[:4]))
    _judge(who_waits, [*_of_wards(SWALLOWED), two])


@case("it waits for ranks that made another call under its number")
def for_the_different(who_waits: Function) -> None:
    """A rank that made another call of that number is waited for, and waits for all the others."""
    _judge(who_waits, _of_wards(SKIPPED, UNEVEN, SHAPE, num_seeds=4))


@case("a send or a receive waits only for its other end")
def for_the_other_end(who_waits: Function) -> None:
    """In a send or a receive: for one rank, whatever the others do."""
    three = healthy(3, 5)
    three[1] = changed(three[1], 4, name="receive", shape=(4,), peer=2)
    _judge(who_waits, [*_of_wards(SENDS), three], "not_the_peer")


@case("if several calls are unfinished, the first one counts")
def from_the_first(who_waits: Function) -> None:
    """Several calls are under way: the first unfinished one holds the rank up."""
    late = healthy(3, 8)
    late[0] = changed(late[0], 5, finished=False)
    late[1] = replace(late[1], calls=late[1].calls[:7])
    _judge(who_waits, [*_of_wards(SWAPPED), late])


@case("calls belong together by number, even if the oldest calls of some ranks are gone")
def by_number(who_waits: Function) -> None:
    many = _of_wards(SKIPPED, num_seeds=4)
    _judge(who_waits, [[replace(one, calls=one.calls[2 * at :]) for at, one in enumerate(each)] for each in many])
