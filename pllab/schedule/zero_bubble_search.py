"""Which policy makes the shortest schedule: a portfolio first, then small changes of the best, within a fixed budget.

The rules of a policy pull against each other (forwards early keep the stages above busy, and hold memory that later
forwards miss), and which of them wins depends on the costs. Trying is cheap, so they are tried; the order of tries
is fixed, so the same question always gets the same schedule.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import Any, NamedTuple

from pllab.schedule.zero_bubble_clock import Played, Policy, play, replay
from pllab.schedule.zero_bubble_floor import is_reached
from pllab.schedule.zero_bubble_workload import Workload


class Key(NamedTuple):
    """How good an order is; smaller is better.

    excess: seconds of makespan above what is allowed; with any, the order is only a step on the way
    first, second: the time that counts, and the one that decides between equals
    """

    excess: float
    first: float
    second: float

    @property
    def seconds(self) -> float:
        """All as one number to walk by, with a little of the second: a way across what is not allowed is no wall."""
        return self.excess + self.first + self.second / 1000


Judge = Callable[[Played], Key]

_AHEAD = tuple(product((1.0, 1.25, 1.5, 1.75, 2.0, 2.5, inf), (0, 1, 2), (False, True)))
_DEFERRED = tuple(product((0.0, 0.5, 1.0, 1.5, 2.0, inf), (0, 1), (False, True)))
_MODES = ((True, 0.0, 0.0), (True, 0.5, 0.0), (True, 1.0, 0.0), *product((False,), (0.0, 0.5, 1.0), (0.0, 0.5)))


@dataclass(frozen=True)
class _Recipe:
    """A policy for any number of stages, in three choices that are varied one at a time."""

    ahead: tuple[float, int, bool]  # times the distance to the last stage, plus, distance in seconds
    deferred: tuple[float, int, bool]  # times the W that fit below the last I, plus, forwards' stagger counted too
    mode: tuple[bool, float, float]  # forward_first, patience, guard

    def policy(self, work: Workload) -> Policy:
        """The recipe in numbers per stage."""
        stages = range(work.num_stages)
        return Policy(
            tuple(_ahead(work, stage, *self.ahead) for stage in stages),
            tuple(_deferred(work, stage, *self.deferred) for stage in stages),
            *self.mode,
        )


_CHOICES: tuple[tuple[str, tuple[Any, ...]], ...] = (("ahead", _AHEAD), ("deferred", _DEFERRED), ("mode", _MODES))
_STARTS = tuple(
    _Recipe(ahead, (1.0, 1, stagger), (False, 1.0, 0.0))
    for ahead, stagger in (((1.0, 0, False), False), ((2.0, 0, True), True), ((inf, 0, False), True))
)


def _ahead(work: Workload, stage: int, scale: float, extra: int, in_seconds: bool) -> int:
    distance = float(work.num_stages - 1 - stage)
    if in_seconds:
        distance = work.away(stage) / work.forward[stage] / 2 if work.forward[stage] else inf
    wanted = 1 + extra + (scale * distance if distance else 0.0)
    return int(max(1, min(wanted, work.most_in_flight)))


def _deferred(work: Workload, stage: int, scale: float, extra: int, stagger: bool) -> float:
    """How many W fit on this stage after its last I, while the stages below still run theirs."""
    if scale == inf or not work.weight[stage]:
        return inf
    seconds = sum(work.backward[:stage]) + sum(work.down[:stage])
    if stagger:
        seconds += sum(work.forward[:stage]) + sum(work.up[:stage])
    return int(extra + scale * seconds / work.weight[stage] + 1e-9)


@dataclass
class Search:
    """The best order so far, and how many more may be tried."""

    work: Workload
    key: Judge
    best: Played
    tries_left: int
    floor: Key  # no order has a smaller one
    scores: dict[Policy, float] = field(default_factory=dict)

    def run(self) -> Played:
        """Follow the recipes from each start, then change single stages of the best policy."""
        for start in _STARTS:
            self._climb(start)
        if self.scores:
            self._polish(min(self.scores, key=self.scores.__getitem__))
        return self.best

    @property
    def is_over(self) -> bool:
        """Nothing left to spend, or nothing left to win."""
        return self.tries_left <= 0 or is_reached(self.key(self.best), self.floor)

    def _climb(self, recipe: _Recipe) -> None:
        """Vary one choice after the other and keep what is best, until a round changes nothing."""
        score, before = self._score(recipe.policy(self.work)), None
        while score != before:
            before = score
            for choice, values in _CHOICES:
                for value in values:
                    if self.is_over:
                        return
                    change: dict[str, Any] = {choice: value}
                    other = replace(recipe, **change)
                    if (reached := self._score(other.policy(self.work))) < score:
                        recipe, score = other, reached

    def _polish(self, policy: Policy) -> None:
        """Change single stages at random and keep what is no worse."""
        dice = random.Random(0)
        score = self._score(policy)
        for _ in range(2 * self.tries_left):  # some changes have been tried before, and cost nothing
            if self.is_over:
                return
            other = _changed(policy, dice, self.work.most_in_flight)
            if (reached := self._score(other)) <= score:
                policy, score = other, reached

    def _score(self, policy: Policy) -> float:
        """Play a policy, once."""
        if policy not in self.scores:
            self.tries_left -= 1
            played = replay(self.work, play(self.work, policy))
            assert played is not None, "what was played can be replayed"
            self.scores[policy] = self.key(played).seconds
            self.best = min(self.best, played, key=self.key)
        return self.scores[policy]


def _changed(policy: Policy, dice: random.Random, most_ahead: int) -> Policy:
    """One or two more or fewer on one stage, and sometimes on all stages above it."""
    first = dice.randrange(len(policy.ahead))
    stages = range(first, dice.choice((first + 1, len(policy.ahead))))
    step = dice.choice((-2, -1, 1, 2))
    if dice.random() < 0.5:
        ahead = (max(1, min(most_ahead, n + step)) if stage in stages else n for stage, n in enumerate(policy.ahead))
        return replace(policy, ahead=tuple(ahead))
    deferred = (max(0, n + step) if stage in stages else n for stage, n in enumerate(policy.deferred))
    return replace(policy, deferred=tuple(deferred))
