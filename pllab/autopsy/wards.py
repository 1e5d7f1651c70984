"""Eight faults, each placed by a seed: which rank, which step, which call. The truth that a diagnosis is held against.

Every step of the small training makes the same four calls on every rank, so a rank has a habit:

    data parallel     all_reduce(768)   all_gather(1)   all_reduce(2)     barrier
    pairs of ranks    send, receive     receive, send   all_reduce(768)   barrier

The first three of data parallel are started together and waited for afterwards. After the last step comes a broadcast.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

SKIPPED = "skipped collective"
SWAPPED = "swapped collectives"
SHAPE = "wrong shape"
UNEVEN = "uneven batches"
STRAGGLER = "straggler"
NAN = "NaN on one rank"
SWALLOWED = "swallowed exception"
SENDS = "send-send deadlock"
WARDS = (SKIPPED, SWAPPED, SHAPE, UNEVEN, STRAGGLER, NAN, SWALLOWED, SENDS)
"""The eight wards; each is named as its cause."""

NUM_STEPS = 6
CALLS_PER_STEP = 4
_PLACES = {SKIPPED: 4, SWAPPED: 2, SHAPE: 3}  # at how many calls of a step the fault may be


class Truth(NamedTuple):
    """What a diagnosis names: the rank, the number of its call, and the cause."""

    rank: int
    call: int
    cause: str


@dataclass(frozen=True)
class Fault:
    """A fault and where it is: the step and the place in it of the call; a straggler is slow from its step on."""

    ward: str
    world_size: int
    rank: int
    step: int
    place: int = 0

    @classmethod
    def drawn(cls, ward: str, seed: int) -> "Fault":
        """The fault of a ward under a seed; the first two steps are always healthy.

        Raises:
            ValueError: there is no such ward.
        """
        if ward not in WARDS:
            raise ValueError(f"there is no ward {ward!r}; choose one of {', '.join(WARDS)}")
        draw = random.Random(f"{ward} {seed}")
        size = draw.choice((2, 4) if ward == SENDS else (3, 4))
        rank = draw.randrange(1, size, 2) if ward == SENDS else draw.randrange(size)
        # After the last barrier comes the broadcast: who skips that barrier looks like one who has left the loop.
        last = {SKIPPED: NUM_STEPS - 1, STRAGGLER: NUM_STEPS - 2}.get(ward, NUM_STEPS)
        step = NUM_STEPS - 1 if ward == UNEVEN else draw.randrange(2, last)
        return cls(ward, size, rank, step, draw.randrange(_PLACES.get(ward, 1)))

    def hits(self, ward: str, rank: int, step: int) -> bool:
        """Whether this ward's fault is on this rank in this step."""
        return (self.ward, self.rank, self.step) == (ward, rank, step)

    @property
    def truth(self) -> Truth:
        """What the right diagnosis names."""
        return Truth(self.rank, self.step * CALLS_PER_STEP + self.place, self.ward)
