"""Make an order by playing it: whenever a rank is free, it picks its next action by a few rules.

The picks of all ranks are the rows. Which rules are best depends on the costs, so all are tried: early forwards, for
example, keep the stages above busy, but take memory that later forwards need.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import product
from math import inf
from typing import NamedTuple

from pllab.schedule.search.problem import Rows, SearchProblem


class GreedyRules(NamedTuple):
    """How a free rank picks its next action.

    ahead: per stage, the most forwards in flight (1F1B has `p - s`, ZB-H2 `2(p - s) - 1`)
    deferred: per stage, the most weight gradients that may wait; with more, one runs at once
    forward_first: of a ready F and a ready I, take F
    patient: start a W only if it ends before the next F or I is known to arrive
    """

    ahead: tuple[int, ...]
    deferred: tuple[float, ...]
    forward_first: bool
    patient: bool


def all_rules(work: SearchProblem) -> Iterator[GreedyRules]:
    """Every combination of five warm-ups, two limits for deferred weight gradients, two orders, patient or not.

    A warm-up is a multiple of the forwards that fit before the first gradient can arrive: 1 is 1F1B's, 2 is ZB-H2's.
    Weight gradients are deferred without limit, or as many as fit after the last I while the stages below run theirs.
    """
    stages = range(work.num_stages)
    for scale, no_limit, *choices in product((1.0, 1.5, 2.0, 2.5, inf), (False, True), (False, True), (False, True)):
        ahead = tuple(_ahead(work, stage, scale) for stage in stages)
        deferred = tuple(inf if no_limit else _weights_at_the_end(work, stage) for stage in stages)
        yield GreedyRules(ahead, deferred, *choices)


def _ahead(work: SearchProblem, stage: int, scale: float) -> int:
    until_back = work.away(stage) / work.forward[stage] / 2 if work.forward[stage] else inf
    num_forwards = 1 + (scale * until_back if until_back else 0.0)
    return int(max(1, min(num_forwards, work.most_in_flight)))


def _weights_at_the_end(work: SearchProblem, stage: int) -> float:
    if not work.weight[stage]:
        return inf
    below = range(stage)
    seconds = sum(work.forward[s] + work.backward[s] + 2 * work.costs.p2p for s in below)
    return int(min(work.num_microbatches, 1 + seconds / work.weight[stage] + 1e-9))  # more than all is no limit


def play(work: SearchProblem, rules: GreedyRules) -> Rows:
    """The rows that result when every free rank follows the rules.

    No set of rules deadlocks: every micro-batch in flight comes back, and a rank with nothing else to do runs its W.
    """
    ranks = [_RankState(work, rules, stage) for stage in range(work.num_stages)]
    ranks[0].arrivals["F"].extend([0.0] * work.num_microbatches)
    wake_ups = [(0.0, 0)]
    while wake_ups:
        now, stage = heappop(wake_ups)
        rank = ranks[stage]
        kind = rank.choose(now) if rank.free_at <= now else None
        if kind is None:
            continue
        end = rank.start(kind, now)
        heappush(wake_ups, (end, stage))
        if kind in rank.goals:
            receiver, needed_by = rank.goals[kind]
            arrival = end if receiver == stage else end + work.costs.p2p
            ranks[receiver].arrivals[needed_by].append(arrival)
            heappush(wake_ups, (arrival, receiver))
    return tuple("".join(rank.row) for rank in ranks)


class _RankState:
    """The state of one rank during the play: when the inputs of its next F and I arrive, and what it has run.

    `goals` has the stage that takes the result of a kind, and for which kind: no stage waits for a W.
    """

    def __init__(self, work: SearchProblem, rules: GreedyRules, stage: int) -> None:
        self.work, self.rules = work, rules
        self.ahead, self.deferred = rules.ahead[stage], rules.deferred[stage]
        self.cost = {"F": work.forward[stage], "I": work.backward[stage], "W": work.weight[stage]}
        self.goals = {"F": (stage + 1, "F") if stage + 1 < work.num_stages else (stage, "I")}
        if stage > 0:
            self.goals["I"] = (stage - 1, "I")
        self.arrivals: dict[str, deque[float]] = {"F": deque(), "I": deque()}
        self.in_flight = self.pending = 0
        self.free_at = 0.0
        self.row: list[str] = []

    def choose(self, now: float) -> str | None:
        """The next action of a free rank, or None to wait for an input."""
        if self.pending > self.deferred:
            return "W"
        may_go = self.in_flight < self.ahead and self.work.fits(self.in_flight + 1, self.pending)
        forward = self._next("F") if may_go else inf
        backward = self._next("I")
        if self.rules.forward_first and forward <= now:
            return "F"
        if backward <= now:
            return "I"
        if forward <= now:
            return "F"
        room = self.cost["W"] * (1 - 1e-9) if self.rules.patient else 0.0
        return "W" if self.pending and now + room <= min(backward, forward) else None

    def _next(self, kind: str) -> float:
        """When the next input for a kind is there; infinity if nobody knows yet."""
        return self.arrivals[kind][0] if self.arrivals[kind] else inf

    def start(self, kind: str, now: float) -> float:
        """Run one action and return its end."""
        if kind != "W":
            self.arrivals[kind].popleft()
        self.in_flight += {"F": 1, "I": -1, "W": 0}[kind]
        self.pending += {"F": 0, "I": 1, "W": -1}[kind]
        self.row.append(kind)
        self.free_at = now + self.cost[kind]
        return self.free_at
