"""What work and messages cost: the only numbers that a walk, a search and a simulation take."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

from pllab.arguments import is_number
from pllab.schedule.model import Kind

PerStage = float | Iterable[float]
"""One number for all stages, or one per stage."""
_PER_STAGE = ("forward", "backward_input", "backward_weight", "backward")


@dataclass(frozen=True)
class Costs:
    """Seconds of work per stage, and of a message from one stage to the next.

    Example, two stages of which the second is slower, and messages of half a second:

        >>> costs = Costs(forward=(1.0, 2.0), p2p=0.5)
        >>> costs.duration(1, Kind.F), costs.duration(1, Kind.B)
        (2.0, 2.0)

    Assumptions: an action always takes the same time, whatever else runs; a rank does one action at a time and
    starts it without delay; a message leaves when its action ends, takes `p2p` seconds, occupies neither device and
    shares its wire with no other; within a rank it takes no time. Only a pair of `Schedule.overlaps` takes less than
    its two actions, if `overlap` says so.

    Numbers of numpy become Python's.

    Args:
        forward: seconds of F.
        backward_input: seconds of I, the gradient of the input.
        backward_weight: seconds of W, the gradient of the weights; B takes I and W together.
        p2p: seconds of a message between ranks.
        backward: seconds of a whole backward B; by default I and W together, though measured ones may differ.
        overlap: the part of the shorter action that an overlapped pair hides: with 0 it takes F + B, with 1 max(F, B).

    Raises:
        ValueError: a cost is negative or not a finite number, the overlap is above 1, or the values per stage have
            different lengths.
    """

    forward: PerStage = 1.0
    backward_input: PerStage = 1.0
    backward_weight: PerStage = 1.0
    p2p: float = 0.0
    backward: PerStage | None = None
    overlap: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _cost(field.name, getattr(self, field.name)))
        lengths = {name: len(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        if self.overlap > 1:
            raise ValueError(f"overlap is {self.overlap}; it is the part of an action that is hidden, from 0 to 1")
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"the costs are for different numbers of stages ({counts}); give one value per stage")

    @property
    def num_stages(self) -> int | None:
        """How many stages the costs are for; None when every cost is one number for all."""
        return next((len(value) for value in vars(self).values() if isinstance(value, tuple)), None)

    def check_stages(self, num_stages: int) -> None:
        """Refuse another number of stages than the costs have.

        Raises:
            ValueError: the numbers differ.
        """
        if self.num_stages not in (None, num_stages):
            problem = f"costs are given for {self.num_stages} stages but the schedule has {num_stages}"
            raise ValueError(f"{problem}; give one value per stage, or one number for all")

    def duration(self, stage: int, kind: Kind) -> float:
        """How long an action occupies its device, in seconds; B takes I and W together.

        Raises:
            KeyError or IndexError: there is no cost for this kind or stage.
        """
        if kind == Kind.B and self.backward is None:
            return self.duration(stage, Kind.I) + self.duration(stage, Kind.W)
        work = {"F": self.forward, "I": self.backward_input, "W": self.backward_weight, "B": self.backward}
        cost: Any = work[kind]
        duration: float = cost[stage] if isinstance(cost, tuple) else cost
        return duration


def _cost(name: str, value: Any) -> PerStage | None:
    """A cost with Python's numbers, which are written and compared the same everywhere."""
    if name == "backward" and value is None:
        return None
    if name not in _PER_STAGE or not isinstance(value, Iterable):
        return _number(name, value)
    return tuple(_number(f"{name} of stage {stage}", one) for stage, one in enumerate(value))


def _number(name: str, value: Any) -> float:
    if not is_number(value):
        raise ValueError(f"{name} is {value!r}; give a number, an int or a float")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}; give a finite number of at least 0")
    return int(value) if isinstance(value, Integral) else float(value)
