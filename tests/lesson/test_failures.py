"""What the watch of the ranks concludes from calls that were written down, also when a rank was ended early."""

import pytest

from pllab.comm import Message
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.failures import agree


def calls(*sizes: int, num_ranks: int = 3) -> list[Message]:
    return [Message("all_reduce", (size,), 4 * size, None, order, num_ranks) for order, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("of_ranks", "hint_id", "told"),
    [
        ([calls(8, 2), calls(8), calls(8, 2)], "not_all_ranks", None),
        ([calls(8, 2), calls(2, 8), calls(8, 2)], "other_order", None),
        # gloo ended a rank before all had called
        ([calls(8), calls(), calls(2)], "other_order", "rank 0 all_reduce of 8, rank 2 all_reduce of 2"),
    ],
)
def test_calls_that_differ_are_told_from_calls_that_are_missing(of_ranks, hint_id, told):
    with pytest.raises(Wrong, match=told) as wrong:
        agree(of_ranks)
    assert wrong.value.hint_id == hint_id


def test_the_same_calls_agree_and_those_within_smaller_groups_need_not():
    agree([calls(8, 2)] * 3)
    agree([calls(8, num_ranks=2), calls(4, num_ranks=2), []])
