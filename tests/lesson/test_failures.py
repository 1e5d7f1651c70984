"""What the watch of the ranks concludes from calls that were written down, also when a rank was ended early."""

import pytest

from pllab.comm import Message
from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.failures import agree


def calls(*sizes: int, num_ranks: int = 3) -> list[Message]:
    return [Message("all_reduce", (size,), 4 * size, None, order, num_ranks) for order, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("of_ranks", "hint_id"),
    [
        ([calls(8, 2), calls(8), calls(8, 2)], "not_all_ranks"),
        ([calls(8, 2), calls(2, 8), calls(8, 2)], "other_order"),
        ([calls(8), calls(), calls(2)], "other_order"),  # gloo ended a rank before all had called
    ],
)
def test_calls_that_differ_are_told_from_calls_that_are_missing(of_ranks, hint_id):
    with pytest.raises(Wrong) as wrong:
        agree(of_ranks)
    assert wrong.value.hint_id == hint_id


def test_calls_that_differ_are_told_with_their_ranks():
    with pytest.raises(Wrong, match=r"rank 0 all_reduce of 8, rank 2 all_reduce of 2"):
        agree([calls(8), calls(), calls(2)])


def test_the_same_calls_agree():
    agree([calls(8, 2)] * 3)


def test_calls_within_smaller_groups_need_not_agree():
    agree([calls(8, num_ranks=2), calls(4, num_ranks=2), []])
