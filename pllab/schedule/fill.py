"""Places the weight gradients in an order of forwards and input gradients: wherever a rank would otherwise wait.

Nothing waits for a weight gradient, so it fits into any hole; but until it has run, part of the activations is held.
The V-shaped schedules say in which order F and I go, and this says where the W's go.
"""

from collections import deque
from dataclasses import dataclass, field

from pllab.schedule.action import Action, Kind
from pllab.schedule.schedule import Schedule

_NEVER = 1 << 60


def fill(order: list[list[Action]], memory_limit: int, name: str) -> Schedule:
    """The rows of F and I in their given order, with a W after every I, while F, I and W take one unit each.

    In each unit a rank runs the next action of its order; if that has to wait, or is a forward for which the memory
    is full (F counts 1, I and W free a half each), it runs its oldest weight gradient, if it has one.

    The order is one that can run, and a rank's F's without their I's stay within the limit.

    Source: Qi et al., Pipeline Parallelism with Controllable Memory (2024), squeezing.
    """
    ends = _Ends(order)
    ranks = [_Rank(row, 2 * memory_limit) for row in order]
    unit = 0
    while any([rank.step(unit, ends) for rank in ranks]):  # a list, because every rank takes its step
        unit += 1
    assert all(rank.is_over() for rank in ranks), "the order of F and I cannot run within the memory limit"
    return Schedule(tuple(tuple(rank.row) for rank in ranks), name)


class _Ends:
    """Until when F and I of every stage and micro-batch ran, `[stage][microbatch]`."""

    def __init__(self, order: list[list[Action]]) -> None:
        num_microbatches = 1 + max(action.microbatch for row in order for action in row)
        self.last_stage = max(action.stage for row in order for action in row)
        stages = range(self.last_stage + 1)
        self.forward, self.backward = ([[_NEVER] * num_microbatches for _ in stages] for _ in range(2))

    def note(self, action: Action, unit: int) -> None:
        ends = self.forward if action.kind is Kind.F else self.backward
        ends[action.stage][action.microbatch] = unit

    def before(self, action: Action) -> int:
        """When the one thing had ended that an action waits for; its own forward needs no look, except on the last."""
        stage, kind, microbatch = action
        if kind is Kind.F:
            return self.forward[stage - 1][microbatch] if stage else 0
        if stage == self.last_stage:
            return self.forward[stage][microbatch]
        return self.backward[stage + 1][microbatch]


@dataclass
class _Rank:
    """One rank: its order and how far it is, the W's it owes, and its free memory in halves of a micro-batch."""

    order: list[Action]
    free: int
    head: int = 0
    row: list[Action] = field(default_factory=list)
    owed: deque[Action] = field(default_factory=deque)

    def step(self, unit: int, ends: _Ends) -> bool:
        """Run one action in this unit; False when nothing is left or nothing can run."""
        action = self.order[self.head] if self.head < len(self.order) else None
        if action and ends.before(action) <= unit and (action.kind is Kind.I or self.free >= 2):
            self._take(action)
            ends.note(action, unit + 1)
        elif self.owed:
            self.row.append(self.owed.popleft())
            self.free += 1
        else:
            return False
        return True

    def is_over(self) -> bool:
        """Whether all of the order has run and no weight gradient is owed."""
        return self.head == len(self.order) and not self.owed

    def _take(self, action: Action) -> None:
        self.head += 1
        self.row.append(action)
        if action.kind is Kind.F:
            self.free -= 2
        else:
            self.free += 1
            self.owed.append(action._replace(kind=Kind.W))
