"""The moves of the schedule editor: none loses an action, and each has one that takes it back."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Kind, Schedule, gpipe, one_f_one_b, problems
from pllab.show.editor.positions import Position, merge, move, place_of, split

SMALL = Schedule.of([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])


@st.composite
def positions(draw):
    """A schedule after some moves and splits, and one of its actions."""
    make = draw(st.sampled_from([gpipe, one_f_one_b]))
    schedule = make(draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    for _ in range(draw(st.integers(0, 4))):
        action = draw(st.sampled_from(list(schedule.actions())))
        if action.kind is Kind.B and draw(st.booleans()):
            schedule = split(schedule, action)
        else:
            schedule = move(schedule, action, draw(st.integers(0, 12)))
    return schedule, draw(st.sampled_from(list(schedule.actions())))


@given(positions(), st.integers(-3, 20))
def test_a_move_keeps_every_action_on_its_rank_and_moving_back_undoes_it(position, to):
    schedule, action = position
    rank, place = place_of(schedule, action)
    moved = move(schedule, action, to)
    assert [Counter(row) for row in moved.rows] == [Counter(row) for row in schedule.rows]
    assert place_of(moved, action) == (rank, min(max(to, 0), len(schedule.rows[rank]) - 1))
    rest = [other for other in schedule.rows[rank] if other != action]
    assert [other for other in moved.rows[rank] if other != action] == rest
    assert move(moved, action, place) == schedule


@given(positions())
def test_merging_undoes_a_split_and_the_work_stays_the_same(position):
    schedule, action = position
    if action.kind is not Kind.B:
        with pytest.raises(ValueError, match=f"{action} cannot be split"):
            split(schedule, action)
        return
    halves = split(schedule, action)
    first, rest = action._replace(kind=Kind.I), action._replace(kind=Kind.W)
    assert Counter(halves.actions()) == Counter(schedule.actions()) - Counter([action]) + Counter([first, rest])
    assert merge(halves, first) == merge(halves, rest) == schedule


@given(positions())
def test_splitting_all_is_splitting_each(position):
    schedule, _ = position
    halves = schedule
    for action in schedule.actions():
        halves = split(halves, action) if action.kind is Kind.B else halves
    assert Position(schedule).split_all().board == halves


def test_a_merge_of_halves_that_stand_apart_takes_the_place_of_the_first():
    apart = Schedule.of([["0F0", "0I0", "0F1", "0W0"]])
    assert merge(apart, Action.parse("0W0")) == Schedule.of([["0F0", "0B0", "0F1"]])


@given(positions(), st.data())
def test_what_is_placed_on_an_emptied_board_is_all_there_was_and_keeps_its_rank(position, data):
    schedule, _ = position
    emptied = Position(schedule).emptied()
    assert not any(emptied.board.rows) and not emptied.is_complete
    assert Counter(emptied.whole().actions()) == Counter(schedule.actions()) and not problems(emptied.whole())
    here = emptied
    while not here.is_complete:
        action = data.draw(st.sampled_from(sorted(here.left.actions())))
        here = here.place(action)
        assert here.board.rows[schedule.rank_of_stage[action.stage]][-1] == action
    assert [Counter(row) for row in here.board.rows] == [Counter(row) for row in schedule.rows]
    with pytest.raises(ValueError, match="is not in the schedule"):
        here.place(action)


def test_on_a_half_filled_board_all_is_split():
    half = Position(SMALL).emptied().place(Action.parse("0F0")).place(Action.parse("0B0"))
    halves = half.split_all()
    assert halves.board.rows[0] == Schedule.of([["0F0", "0I0", "0W0"]]).rows[0]
    assert Kind.B not in {action.kind for action in halves.whole().actions()}
