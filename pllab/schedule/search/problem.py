"""The input of a search: the costs of every stage, the memory of a rank, and lower bounds for every order.

One stage per rank, every backward split. A search needs the same few costs again and again, so they are read once.
Rows are letters, `FFIWIW`: the micro-batches of each kind go in order, so no numbers are needed.
"""

from functools import lru_cache
from itertools import accumulate, count

from pllab.arguments import is_number, require
from pllab.memory import Held, is_over
from pllab.schedule.costs import Costs
from pllab.schedule.model import Action, Kind, Schedule, check_sizes

_ROUNDING = 1e-9  # as in the memory check of `check`
_CHANGES = Held().changes
_WEIGHT_SHARE = -_CHANGES["W"]  # of a micro-batch's memory, which W frees
_KINDS = {kind.value: kind for kind in (Kind.F, Kind.I, Kind.W)}
Rows = tuple[str, ...]


class SearchProblem:
    """Per stage the seconds of F, I and W, and the memory of a rank.

    Example: with `Costs()` and four stages, `forward` is `(1, 1, 1, 1)`.

    Raises:
        ValueError: a size or the memory limit is below 1, or the costs are for another number of stages.
    """

    def __init__(self, num_stages: int, num_microbatches: int, costs: Costs, memory_limit: float) -> None:
        self.num_stages, self.num_microbatches = check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
        costs.check_stages(self.num_stages)
        is_enough = is_number(memory_limit) and memory_limit >= 1
        require(is_enough, f"memory_limit is {memory_limit}; one micro-batch counts 1, so give every rank at least 1")
        self.costs, self.limit = costs, float(memory_limit)
        # The most forwards that a rank may run ahead of their backwards.
        self.most_in_flight = int(min(self.num_microbatches, self.limit + _ROUNDING))
        self.forward, self.backward, self.weight = (
            tuple(costs.duration(stage, kind) for stage in range(self.num_stages)) for kind in _KINDS.values()
        )

    def fits(self, in_flight: int, pending: int) -> bool:
        """Whether `in_flight` micro-batches before their I and `pending` ones between I and W fit in memory."""
        return not is_over(in_flight + _WEIGHT_SHARE * pending, self.limit)

    def holds(self, row: str) -> bool:
        """Whether a row fits in memory."""
        return not is_over(max(accumulate(map(_CHANGES.__getitem__, row))), self.limit)

    def away(self, stage: int) -> float:
        """Seconds from the end of a forward on `stage` to the earliest start of its backward there."""
        above = range(stage + 1, self.num_stages)
        return sum(self.forward[s] + self.backward[s] + 2 * self.costs.p2p for s in above)

    def schedule(self, rows: Rows, name: str) -> Schedule:
        """A row of letters per rank as a schedule."""
        return Schedule(tuple(_numbered(stage, row) for stage, row in enumerate(rows)), name)

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
        return sum(self.forward[:stage]) + stage * self.costs.p2p

    def _chain(self, stage: int) -> float:
        work = self.num_microbatches * (self.forward[stage] + self.backward[stage])
        down = sum(self.backward[:stage]) + stage * self.costs.p2p
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


@lru_cache(maxsize=1 << 8)  # of an order, a move changes one row
def _numbered(stage: int, row: str) -> tuple[Action, ...]:
    numbers = {kind: count() for kind in _KINDS}
    return tuple(Action(stage, _KINDS[kind], next(numbers[kind])) for kind in row)
