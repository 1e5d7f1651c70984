"""The edits of the schedule editor: each takes a schedule and gives another one with the same work in it.

An edit never loses, doubles or renames an action, and never takes it off its rank. The new order may be illegal: a
learner may pass through an illegal order on the way to a better one. `pllab.schedule.problems` judges it.
"""

from collections.abc import Iterable
from dataclasses import replace

from pllab.schedule import Action, Kind, Schedule, problems, split_backwards


def place_of(schedule: Schedule, action: Action) -> tuple[int, int]:
    """The rank of an action and its place in that rank's row, from 0.

    Raises:
        ValueError: the schedule does not have the action.
    """
    for rank, row in enumerate(schedule.rows):
        if action in row:
            return rank, row.index(action)
    first = next(schedule.actions())
    raise ValueError(f"{action} is not in the schedule; name one of its actions, for example {first}")


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


def split(schedule: Schedule, action: Action) -> Schedule:
    """Replace a B by its I and W, side by side in its place: `0F0 0B0` gives `0F0 0I0 0W0`.

    Raises:
        ValueError: the action is not a B, or the schedule does not have it.
    """
    if action.kind is not Kind.B:
        raise ValueError(f"{action} cannot be split; only a B is a whole backward")
    rank, place = place_of(schedule, action)
    row = schedule.rows[rank]
    halves = (action._replace(kind=Kind.I), action._replace(kind=Kind.W))
    return _with_row(schedule, rank, (*row[:place], *halves, *row[place + 1 :]))


def merge(schedule: Schedule, action: Action) -> Schedule:
    """Replace an I and its W, wherever they are, by a B in the place of the I: `0I0 0F1 0W0` gives `0B0 0F1`.

    Raises:
        ValueError: the action is neither I nor W, or the schedule does not have both halves.
    """
    if action.kind not in (Kind.I, Kind.W):
        raise ValueError(f"{action} cannot be merged; only an I and its W make a whole backward")
    first, rest = action._replace(kind=Kind.I), action._replace(kind=Kind.W)
    rank, _ = place_of(schedule, first)
    place_of(schedule, rest)
    whole = action._replace(kind=Kind.B)
    return _with_row(schedule, rank, (whole if item == first else item for item in schedule.rows[rank] if item != rest))


def _with_row(schedule: Schedule, rank: int, row: Iterable[Action]) -> Schedule:
    return replace(schedule, rows=(*schedule.rows[:rank], tuple(row), *schedule.rows[rank + 1 :]))


def split_all(schedule: Schedule) -> Schedule:
    """Split every B; the schedule keeps its name."""
    return replace(schedule, rows=split_backwards(schedule).rows)


def merge_all(schedule: Schedule) -> Schedule:
    """Merge every I with its W."""
    for action in tuple(schedule.actions()):
        if action.kind is Kind.I:
            schedule = merge(schedule, action)
    return schedule


def first_gap(schedule: Schedule) -> str:
    """Why no order of these rows can be legal (an action is missing or there twice); empty if one can be.

    The actions are put in an order in which everything can run. No move can repair a problem that is still there.
    """
    rows = tuple(tuple(sorted(row, key=_in_turn)) for row in schedule.rows)
    remaining = problems(replace(schedule, rows=rows))
    return remaining[0].sentence if remaining else ""


def _in_turn(action: Action) -> tuple[int, int, int, bool]:
    """A key that sorts every action after those it needs: forwards up the stages, then backwards down them."""
    forward = action.kind is Kind.F
    return (0 if forward else 1, action.stage if forward else -action.stage, action.microbatch, action.kind is Kind.W)
