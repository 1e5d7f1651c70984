"""One stage, one kind, many micro-batches: the pieces that generators put together."""

from collections.abc import Iterable
from itertools import repeat

from pllab.schedule.action import Action, Kind


def series(stage: int, kind: Kind, microbatches: Iterable[int]) -> list[Action]:
    """The same work on one micro-batch after the other: `2F0 2F1 2F2` for stage 2, F and `range(3)`.

    A loop over `Action(...)` gives the same and takes twice as long, which shows in schedules of 100,000 actions.
    """
    return list(map(Action._make, zip(repeat(stage), repeat(kind), microbatches, strict=False)))
