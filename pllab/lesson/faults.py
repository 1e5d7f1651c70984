"""Eight faults, each placed by a seed: which rank, which step, which call; and the records that they leave.

Every step of the small training makes the same four calls on every rank, so a rank has a habit:

    data parallel     all_reduce(768)   all_gather(1)   all_reduce(2)     barrier
    pairs of ranks    send, receive     receive, send   all_reduce(768)   barrier

The first three of data parallel are started together and waited for afterwards. After the last step comes a broadcast.

`ward_training.py` runs a fault on real ranks. `rehearse` makes its records on a virtual clock in a millisecond: each
rank is a list of acts, and goes on as far as it can. A collective is finished when all ranks have come with the same
call, a send when its receive is there. A rank that cannot go on is stuck, as in a real world.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pllab.arguments import require
from pllab.autopsy import CAUSES, Call, Caught, Record
from pllab.autopsy.diagnosis import NAN, SENDS, SHAPE, SKIPPED, STRAGGLER, SWALLOWED, SWAPPED, UNEVEN

NUM_STEPS = 6
CALLS_PER_STEP = 4
_SLOW_S = 0.5  # what a straggler takes longer for each step
_PLACES = {SKIPPED: 4, SWAPPED: 2, SHAPE: 3}  # at how many calls of a step the fault may be
_STUCK_IN = {SWALLOWED: ("queue.py:171 in get", "training.py:31 in train"), "": ("training.py:40 in train",)}


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


class Act(NamedTuple):
    """One act of a rank: to compute for some seconds, to start a call, to wait for all it started, or to be lost."""

    verb: str
    name: str = ""
    shape: tuple[int, ...] = ()
    peer: int | None = None
    seconds: float = 0.0
    has_nan: bool = False


WAIT = Act("wait")


def rehearse(ward: str, seed: int) -> tuple[list[Record], Truth]:
    """The records of all ranks of a ward under a seed, and the truth.

    Example: `records, truth = rehearse("straggler", 3)`.

    Raises:
        ValueError: there is no such ward.
    """
    fault = Fault.drawn(ward, seed)
    draw = random.Random(seed)
    programs = [list(_program(fault, rank, draw)) for rank in range(fault.world_size)]
    return [_record(fault, clock) for clock in _run(programs)], fault.truth


def _program(fault: Fault, rank: int, draw: random.Random) -> Iterator[Act]:
    """The acts of one rank with the fault in them."""
    spoiled = False
    for step in range(NUM_STEPS):
        if fault.hits(UNEVEN, rank, step):
            break
        if fault.hits(SWALLOWED, rank, step):
            yield Act("lost")
        slow = fault.ward == STRAGGLER and rank == fault.rank and step >= fault.step
        yield Act("compute", seconds=draw.uniform(0.004, 0.03) + (_SLOW_S if slow else 0.0))
        if fault.ward == SENDS:
            yield from _pair(fault, rank, step)
            continue
        spoiled = spoiled or fault.hits(NAN, rank, step)
        everywhere = fault.ward == NAN and step > fault.step
        yield from _step(fault, rank, step, spoiled or everywhere)
    yield Act("start", "broadcast", (768,), peer=0)
    yield WAIT


def _step(fault: Fault, rank: int, step: int, has_nan: bool) -> Iterator[Act]:
    acts = [
        Act("start", "all_reduce", (768,), has_nan=has_nan),
        Act("start", "all_gather", (1,), has_nan=has_nan),
        Act("start", "all_reduce", (2,)),
        Act("start", "barrier"),
    ]
    at = fault.place
    if fault.hits(SHAPE, rank, step):
        acts[at] = acts[at]._replace(shape=(acts[at].shape[0] + 1,))
    if fault.hits(SWAPPED, rank, step):
        acts[at], acts[at + 1] = acts[at + 1], acts[at]
    acts.insert(3, WAIT)
    if fault.hits(SKIPPED, rank, step):
        del acts[at if at < 3 else 4]
    yield from acts
    yield WAIT


def _pair(fault: Fault, rank: int, step: int) -> Iterator[Act]:
    acts = [Act("start", "send", (8, 16), peer=rank ^ 1), Act("start", "receive", (8, 16), peer=rank ^ 1)]
    if rank % 2 and not fault.hits(SENDS, rank, step):
        acts.reverse()
    for act in [*acts, Act("start", "all_reduce", (768,)), Act("start", "barrier")]:
        yield act
        yield WAIT


class _RankClock:
    """A rank on the virtual clock: its acts, the calls it made and its current time."""

    def __init__(self, rank: int, acts: Sequence[Act]) -> None:
        self.rank, self.acts, self.now, self.at, self.lost = rank, acts, 0.0, 0, False
        self.calls: list[Call] = []

    def go_on(self, clocks: "list[_RankClock]") -> bool:
        """Run one act if it can run now."""
        if self.lost or self.at == len(self.acts):
            return False
        act = self.acts[self.at]
        if act.verb == "wait" and not self._waited(clocks):
            return False
        self.lost = act.verb == "lost"
        self.now += act.seconds
        if act.verb == "start":
            self._start(act)
        self.at += 1
        return True

    def _start(self, act: Act) -> None:
        order = sum(call.is_collective for call in self.calls)
        dtype = "float32" if act.shape else ""
        call = Call(len(self.calls), act.name, act.shape, dtype, act.peer, started_s=self.now, order=order)
        self.calls.append(replace(call, has_nan=act.has_nan, where="training.py:38 in train"))
        self.now += 1e-4

    def _waited(self, clocks: "list[_RankClock]") -> bool:
        """Whether everything that it started is finished; note it."""
        for number, call in enumerate(self.calls):
            if not call.finished:
                others = [_other_end(call, self.rank, clock) for clock in _partners(call, self.rank, clocks)]
                if not all(others):
                    return False
                self.now = max(self.now, *(other.started_s for other in others if other)) + 1e-3
                self.calls[number] = replace(call, finished=True, finished_s=self.now)
        return True


def _partners(call: Call, rank: int, clocks: list[_RankClock]) -> list[_RankClock]:
    return [clock for clock in clocks if clock.rank != rank and (call.is_collective or clock.rank == call.peer)]


def _other_end(call: Call, rank: int, clock: _RankClock) -> Call | None:
    """The call of another rank that belongs to this one; None if it is missing or is a different call."""
    if call.is_collective:
        same = [one for one in clock.calls if one.is_collective and one.order == call.order]
        return same[0] if same and same[0].kind == call.kind else None
    name = "receive" if call.name == "send" else "send"
    ends = [one for one in clock.calls if (one.name, one.peer) == (name, rank)]
    # Messages between two ranks keep their order, and a rank has waited for all earlier ones of its own.
    return next((one for one in ends if not one.finished or one.number // 4 == call.number // 4), None)


def _run(programs: Sequence[Sequence[Act]]) -> list[_RankClock]:
    clocks = [_RankClock(rank, acts) for rank, acts in enumerate(programs)]
    while any([clock.go_on(clocks) for clock in clocks]):
        pass
    return clocks


def _record(fault: Fault, clock: _RankClock) -> Record:
    ended = clock.at == len(clock.acts)
    caught = (Caught("ValueError: batch 17 has no label", "training.py:22 in load", len(clock.calls)),)
    stack = () if ended else _STUCK_IN[SWALLOWED if clock.lost else ""]
    return Record(
        rank=clock.rank,
        world_size=fault.world_size,
        calls=tuple(clock.calls),
        state="returned" if ended else "running",
        caught=caught if clock.lost else (),
        stack=stack,
    )
