"""The clock that zero_bubble tries its ideas on: play a policy to get an order, or replay an order to get its times.

A schedule is built by playing it: whenever a rank is free it picks its next action by a few rules, the policy. The
picks of all ranks together are the rows. Rows are letters here, `FFIWIW`, because each kind goes in order of
micro-batches; that makes one play cheap enough to try hundreds.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from pllab.schedule.zero_bubble_workload import Workload

_NEVER = float("inf")


@dataclass(frozen=True)
class Policy:
    """The rules by which a free rank picks its next action.

    ahead: per stage, the most forwards in flight, at least 1 (1F1B has `p - s`, ZB-H2 `2(p - s) - 1`)
    deferred: per stage, the most weight gradients put off before one is due at once
    forward_first: of a ready F and a ready I take F
    patience: W starts only if this share of it ends before the next F or I is known to arrive; 0 starts it anyway
    guard: F starts only if no I is known to arrive within this share of it
    """

    ahead: tuple[int, ...]
    deferred: tuple[float, ...]
    forward_first: bool = False
    patience: float = 1.0
    guard: float = 0.0


class Played(NamedTuple):
    """An order and its times, every action as early as it can.

    `longest` is the longest time of one rank from its own first start to its last end.
    """

    rows: tuple[str, ...]
    longest: float
    makespan: float
    starts: tuple[tuple[float, ...], ...] = ()


class _Rank:
    """What one rank knows while the clock runs: what has arrived or is on its way, and what it has done."""

    def __init__(self, work: Workload, policy: Policy, stage: int) -> None:
        self.work, self.ahead, self.deferred = work, policy.ahead[stage], policy.deferred[stage]
        self.forward_first = policy.forward_first
        self.cost = work.costs(stage)
        self.patience = policy.patience * work.weight[stage] * (1 - 1e-9)
        self.guard = policy.guard * work.forward[stage]
        self.inputs: deque[float] = deque()  # when the inputs of the next forwards arrive
        self.gradients: deque[float] = deque()  # when the gradients of the next backwards arrive
        self.in_flight = self.pending = 0
        self.free_at = 0.0
        self.row: list[str] = []

    def choose(self, now: float) -> str | None:
        """The next action of a free rank, or None to wait for what is on its way."""
        if self.pending > self.deferred:
            return "W"
        forward = self._next_forward()
        if self.forward_first and forward <= now:
            return "F"
        backward = self.gradients[0] if self.gradients else _NEVER
        if backward <= now:
            return "I"
        if forward <= now and now + self.guard <= backward:
            return "F"
        expected = min(backward, forward) if forward > now else backward
        return "W" if self.pending and now + self.patience <= expected else None

    def _next_forward(self) -> float:
        """When the next forward could start; never while the policy or the memory forbids one."""
        if self.inputs and self.in_flight < self.ahead and self.work.fits(self.in_flight + 1, self.pending):
            return self.inputs[0]
        return _NEVER

    def start(self, kind: str, now: float) -> float:
        """Run one action and return its end."""
        if kind == "F":
            self.inputs.popleft()
            self.in_flight += 1
        elif kind == "I":
            self.gradients.popleft()
            self.in_flight -= 1
            self.pending += 1
        else:
            self.pending -= 1
        self.row.append(kind)
        self.free_at = now + self.cost[kind]
        return self.free_at


def play(work: Workload, policy: Policy) -> tuple[str, ...]:
    """The rows that come out when every free rank follows the policy.

    No policy deadlocks: whatever is in flight comes back, and a rank with nothing else to do runs its W.
    """
    ranks = [_Rank(work, policy, stage) for stage in range(work.num_stages)]
    ranks[0].inputs.extend([0.0] * work.num_microbatches)
    wake_ups = [(0.0, 0)]
    while wake_ups:
        now, stage = heappop(wake_ups)
        rank = ranks[stage]
        kind = rank.choose(now) if rank.free_at <= now else None
        if kind is not None:
            end = rank.start(kind, now)
            heappush(wake_ups, (end, stage))
            if kind != "W" and (news := _deliver(work, ranks, stage, kind, end)):
                heappush(wake_ups, news)
    return tuple("".join(rank.row) for rank in ranks)


def _deliver(work: Workload, ranks: list[_Rank], stage: int, kind: str, end: float) -> tuple[float, int] | None:
    """Hand a result to the stage that needs it; return when that stage should look up."""
    if kind == "F" and stage + 1 < work.num_stages:
        ranks[stage + 1].inputs.append(end + work.up[stage])
        return end + work.up[stage], stage + 1
    if kind == "F":
        ranks[stage].gradients.append(end)
    elif stage > 0:
        ranks[stage - 1].gradients.append(end + work.down[stage - 1])
        return end + work.down[stage - 1], stage - 1
    return None


class _Track:
    """One row on its way through a replay."""

    def __init__(self, work: Workload, stage: int, row: str) -> None:
        self.row, self.head, self.clock = row, 0, 0.0
        self.starts: list[float] = []
        self.cost = work.costs(stage)
        self.delay = {"F": (*work.up, 0.0)[stage], "I": (0.0, *work.down)[stage]}
        self.arrived: dict[str, deque[float]] = {"F": deque(), "I": deque()}  # when the inputs not used yet arrived
        self.sent: dict[str, deque[float]] = {"F": deque(), "I": deque()}  # those of the stages above and below

    def go(self) -> None:
        """Run on until an input is missing."""
        clock, starts, cost = self.clock, self.starts, self.cost  # the innermost loop of all: no look-ups
        for kind in self.row[self.head :]:
            if kind != "W":
                arrived = self.arrived[kind]
                if not arrived:
                    break
                if (at := arrived.popleft()) > clock:
                    clock = at
            starts.append(clock)
            clock += cost[kind]
            if kind != "W":
                self.sent[kind].append(clock + self.delay[kind])
        self.clock, self.head = clock, len(starts)


def replay(work: Workload, rows: tuple[str, ...]) -> Played | None:
    """The times of given rows, every action as early as it can; None if they deadlock."""
    tracks = [_Track(work, stage, row) for stage, row in enumerate(rows)]
    for lower, upper in pairwise(tracks):
        lower.sent["F"], upper.sent["I"] = upper.arrived["F"], lower.arrived["I"]
    tracks[0].arrived["F"].extend([0.0] * work.num_microbatches)
    tracks[-1].sent["F"] = tracks[-1].arrived["I"]
    num_actions, num_run = sum(map(len, rows)), -1
    there_and_back = (*tracks, *tracks[-2:0:-1])  # the way of a micro-batch
    while num_run < (num_run := sum(track.head for track in tracks)) < num_actions:
        for track in there_and_back:
            track.go()
    if num_run < num_actions:
        return None
    longest = max(track.clock - track.starts[0] for track in tracks)
    return Played(rows, longest, max(track.clock for track in tracks), tuple(tuple(track.starts) for track in tracks))
