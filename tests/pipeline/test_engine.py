from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isfunction, signature

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pllab.schedule
from pllab.pipeline import interpret
from pllab.pipeline.engine import NOTHING, Name, Packet, made_by, taken_by
from pllab.schedule import Action, Kind, one_f_one_b
from tests.pipeline.families import GENERATORS, any_legal


class Diary:
    """Transport, work and clock in one; it writes down who was called."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def take(self, action: Action) -> Packet:
        self.lines.append(f"take {action}")
        return NOTHING

    def give(self, action: Action, packet: Packet) -> None:
        self.lines.append(f"give {action} {packet.tensors[0].item():g}")

    def parts(self, action: Action) -> tuple[Action, ...]:
        return (action,)

    def perform(self, action: Action, packet: Packet) -> Packet:
        self.lines.append(f"perform {action}")
        return Packet((torch.tensor(float(action.microbatch)),))

    @contextmanager
    def timing(self, action: Action) -> Iterator[None]:
        self.lines.append(f"start {action}")
        yield
        self.lines.append(f"end {action}")


def test_the_clock_runs_while_an_action_performs_and_not_while_it_waits() -> None:
    diary = Diary()
    interpret([Action.parse("0F0"), Action.parse("0B1")], {0: diary}, diary, diary.timing)
    assert diary.lines == [
        *("take 0F0", "start 0F0", "perform 0F0", "end 0F0", "give 0F0 0"),
        *("take 0B1", "start 0B1", "perform 0B1", "end 0B1", "give 0B1 1"),
    ]


def test_a_failure_is_not_given_on() -> None:
    class Fails(Diary):
        def perform(self, action: Action, packet: Packet) -> Packet:
            raise KeyError("no")

    diary = Fails()
    with pytest.raises(KeyError):
        interpret([Action.parse("0F0"), Action.parse("0F1")], {0: diary}, diary, diary.timing)
    assert diary.lines == ["take 0F0", "start 0F0"]


@given(st.integers(1, 4), st.integers(0, 3), st.integers(1, 4), st.integers(0, 10**6))
def test_whatever_is_taken_was_made_once_or_enters_and_the_rest_leaves(
    ranks: int, more: int, microbatches: int, seed: int
) -> None:
    schedule = any_legal(ranks, ranks + more, microbatches, seed)
    taken = {name for action in schedule.actions() if (name := taken_by(action)) is not None}
    made = [name for action in schedule.actions() if (name := made_by(action)) is not None]
    last, numbers = schedule.num_stages - 1, range(schedule.num_microbatches)
    assert len(set(made)) == len(made)
    assert taken - set(made) == {Name(0, True, m) for m in numbers} | {Name(last, False, m) for m in numbers}
    assert set(made) - taken == {Name(last + 1, True, m) for m in numbers} | {Name(-1, False, m) for m in numbers}


def test_every_pair_of_neighbours_exchanges_a_packet_each_way() -> None:
    schedule = one_f_one_b(3, 2)
    names = {name for action in schedule.rows[1] if (name := made_by(action)) is not None}
    assert names == {Name(2, True, 0), Name(2, True, 1), Name(0, False, 0), Name(0, False, 1)}
    assert made_by(Action(1, Kind.W, 0)) is None and taken_by(Action(1, Kind.W, 0)) is None


def test_the_executors_run_every_generator() -> None:
    """A family that is added to pllab.schedule and takes ranks and micro-batches has to be run as well."""
    functions = [(name, getattr(pllab.schedule, name)) for name in pllab.schedule.__all__]
    takes = {name: list(signature(found).parameters) for name, found in functions if isfunction(found)}
    families = {
        getattr(pllab.schedule, name)
        for name, names in takes.items()
        if names[1:2] == ["num_microbatches"] and not {"costs", "rank_of_stage"} & {*names}
    }
    assert families <= set(GENERATORS.values())


def test_a_recomputed_backward_is_two_parts_and_both_are_timed() -> None:
    class Recomputes(Diary):
        def parts(self, action: Action) -> tuple[Action, ...]:
            return action._replace(kind=Kind.R), action

    diary = Recomputes()
    interpret([Action.parse("0B0")], {0: diary}, diary, diary.timing)
    assert diary.lines[1:7] == ["start 0R0", "perform 0R0", "end 0R0", "start 0B0", "perform 0B0", "end 0B0"]
