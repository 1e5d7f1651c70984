"""The cases of exercise 15.1: `first_difference(records)` names the rank that parted, and the number of its call."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pllab.autopsy import Record
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.lesson_15_records import changed, healthy, of_ward, told, whole_numbers

FirstDifference = Callable[[list[Record]], Any]


def other_calls(first_difference: FirstDifference) -> None:
    """A skipped and two swapped collectives: from the fault on, nearly every call differs."""
    for ward in (SKIPPED, SWAPPED, UNEVEN):
        for records, truth in of_ward(ward):
            _judge(first_difference, records, (truth.rank, truth.call))
    stopped = healthy(4, 9)
    stopped[1] = changed(stopped[1], 5, name="barrier", shape=(), dtype="")
    stopped[3] = replace(stopped[3], calls=stopped[3].calls[:5])
    _judge(first_difference, stopped, (1, 5))


def other_shapes(first_difference: FirstDifference) -> None:
    """The name alone says too little: another shape, dtype or root is another call."""
    for records, truth in of_ward(SHAPE):
        _judge(first_difference, records, (truth.rank, truth.call), "shape_unseen")
    for parts in ({"dtype": "float16"}, {"peer": 1}, {"shape": (384, 2)}):
        records = healthy(3, 9)
        records[2] = changed(records[2], 4, **parts)
        _judge(first_difference, records, (2, 4), "shape_unseen")


def no_difference(first_difference: FirstDifference) -> None:
    """A rank that made fewer calls has parted from nobody, and nor has one in the middle of the same call."""
    few = healthy(3, 9)
    few[1] = replace(few[1], calls=few[1].calls[:5])
    half = healthy(4, 9)
    half[0] = changed(half[0], 7, finished=False, started_s=9.0, has_nan=True, where="train.py:3 in step")
    none = healthy(3, 6)
    none[0] = replace(none[0], calls=())
    swallowed = next(of_ward(SWALLOWED))[0]
    for records in (healthy(3, 9), few, half, none, swallowed, next(of_ward(NAN))[0]):
        answer = first_difference(list(records))
        if answer is not None:
            raise Wrong(
                "blames_the_same",
                f"{told(records)}\nYou returned {answer!r}. Every call that several ranks made is the same for all of "
                "them; a rank that made fewer calls has not parted. Return None.",
            )


def by_number(first_difference: FirstDifference) -> None:
    """A ring buffer: the older calls of some ranks are gone, so that a place in the list is no number."""
    for records, truth in of_ward(SKIPPED):
        cut = [replace(one, calls=one.calls[2 * at :]) for at, one in enumerate(records)]
        _judge(first_difference, cut, (truth.rank, truth.call), "place_for_number")
    late = healthy(4, 11)
    late = [replace(one, calls=one.calls[4 + one.rank :]) for one in late]
    late[0] = changed(late[0], 8, name="barrier", shape=(), dtype="")
    _judge(first_difference, late[::-1], (0, 8), "place_for_number")
    lost = healthy(4, 9)
    lost[0] = replace(lost[0], calls=lost[0].calls[6:])
    for number in (5, 6):
        lost[1] = changed(lost[1], number, name="barrier", shape=(), dtype="")
    _judge(first_difference, lost, (1, 5), "not_the_smallest")


def not_messages(first_difference: FirstDifference) -> None:
    """One rank sends where the other receives, as it should be."""
    for records, _ in of_ward(SENDS):
        answer = first_difference(list(records))
        if answer is not None:
            raise Wrong(
                "blames_messages",
                f"{told(records)}\nYou returned {answer!r}. A send of one rank is a receive of another: only "
                "collectives have to be the same on all ranks.",
            )


def _judge(
    first_difference: FirstDifference, records: Sequence[Record], right: tuple[int, int], hint: str = "wrong_call"
) -> None:
    answer = first_difference(list(records))
    where = told(records, 6)
    if answer is None:
        raise Wrong("found_none" if hint == "wrong_call" else hint, f"{where}\nYou returned None, and they part.")
    rank, number = whole_numbers(answer, "a tuple of rank and number, or None", 2, where)
    if (number, rank) == right:
        raise Wrong("reversed", f"{where}\nYou returned {answer!r}: the rank comes first, then the number of the call.")
    if number != right[1]:
        raise Wrong(
            hint,
            f"{where}\nYou named call {number}; compare call by call, by number and by name, shape, dtype and peer, "
            "and stop at the first number at which the ranks that made it differ.",
        )
    if rank != right[0]:
        order = [one.rank for one in records]
        handed = f" The records came in the order of ranks {order}; `record.rank` says whose one is."
        raise Wrong(
            "wrong_rank",
            f"{where}\nYou named call {number}, which is right, and rank {rank}. The one that parted is the rank whose "
            f"call nobody else made.{handed if order != sorted(order) else ''}",
        )
