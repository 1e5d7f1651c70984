"""What a split-backward schedule has to fit: the costs of every stage as plain numbers, and the memory of a rank.

Building a schedule asks for the same few costs millions of times, so they are read once, checked, and kept in tuples.
"""

import math
from dataclasses import dataclass
from typing import Self

from pllab.schedule.action import Action, Kind
from pllab.schedule.costs_like import CostsLike
from pllab.schedule.memory import Held
from pllab.schedule.schedule import Schedule
from pllab.schedule.sizes import check_sizes

_ROUNDING = 1e-9  # the memory sums of `check` are allowed the same


@dataclass(frozen=True)
class Workload:
    """One stage per rank: per stage the seconds of F, I and W and of its messages up and down, and the memory.

    Example: with `Costs()` and four stages, `forward` is `(1, 1, 1, 1)` and `up` is `(0, 0, 0)`.
    """

    num_stages: int
    num_microbatches: int
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    weight: tuple[float, ...]
    up: tuple[float, ...]  # from stage s to s + 1
    down: tuple[float, ...]  # from stage s + 1 to s
    limit: float
    kept: float  # what W frees: 1 minus the share of I

    @classmethod
    def of(
        cls, num_stages: int, num_microbatches: int, costs: CostsLike, memory_limit: float, held: Held | None = None
    ) -> Self:
        """Read the costs once.

        Raises:
            ValueError: a size below 1, a memory limit in which not even one micro-batch fits, a cost below zero, or
                costs for another number of stages.
        """
        check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
        costs.check_stages(num_stages)
        if memory_limit is None or not memory_limit >= 1:
            sentence = f"memory_limit is {memory_limit}; one micro-batch counts 1, so give every rank at least 1"
            raise ValueError(sentence)
        stages, links = range(num_stages), range(num_stages - 1)
        forward, backward, weight = (
            tuple(_checked(costs.duration(s, kind), f"the {kind} of stage {s}") for s in stages)
            for kind in (Kind.F, Kind.I, Kind.W)
        )
        up = tuple(_checked(costs.message(s, s + 1), f"the message from stage {s} to {s + 1}") for s in links)
        down = tuple(_checked(costs.message(s + 1, s), f"the message from stage {s + 1} to {s}") for s in links)
        kept = 1.0 - (held or Held()).input_share
        return cls(num_stages, num_microbatches, forward, backward, weight, up, down, float(memory_limit), kept)

    def fits(self, in_flight: int, pending: int) -> bool:
        """Whether a rank may hold that many micro-batches before their I and that many between I and W."""
        return in_flight + self.kept * pending <= self.limit + _ROUNDING

    @property
    def most_in_flight(self) -> int:
        """The most forwards a rank may run ahead of their backwards."""
        return int(min(self.num_microbatches, self.limit + _ROUNDING))

    def costs(self, stage: int) -> dict[str, float]:
        """Seconds of each kind of action on one stage."""
        return {"F": self.forward[stage], "I": self.backward[stage], "W": self.weight[stage]}

    def away(self, stage: int) -> float:
        """Seconds from the end of a forward on `stage` to the earliest start of its backward there."""
        above = range(stage + 1, self.num_stages)
        return sum(self.forward[s] + self.backward[s] + self.up[s - 1] + self.down[s - 1] for s in above)

    @property
    def everything(self) -> float:
        """Seconds of all work and all messages one after the other; every order is shorter."""
        parts = (self.forward, self.backward, self.weight, self.up, self.down)
        return self.num_microbatches * sum(map(sum, parts))

    def schedule(self, rows: tuple[str, ...], name: str) -> Schedule:
        """A row of letters per rank, such as `FFIWIW`, as a schedule: micro-batches go in order of each kind."""
        return Schedule(tuple(_numbered(stage, row) for stage, row in enumerate(rows)), name)


def _numbered(stage: int, row: str) -> tuple[Action, ...]:
    counts = dict.fromkeys("FIW", 0)
    actions = []
    for letter in row:
        actions.append(Action(stage, Kind(letter), counts[letter]))
        counts[letter] += 1
    return tuple(actions)


def _checked(seconds: float, what: str) -> float:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{what} costs {seconds}; a cost is a finite number from 0")
    return float(seconds)
