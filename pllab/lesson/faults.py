"""Eight faults, each placed by a seed: which rank, which step, which call; and the records that they leave.

Every step of the small training makes the same four calls on every rank, so a rank has a habit:

    data parallel     all_reduce(768)   all_gather(1)   all_reduce(2)     barrier
    pairs of ranks    send, receive     receive, send   all_reduce(768)   barrier

The first three of data parallel are started together and waited for afterwards. After the last step comes a broadcast.

`ward_training.py` runs a fault on real ranks. `rehearse` makes its records on a virtual clock in a millisecond: each
rank goes on as far as it can. A collective is finished when all ranks have come with the same call, a send when its
receive is there. A rank that cannot go on is stuck, as in a real world.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from pllab.arguments import require
from pllab.autopsy import CAUSES, Call, Caught, Record
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN

NUM_STEPS = 6
CALLS_PER_STEP = 4
_SLOW_S = 0.5  # what a straggler takes longer for each step
_PLACES = {SKIPPED: 4, SWAPPED: 2, SHAPE: 3}  # at how many calls of a step the fault may be
_OTHER_END = {"send": "receive", "receive": "send"}


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
    def drawn(cls, ward: str | None, seed: int) -> "Fault":
        """The fault of a ward under a seed; without a ward the seed draws that too. The first two steps are healthy.

        Raises:
            ValueError: there is no such ward.
        """
        if ward is None:
            ward = random.Random(f"clinic {seed}").choice(CAUSES)
        require(ward in CAUSES, f"there is no ward {ward!r}; choose one of {', '.join(CAUSES)}")
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


def rehearse(ward: str, seed: int) -> tuple[list[Record], Truth]:
    """The records of all ranks of a ward under a seed, and the truth.

    Example: `records, truth = rehearse("straggler", 3)`.

    Raises:
        ValueError: there is no such ward.
    """
    fault = Fault.drawn(ward, seed)
    draw = random.Random(seed)
    ranks = [_RankClock(fault, rank, draw) for rank in range(fault.world_size)]
    programs, before = [one.run(ranks) for one in ranks], list[float]()
    while before != (now := [one.now for one in ranks]):
        before = now
        for program in programs:
            next(program, None)
    return [one.record() for one in ranks], fault.truth


class _RankClock:
    """A rank on the virtual clock: how long it computes in each step, the calls it made, its time and its state."""

    def __init__(self, fault: Fault, rank: int, draw: random.Random) -> None:
        self.rank, self.now, self.state = rank, 0.0, "running"
        self.calls: list[Call] = []
        self.caught: tuple[Caught, ...] = ()
        self.stack: tuple[str, ...] = ("training.py:40 in train",)
        self._fault = fault
        # who leaves the loop early has a step less
        self._paces_s = [draw.uniform(0.004, 0.03) for step in range(NUM_STEPS) if not self._hits(UNEVEN, step)]

    def _hits(self, ward: str, step: int) -> bool:
        return self._fault.hits(ward, self.rank, step)

    def run(self, ranks: "list[_RankClock]") -> Iterator[None]:
        """The training with the fault in it; it stops wherever it has to wait for another rank."""
        for step, pace_s in enumerate(self._paces_s):
            if self._hits(SWALLOWED, step):
                self.caught = (Caught("ValueError: batch 17 has no label", "training.py:22 in load", len(self.calls)),)
                self.stack = ("queue.py:171 in get", "training.py:31 in train")
                return
            is_slow = self._fault.ward == STRAGGLER and self.rank == self._fault.rank and step >= self._fault.step
            self.now += pace_s + (_SLOW_S if is_slow else 0.0)
            calls = self._pair(step) if self._fault.ward == SENDS else self._step(step)
            # of data parallel's collectives nobody waits for one before all are started
            together = sum(call.is_collective and call.name != "barrier" for call in calls)
            for number, call in enumerate(calls, start=1):
                self._start(call)
                while number >= together and not self._waited(ranks):
                    yield
        self._start(Call(0, "broadcast", (768,), "float32", peer=0))
        while not self._waited(ranks):
            yield
        self.state, self.stack = "returned", ()

    def _step(self, step: int) -> list[Call]:
        """The calls of a step of data parallel."""
        at, sizes = self._fault.place, [768, 1, 2]
        has_nan = self._hits(NAN, step) or (self._fault.ward == NAN and step > self._fault.step)
        if self._hits(SHAPE, step):
            sizes[at] += 1
        calls = [
            Call(0, "all_reduce", (sizes[0],), "float32", has_nan=has_nan),
            Call(0, "all_gather", (sizes[1],), "float32", has_nan=has_nan),
            Call(0, "all_reduce", (sizes[2],), "float32"),
        ]
        if self._hits(SWAPPED, step):
            calls[at], calls[at + 1] = calls[at + 1], calls[at]
        calls.append(Call(0, "barrier"))
        if self._hits(SKIPPED, step):
            del calls[at]
        return calls

    def _pair(self, step: int) -> list[Call]:
        """The calls of a step of a pair."""
        calls = [Call(0, name, (8, 16), "float32", peer=self.rank ^ 1) for name in ("send", "receive")]
        if self.rank % 2 and not self._hits(SENDS, step):
            calls.reverse()
        return [*calls, Call(0, "all_reduce", (768,), "float32"), Call(0, "barrier")]

    def _start(self, call: Call) -> None:
        number, order = len(self.calls), sum(earlier.is_collective for earlier in self.calls)
        made = replace(call, number=number, order=order, started_s=self.now, where="training.py:38 in train")
        self.calls.append(made)
        self.now += 1e-4

    def _waited(self, ranks: "list[_RankClock]") -> bool:
        """Whether everything that it started is finished; note it."""
        for number, call in enumerate(self.calls):
            if not call.finished:
                others = [clock.partner(call, self.rank) for clock in ranks if clock.is_partner(call, self.rank)]
                if not all(others):
                    return False
                self.now = max(self.now, *(other.started_s for other in others if other)) + 1e-3
                self.calls[number] = replace(call, finished=True, finished_s=self.now)
        return True

    def is_partner(self, call: Call, rank: int) -> bool:
        """Whether a call of another rank needs one of this rank."""
        return self.rank != rank and (call.is_collective or self.rank == call.peer)

    def partner(self, call: Call, rank: int) -> Call | None:
        """The call that belongs to one of another rank; None if it is missing or is a different call."""
        same = call if call.is_collective else replace(call, name=_OTHER_END[call.name], peer=rank)
        return next((one for one in self.calls if (one.order, one.kind) == (call.order, same.kind)), None)

    def record(self) -> Record:
        """What it leaves."""
        size = self._fault.world_size
        return Record(self.rank, size, tuple(self.calls), self.state, caught=self.caught, stack=self.stack)
