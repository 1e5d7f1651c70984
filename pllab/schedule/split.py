"""The same order with its backwards split: what any schedule becomes when I and W are actions of their own."""

from pllab.schedule.action import Action, Kind
from pllab.schedule.schedule import Schedule


def split_backwards(schedule: Schedule) -> Schedule:
    """Put I and W, in this order, where a B was: `0F0 0B0` becomes `0F0 0I0 0W0`.

    Legal where the schedule is; nothing is gained until a W is moved into a gap (lesson 11).
    """
    rows = ([part for action in row for part in _halves(action)] for row in schedule.rows)
    return Schedule.of(rows, f"{schedule.name}, split")


def _halves(action: Action) -> tuple[Action, ...]:
    return tuple(action._replace(kind=kind) for kind in (Kind.I, Kind.W)) if action.kind is Kind.B else (action,)
