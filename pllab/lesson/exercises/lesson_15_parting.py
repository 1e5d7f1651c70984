"""The cases of exercise 15.1: `first_difference(records)` names the rank that parted, and the number of its call."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from pllab.autopsy import Record
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, SWALLOWED, SWAPPED, UNEVEN
from pllab.lesson.exercise import Function, case
from pllab.lesson.exercises.lesson_15_records import changed, healthy, judge, of_ward, parts_of
from pllab.lesson.mistakes import Mistake

RankAndNumber = tuple[int, int]

_MISTAKES = [
    Mistake("reversed", "The rank comes first, then the number of the call.", like=lambda _, right: right[::-1]),
    Mistake(
        "wrong_rank",
        "The number is right. The rank is `record.rank` of the record whose call no other rank made.",
        when=lambda found, _, right: found[1] == right[1],
    ),
]
_BARRIER = {"name": "barrier", "shape": (), "dtype": ""}

_read = partial(parts_of, kinds=(int, int), form="(rank, number of the call) or None")
_judge = partial(judge, read=_read, mistakes=_MISTAKES)


def _parted(*wards: str) -> Iterator[tuple[list[Record], RankAndNumber]]:
    return ((records, (truth.rank, truth.call)) for ward in wards for records, truth in of_ward(ward))


@case("it names the rank and the first call that no other rank made")
def other_calls(first_difference: Function) -> None:
    """A skipped and two swapped collectives: from the fault on, nearly every call differs."""
    stopped = healthy(4, 9)
    stopped[1] = changed(stopped[1], 5, **_BARRIER)
    stopped[3] = replace(stopped[3], calls=stopped[3].calls[:5])
    _judge(first_difference, [*_parted(SKIPPED, SWAPPED, UNEVEN), (stopped, (1, 5))])


@case("another shape, dtype or root is another call")
def other_shapes(first_difference: Function) -> None:
    one, two, three = healthy(3, 9)
    others = [changed(three, 4, **parts) for parts in ({"dtype": "float16"}, {"peer": 1}, {"shape": (384, 2)})]
    questions = [*_parted(SHAPE), *(([one, two, other], (2, 4)) for other in others)]
    _judge(first_difference, questions, hint_id="shape_unseen")


@case("None if all calls that were made are the same")
def no_difference(first_difference: Function) -> None:
    """A rank that made fewer calls has parted from nobody, and nor has one in the middle of the same call."""
    one, two, three = healthy(3, 9)
    few = [one, replace(two, calls=two.calls[:5]), three]
    half = [changed(one, 7, finished=False, started_s=9.0, has_nan=True, where="train.py:3 in step"), two, three]
    none = [replace(one, calls=()), two, three]
    wards = [next(of_ward(ward))[0] for ward in (SWALLOWED, NAN)]
    questions = [(records, None) for records in (healthy(3, 9), few, half, none, *wards)]
    _judge(first_difference, questions, hint_id="blames_the_same")


@case("calls belong together by number, not by place in the list")
def by_number(first_difference: Function) -> None:
    """A ring buffer: the older calls of some ranks are gone, so that a place in the list is no number."""
    cut = [
        ([replace(one, calls=one.calls[2 * at :]) for at, one in enumerate(records)], right)
        for records, right in _parted(SKIPPED)
    ]
    late = [replace(one, calls=one.calls[4 + one.rank :]) for one in healthy(4, 11)]
    late[0] = changed(late[0], 8, **_BARRIER)
    lost = healthy(4, 9)
    lost[0] = replace(lost[0], calls=lost[0].calls[6:])
    lost[1] = changed(changed(lost[1], 5, **_BARRIER), 6, **_BARRIER)
    _judge(first_difference, [*cut, (late[::-1], (0, 8)), (lost, (1, 5))])


@case("a send and its receive do not count as a difference")
def not_messages(first_difference: Function) -> None:
    """One rank sends where the other receives, as it should be."""
    _judge(first_difference, [(records, None) for records, _ in of_ward(SENDS)], hint_id="blames_messages")
