from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given

from pllab.pipeline import interpret
from pllab.pipeline.engine import NOTHING, Name, Packet, made_by, taken_by
from pllab.schedule import Action, Kind, Schedule
from tests.simulate.legal import schedules


class Diary:
    """Transport, work and clock in one; it writes down who was called."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def take(self, action: Action) -> Packet:
        self.lines.append(f"take {action}")
        return NOTHING

    def give(self, action: Action, packet: Packet) -> None:
        self.lines.append(f"give {action} {packet.tensors}")

    def parts(self, action: Action) -> tuple[Action, ...]:
        return (action._replace(kind=Kind.R), action) if action.kind is Kind.B else (action,)

    def perform(self, action: Action, packet: Packet) -> Packet:
        self.lines.append(f"perform {action}")
        return Packet((*packet.tensors, str(action)))

    @contextmanager
    def timing(self, action: Action) -> Iterator[None]:
        self.lines.append(f"start {action}")
        yield
        self.lines.append(f"end {action}")


def test_the_clock_runs_while_each_part_of_an_action_performs_and_not_while_it_waits() -> None:
    diary = Diary()
    interpret([Action.parse("0F0"), Action.parse("0B1")], {0: diary}, diary, diary.timing)
    assert diary.lines == [
        *("take 0F0", "start 0F0", "perform 0F0", "end 0F0", "give 0F0 ('0F0',)"),
        *("take 0B1", "start 0R1", "perform 0R1", "end 0R1"),
        *("start 0B1", "perform 0B1", "end 0B1", "give 0B1 ('0R1', '0B1')"),
    ]


@given(schedules())
def test_whatever_is_taken_was_made_once_or_enters_and_the_rest_leaves(schedule: Schedule) -> None:
    taken = {name for action in schedule.actions() if (name := taken_by(action)) is not None}
    made = [name for action in schedule.actions() if (name := made_by(action)) is not None]
    last, numbers = schedule.num_stages - 1, range(schedule.num_microbatches)
    assert len(set(made)) == len(made)
    assert taken - set(made) == {Name(0, True, m) for m in numbers} | {Name(last, False, m) for m in numbers}
    assert set(made) - taken == {Name(last + 1, True, m) for m in numbers} | {Name(-1, False, m) for m in numbers}
