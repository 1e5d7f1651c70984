"""Which action waits for which, and the walk of a schedule in that order.

    0F0 --> 1F0 --> 2F0          forward: activations go up the stages
     |       |       |           each backward also needs the activations of its own forward
    0B0 <-- 1B0 <-- 2B0          backward: gradients come down

When a backward is split, I takes B's place in this picture and W needs only the I of its own stage.
"""

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from pllab.schedule.costs import Costs
from pllab.schedule.model import Action, Kind, Schedule, collector_paused


def needs(action: Action, num_stages: int, present: Container[Action]) -> Iterator[Action]:
    """The actions whose results `action` takes; `present` says whether the next stage splits its backward.

    Example: with three stages, `1B0` needs `1F0`, and `2B0` (or `2I0` where that is what is present).
    """
    stage, kind, microbatch = action
    if kind is Kind.F:
        if stage > 0:
            yield Action(stage - 1, Kind.F, microbatch)
    elif kind is Kind.W:
        yield Action(stage, Kind.I, microbatch)
    else:
        yield Action(stage, Kind.F, microbatch)
        if stage + 1 < num_stages:
            split = Action(stage + 1, Kind.I, microbatch)
            yield split if split in present else Action(stage + 1, Kind.B, microbatch)


def pair_shares(schedule: Schedule, costs: Costs) -> dict[Action, float]:
    """The part of its usual time that each action of an overlapped pair takes; other actions are not in it.

    Example: `{0F1: 0.8, 3B0: 0.8}` where a pair takes four fifths of its two actions. The two are kept one after the
    other, each shortened by the same factor, so that a rank still does one action at a time. On a device they run at
    once, and both results leave at the end of the pair.
    """
    shares: dict[Action, float] = {}
    for pair in schedule.pairs():
        seconds = [costs.duration(action.stage, action.kind) for action in pair]
        share = 1 - costs.overlap * min(seconds) / sum(seconds) if any(seconds) else 1.0
        shares |= dict.fromkeys(pair, share)
    return shares


_FREE = Costs(0.0, 0.0, 0.0)


class Walk:
    """Run every rank as far as it can go, each action as early as it can start; `starts` and `ends` are the times.

    Example: `Walk(one_f_one_b(2, 2), Costs()).starts[0]` is `[0.0, 1.0, 4.0, 7.0]`, for the row F0 F1 B0 B1. Without
    costs nothing takes time, and the walk only says how far each rank gets.

    With `S` stages, a micro-batch goes through these steps, which are numbered in one row:

        step    0    1    2  |  3    4    5  |  6    7    8        F of stage s is step s,
        does   0F   1F   2F  | 2B   1B   0B  | 0W   1W   2W        B (or I) is step 2 S - 1 - s, W is step 2 S + s

    A step takes the micro-batch out of its inbox, and puts it into the inbox of the next step with the time of its
    arrival; I also puts one into the inbox of its W. There is nothing else to wait for: when a gradient arrives, the
    stage's own forward has run. Every stage must have one rank, and every action must be an F, B, I or W.
    """

    def __init__(self, schedule: Schedule, costs: Costs = _FREE) -> None:
        first = schedule.num_microbatches
        self._rows = schedule.rows
        homes = tuple(schedule.rank_of_stage[stage] for stage in range(schedule.num_stages))
        self._steps = _steps(homes, first, costs)
        self._shares = pair_shares(schedule, costs)
        self._end = 3 * schedule.num_stages * first  # micro-batches in inboxes from here on have passed all steps
        # By number, the time of arrival; None if the inbox is empty.
        self._inbox: list[float | None] = [None] * (self._end + (schedule.num_stages + 1) * first)
        self._inbox[:first] = [0.0] * first
        self._ready: list[Iterator[int]] = []
        self._waiting: dict[int, Iterator[int]] = {}
        self.starts: tuple[list[float], ...] = tuple([] for _ in schedule.rows)
        self.ends: tuple[list[float], ...] = tuple([] for _ in schedule.rows)
        with collector_paused():
            self._run()

    def is_over(self) -> bool:
        """Whether every rank has run its row and every micro-batch has passed all steps."""
        is_through = list(map(len, self.ends)) == list(map(len, self._rows))
        return is_through and self._inbox[: self._end].count(None) == self._end

    def _run(self) -> None:
        self._ready += map(self._work, range(len(self._rows)))
        while self._ready:
            rank = self._ready.pop()
            empty = next(rank, None)
            if empty is not None:
                self._waiting[empty] = rank

    def _work(self, rank: int) -> Iterator[int]:
        """Run the row of one rank and note the times; yield the number of an empty inbox to wait for it."""
        steps, inbox, waiting, is_half = self._steps, self._inbox, self._waiting, Kind.I
        shares = self._shares
        starts, ends = self.starts[rank], self.ends[rank]
        now = 0.0
        for stage, kind, microbatch in self._rows[rank]:
            take, leave, seconds, travel = steps[kind][stage]
            number = take + microbatch
            if (arrived := inbox[number]) is None:
                yield number
                arrived = inbox[number]
                assert arrived is not None
            inbox[number] = None
            if arrived > now:
                now = arrived
            starts.append(now)
            if shares:
                seconds *= shares.get(Action(stage, kind, microbatch), 1.0)
            now += seconds
            ends.append(now)
            number = leave + microbatch
            inbox[number] = now + travel
            if kind is is_half:
                inbox[steps[Kind.W][stage].take + microbatch] = now
            if number in waiting:
                self._ready.append(waiting.pop(number))


class _KindStep(NamedTuple):
    """One kind of action on one stage; the number of an inbox is that of its step times `m`, plus the micro-batch."""

    take: int
    leave: int
    seconds: float
    travel: float


@lru_cache(maxsize=16)  # a search walks thousands of orders of one pipeline
def _steps(homes: tuple[int, ...], m: int, costs: Costs) -> Mapping[Kind, list[_KindStep]]:
    """For each kind, the steps of all stages: both inboxes, and the seconds of the work and of the message."""
    stages = range(len(homes))
    turn, end = 2 * len(stages), 3 * len(stages)

    def step(kind: Kind, stage: int, take: int, leave: int, towards: int) -> _KindStep:
        away = towards in stages and homes[towards] != homes[stage]
        return _KindStep(take * m, leave * m, costs.duration(stage, kind), costs.p2p if away else 0.0)

    def back(kind: Kind, stage: int) -> _KindStep:
        return step(kind, stage, turn - 1 - stage, turn - stage if stage else end, stage - 1)

    return {
        Kind.F: [step(Kind.F, stage, stage, stage + 1, stage + 1) for stage in stages],
        Kind.B: [back(Kind.B, stage) for stage in stages],
        Kind.I: [back(Kind.I, stage) for stage in stages],
        Kind.W: [step(Kind.W, stage, turn + stage, end + 1 + stage, stage) for stage in stages],
    }
