"""The input of a search: the costs of every stage, the memory of a rank, and lower bounds for every order.

One stage per rank, every backward split. A search needs the same few costs again and again, so they are read once.
Rows are letters, `FFIWIW`: the micro-batches of each kind go in order, so no numbers are needed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from pllab.arguments import is_number, require
from pllab.memory import Held
from pllab.schedule.costs import Costs
from pllab.schedule.model import Action, Kind, Schedule, check_sizes, series

_ROUNDING = 1e-9  # as in the memory check of `check`
_WEIGHT_SHARE = 1.0 - Held().input_share  # of a micro-batch's memory, which W frees
Rows = tuple[str, ...]


@dataclass(frozen=True)
class SearchProblem:
    """Per stage the seconds of F, I and W, the seconds of a message, and the memory of a rank.

    Example: with `Costs()` and four stages, `forward` is `(1, 1, 1, 1)` and `message` is 0.
    """

    num_stages: int
    num_microbatches: int
    costs: Costs
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    weight: tuple[float, ...]
    message: float
    limit: float

    @classmethod
    def of(cls, num_stages: int, num_microbatches: int, costs: Costs, memory_limit: float) -> Self:
        """Read the costs once.

        Raises:
            ValueError: a size or the memory limit is below 1, or the costs are for another number of stages.
        """
        p, m = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
        costs.check_stages(p)
        is_enough = is_number(memory_limit) and memory_limit >= 1
        require(is_enough, f"memory_limit is {memory_limit}; one micro-batch counts 1, so give every rank at least 1")
        forward, backward, weight = (
            tuple(costs.duration(stage, kind) for stage in range(p)) for kind in (Kind.F, Kind.I, Kind.W)
        )
        return cls(p, m, costs, forward, backward, weight, costs.p2p, float(memory_limit))

    @property
    def most_in_flight(self) -> int:
        """The most forwards a rank may run ahead of their backwards."""
        return int(min(self.num_microbatches, self.limit + _ROUNDING))

    def fits(self, in_flight: int, pending: int) -> bool:
        """Whether `in_flight` micro-batches before their I and `pending` ones between I and W fit in memory."""
        return in_flight + _WEIGHT_SHARE * pending <= self.limit + _ROUNDING

    def is_order(self, row: str) -> bool:
        """Whether every I of a row comes after its F, every W after its I, and every F fits in memory."""
        in_flight = pending = 0
        for kind in row:
            in_flight += {"F": 1, "I": -1, "W": 0}[kind]
            pending += {"F": 0, "I": 1, "W": -1}[kind]
            if in_flight < 0 or pending < 0 or (kind == "F" and not self.fits(in_flight, pending)):
                return False
        return True

    def away(self, stage: int) -> float:
        """Seconds from the end of a forward on `stage` to the earliest start of its backward there."""
        above = range(stage + 1, self.num_stages)
        return sum(self.forward[s] + self.backward[s] + 2 * self.message for s in above)

    def schedule(self, rows: Rows, name: str) -> Schedule:
        """A row of letters per rank as a schedule."""
        return Schedule(tuple(self._numbered(stage, row) for stage, row in enumerate(rows)), name)

    def _numbered(self, stage: int, row: str) -> tuple[Action, ...]:
        following = {letter: iter(actions) for letter, actions in self._actions[stage].items()}
        return tuple(next(following[letter]) for letter in row)

    @cached_property
    def _actions(self) -> list[dict[str, list[Action]]]:
        kinds, numbers = (Kind.F, Kind.I, Kind.W), range(self.num_microbatches)
        return [{kind.value: series(stage, kind, numbers) for kind in kinds} for stage in range(self.num_stages)]

    # The floors are lower bounds: a search stops at them, and an order that reaches one is proven.

    def floor_of_longest(self) -> float:
        """A lower bound for the longest time of a rank from its own first start to its last end.

        The largest of three, over all stages:

            waits   work of the stage, plus the gap before its first I, plus the gap before its last I
            memory  every micro-batch is held while it is away, and only a limited number are held at once
            chain   first F up to the stage, all its F and I, last I down to stage 0 and the W there

        With equal costs and the memory of 1F1B, ZB-H1 reaches the first, so no schedule is shorter.
        """
        return max(max(self._rank_floor(s), self._chain(s)) for s in range(self.num_stages))

    def floor_of_makespan(self) -> float:
        """A lower bound for the makespan: a rank starts when the first F has reached it."""
        return max(max(self._head(s) + self._rank_floor(s), self._chain(s)) for s in range(self.num_stages))

    def _head(self, stage: int) -> float:
        return sum(self.forward[:stage]) + stage * self.message

    def _chain(self, stage: int) -> float:
        work = self.num_microbatches * (self.forward[stage] + self.backward[stage])
        down = sum(self.backward[:stage]) + stage * self.message
        return self._head(stage) + work + down + self.weight[0]

    def _rank_floor(self, stage: int) -> float:
        """The stage's work and the waits that nothing can fill; both waits count if the last F is after the first I."""
        m = self.num_microbatches
        f, i, w = self.forward[stage], self.backward[stage], self.weight[stage]
        first = max(0.0, self.away(stage) - (self.most_in_flight - 1) * f)
        last = max(0.0, self.away(stage) - self._most_left(stage))
        waits = first + last if m > self.most_in_flight else max(first, last)
        held_for = f + self.away(stage) + i + _WEIGHT_SHARE * w
        return max(m * (f + i + w) + waits, m * held_for / self.limit)

    def _most_left(self, stage: int) -> float:
        """The most seconds of I and W that a rank can still have to do when its last F starts, within its memory."""

        def remaining(in_flight: int) -> float:
            room = self.num_microbatches - 1 - in_flight
            pending = next(n for n in range(room, -1, -1) if n == 0 or self.fits(in_flight + 1, n))
            return in_flight * (self.backward[stage] + self.weight[stage]) + pending * self.weight[stage]

        return max(remaining(in_flight) for in_flight in range(self.most_in_flight))
