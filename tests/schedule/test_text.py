"""The CSV form: blanks, pairs, and what is refused with its line and column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Kind, Schedule

actions = st.builds(Action, st.integers(0, 99), st.sampled_from(Kind), st.integers(0, 99))


@given(st.lists(st.lists(actions, min_size=1, max_size=8), max_size=5))
def test_what_is_written_reads_back(rows: list[list[Action]]) -> None:
    schedule = Schedule.of(rows)
    assert Schedule.from_csv(schedule.to_csv()) == schedule


def test_blank_cells_are_idle_slots() -> None:
    assert Schedule.from_csv("0F0,, 0B0 ,\n,1F0,1B0\n") == Schedule.of([["0F0", "0B0"], ["1F0", "1B0"]])


def test_a_pair_that_runs_as_one_is_its_two_actions_in_order() -> None:
    assert Schedule.from_csv("0F0,(0F1;3B0)OVERLAP_F_B,3W1\r\n") == Schedule.of([["0F0", "0F1", "3B0", "3W1"]])


def test_what_a_runtime_adds_to_the_actions_is_left_out() -> None:
    text = "0UNSHARD,0F0,0SEND_F0,, 0RECV_B0 ,0B0,0RESHARD,0REDUCE_GRAD\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n"
    assert Schedule.from_csv(text) == Schedule.of([["0F0", "0B0"], ["1F0", "1I0", "1W0"]])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0F0\n0F1,1X0\n", "line 2, column 2 of the schedule: '1X0' is no action"),
        ("0F0,0SEND_W0\n", "line 1, column 2 of the schedule: '0SEND_W0' is no action"),
        ("0F0,0SEND_F\n", "line 1, column 2 of the schedule: '0SEND_F' is no action"),
        ("0F0,UNSHARD\n", "line 1, column 2 of the schedule: 'UNSHARD' is no action"),
        ("(0F0;0Y1)OVERLAP_F_B\n", "line 1, column 1 of the schedule: '0Y1' is no action"),
        ("(0F0;0B1)SOMETHING\n", "line 1, column 1 of the schedule: '(0F0;0B1)SOMETHING' is no action"),
    ],
)
def test_a_cell_that_is_no_action_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="is no action") as caught:
        Schedule.from_csv(text)
    assert str(caught.value).startswith(sentence)


def test_an_empty_row_survives_and_is_refused_by_check_not_by_the_reader() -> None:
    idle = Schedule.of([["0F0", "0B0"], []])
    assert Schedule.from_csv(idle.to_csv()).rows == idle.rows
