"""The edits of the schedule editor: each takes a schedule and gives another one with the same work in it.

An edit never loses, doubles or renames an action, and never takes it off its rank. The new order may be illegal: a
learner may pass through an illegal order on the way to a better one. `pllab.schedule.problems` judges it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pllab.schedule import Action, Kind, Schedule, split_backwards


def place_of(schedule: Schedule, action: Action) -> tuple[int, int]:
    """The rank of an action and its place in that rank's row, from 0.

    Raises:
        ValueError: the schedule does not have the action.
    """
    for rank, row in enumerate(schedule.rows):
        if action in row:
            return rank, row.index(action)
    first = next(schedule.actions(), None)
    known = f"name one of its actions, for example {first}" if first else "it is empty, so place an action first"
    raise ValueError(f"{action} is not in the schedule; {known}")


def move(schedule: Schedule, action: Action, to: int) -> Schedule:
    """Put an action at place `to` of its own row; the others keep their order. A place outside means the nearest end.

    Example: moving 0B0 to place 1 of `0F0 0F1 0B0 0B1` gives `0F0 0B0 0F1 0B1`; moving it to place 2 undoes that.

    Raises:
        ValueError: the schedule does not have the action.
    """
    rank, _ = place_of(schedule, action)
    row = [other for other in schedule.rows[rank] if other != action]
    row.insert(min(max(to, 0), len(row)), action)
    return _with_row(schedule, rank, row)


def halves_of(action: Action) -> tuple[Action, Action]:
    """The I and the W of a backward: `0I0` and `0W0` of `0B0`."""
    return action._replace(kind=Kind.I), action._replace(kind=Kind.W)


def split(schedule: Schedule, action: Action) -> Schedule:
    """Replace a B by its I and W, side by side in its place: `0F0 0B0` gives `0F0 0I0 0W0`.

    Raises:
        ValueError: the action is not a B, or the schedule does not have it.
    """
    if action.kind is not Kind.B:
        raise ValueError(f"{action} cannot be split; only a B is a whole backward")
    rank, place = place_of(schedule, action)
    row = schedule.rows[rank]
    return _with_row(schedule, rank, (*row[:place], *halves_of(action), *row[place + 1 :]))


def merge(schedule: Schedule, action: Action) -> Schedule:
    """Replace an I and its W, wherever they are, by a B in the place of the I: `0I0 0F1 0W0` gives `0B0 0F1`.

    Raises:
        ValueError: the action is neither I nor W, or the schedule does not have both halves.
    """
    if action.kind not in (Kind.I, Kind.W):
        raise ValueError(f"{action} cannot be merged; only an I and its W make a whole backward")
    first, rest = halves_of(action)
    rank, _ = place_of(schedule, first)
    place_of(schedule, rest)
    whole = action._replace(kind=Kind.B)
    return _with_row(schedule, rank, (whole if item == first else item for item in schedule.rows[rank] if item != rest))


def _with_row(schedule: Schedule, rank: int, row: Iterable[Action]) -> Schedule:
    return replace(schedule, rows=(*schedule.rows[:rank], tuple(row), *schedule.rows[rank + 1 :]))


@dataclass(frozen=True)
class Position:
    """What stands on the board, and per rank what is left to be placed: nothing, unless the board was emptied."""

    board: Schedule
    left: Schedule = field(default_factory=lambda: Schedule(()))

    @property
    def is_complete(self) -> bool:
        """Whether everything stands on the board."""
        return not any(self.left.rows)

    def whole(self) -> Schedule:
        """The board's rows, each with what is left behind it, in an order in which that can run."""
        if self.is_complete:
            return self.board
        rows = zip(self.board.rows, self.left.rows, strict=True)
        return replace(self.board, rows=tuple((*row, *sorted(left, key=_in_turn)) for row, left in rows))

    def emptied(self) -> "Position":
        """Nothing on the board, and everything left."""
        return Position(replace(self.board, rows=((),) * self.board.num_ranks), self.whole())

    def place(self, action: Action) -> "Position":
        """Put an action that is left at the end of its rank's row.

        Raises:
            ValueError: the action is not left.
        """
        rank, _ = place_of(self.left, action)
        left = (item for item in self.left.rows[rank] if item != action)
        board = _with_row(self.board, rank, (*self.board.rows[rank], action))
        return Position(board, _with_row(self.left, rank, left))

    def split_all(self) -> "Position":
        """Split every B; the schedule keeps its name."""
        return Position(replace(self.board, rows=split_backwards(self.board).rows), split_backwards(self.left))


def _in_turn(action: Action) -> tuple[int, int, int, bool]:
    """A key that sorts every action after those it needs: forwards up the stages, then backwards down them."""
    forward = action.kind is Kind.F
    return (0 if forward else 1, action.stage if forward else -action.stage, action.microbatch, action.kind is Kind.W)
