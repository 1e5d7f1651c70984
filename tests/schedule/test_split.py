"""Splitting every backward: judged by putting the halves together again."""

import pytest

from pllab.schedule import Kind, Schedule, check, gpipe, interleaved, one_f_one_b, split_backwards, zb_h1


@pytest.mark.parametrize("schedule", [gpipe(3, 4), one_f_one_b(4, 2), interleaved(2, 5, 2)], ids=lambda s: s.name)
def test_the_order_is_the_same_and_every_b_is_its_halves_side_by_side(schedule: Schedule) -> None:
    split = split_backwards(schedule)
    check(split)
    assert split.num_actions == schedule.num_actions * 3 // 2
    whole = [
        [action._replace(kind=Kind.B) if action.kind is Kind.I else action for action in row] for row in split.rows
    ]
    assert [[action for action in row if action.kind is not Kind.W] for row in whole] == list(map(list, schedule.rows))
    for row in split.rows:
        for action, after in zip(row, row[1:], strict=False):
            assert action.kind is not Kind.I or after == action._replace(kind=Kind.W)


def test_what_is_split_already_stays_as_it_is() -> None:
    assert split_backwards(zb_h1(3, 4)) == zb_h1(3, 4)
