"""Actions and schedules as values: their text forms, their parts, and the same order with its backwards split."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Kind, Schedule, check, dual_pipe_v, gpipe, interleaved, split_backwards, zb_h1


@pytest.mark.parametrize("text", ["", "F0", "2F", "2X0", "-1F0", "2F0 1F0", "2f0", "\u0662F\u0660", "2F" + "9" * 5000])
def test_what_is_no_action_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="is no action"):
        Action.parse(text)


actions = st.builds(Action, st.integers(0, 99), st.sampled_from(Kind), st.integers(0, 99))


@given(st.lists(st.lists(actions, max_size=8), max_size=5))
def test_what_is_written_reads_back(rows: list[list[Action]]) -> None:
    schedule = Schedule.of(rows)
    assert Schedule.from_csv(schedule.to_csv()) == schedule


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("0F0,, 0B0 ,\n,1F0,1B0\n", ["0F0 0B0", "1F0 1B0"]),  # blank cells are idle slots
        (
            "0UNSHARD,0F0,0SEND_F0,, 0RECV_B0 ,0B0,0RESHARD,0REDUCE_GRAD\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n",
            ["0F0 0B0", "1F0 1I0 1W0"],
        ),
        (
            "(0F0;0F1)OVERLAP_F_B,(0B0;0F2)OVERLAP_F_B,(0F3;0B1;0B2)OVERLAP_F_B,(0F4)OVERLAP_F_B\n",
            ["0F0 0F1 0B0 0F2 0F3 0B1 0B2 0F4"],
        ),
    ],
)
def test_what_is_no_action_of_a_schedule_is_left_out(text: str, rows: list[str]) -> None:
    read = Schedule.from_csv(text)
    assert read == Schedule.of(map(str.split, rows)) and not read.overlaps


def test_a_pair_that_runs_as_one_is_its_two_actions_in_order_and_is_remembered() -> None:
    text = "0F0,(0F1;3B0)OVERLAP_F_B,10F1,3B01\n"
    paired, plain = Schedule.from_csv(text), Schedule.of([["0F0", "0F1", "3B0", "10F1", "3B1"]])
    assert paired == plain
    assert list(paired.pairs()) == [(Action(0, Kind.F, 1), Action(3, Kind.B, 0))] and not list(plain.pairs())
    assert paired.to_csv() == text.replace("3B01", "3B1")


def test_an_action_that_comes_again_without_its_backward_is_written_alone() -> None:
    text = "(0F1;3B0)OVERLAP_F_B,0F1\n"
    assert Schedule.from_csv(text).to_csv() == text


def test_a_part_has_some_kinds_of_some_micro_batches_in_their_order_and_the_pairs_in_it() -> None:
    schedule = dual_pipe_v(3, 8)
    forward, backward = schedule.only("F"), schedule.only("BIW")
    assert sorted([*forward.actions(), *backward.actions()]) == sorted(schedule.actions())
    assert not forward.overlaps and not backward.overlaps
    pairs = [pair for pair in schedule.pairs() if pair[0].microbatch < 5]
    assert 0 < len(pairs) < len(schedule.overlaps)
    assert list(schedule.only("FBIW", 5).pairs()) == pairs
    assert [str(one) for one in zb_h1(3, 4).only("FI", 2).rows[2]] == ["2F0", "2I0", "2F1", "2I1"]


def test_a_forward_that_its_backward_does_not_follow_is_in_no_pair() -> None:
    moved = Schedule.of([["0F0", "0F1", "1F0", "1B0", "1F1", "0I0", "0W0", "1B1", "0B1"]])
    overlaps = frozenset(map(Action.parse, ("0F1", "1F0", "1F1")))
    assert [str(first) for first, _ in replace(moved, overlaps=overlaps).pairs()] == ["1F0"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0F0\n0F1,1X0\n", "line 2, column 2 of the schedule: '1X0' is no action"),
        ("0F0,0SEND_W0\n", "line 1, column 2 of the schedule: '0SEND_W0' is no action"),
        ("0F0,0SEND_F\n", "line 1, column 2 of the schedule: '0SEND_F' is no action"),
        ("0F0,UNSHARD\n", "line 1, column 2 of the schedule: 'UNSHARD' is no action"),
        ("(0F0;0Y1)OVERLAP_F_B\n", "line 1, column 1 of the schedule: '0Y1' is no action"),
        ("(0F0;0B1)SOMETHING\n", "line 1, column 1 of the schedule: '(0F0;0B1)SOMETHING' is no action"),
        ("0F0\r0X0", "line 2, column 1 of the schedule: '0X0' is no action"),
    ],
)
def test_a_cell_that_is_no_action_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        Schedule.from_csv(text)


@pytest.mark.parametrize("schedule", [gpipe(3, 4), interleaved(2, 5, 2), zb_h1(3, 4)], ids=lambda s: s.name)
def test_the_order_is_the_same_and_every_b_is_its_halves_side_by_side(schedule: Schedule) -> None:
    split = split_backwards(schedule)
    check(split)
    assert str(split) == re.sub(r"(\d+)B(\d+)", r"\1I\2 \1W\2", str(schedule))
