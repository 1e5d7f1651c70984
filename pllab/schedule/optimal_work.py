"""What `optimal` chooses from: the split work of `zero_bubble`, and for every stage what a whole backward costs.

A measured B may take less than its I and W. Then leaving it whole is a choice of its own: it is shorter, and its
gradient and its memory wait for its end. Where B takes as long as I and W, or longer, I at once followed by W is never
worse, and there is nothing to choose.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from pllab.schedule.action import Action, Kind
from pllab.schedule.costs_like import CostsLike
from pllab.schedule.needs import needs
from pllab.schedule.schedule import Schedule
from pllab.schedule.zero_bubble_clock import replay
from pllab.schedule.zero_bubble_floor import floor_of_makespan
from pllab.schedule.zero_bubble_workload import Workload

_SAME = 1 + 1e-12  # I + W adds up to B but for rounding


class Timed(NamedTuple):
    """An order in letters, `FFBIWB`, with the start of every action and the makespan."""

    rows: tuple[str, ...]
    makespan: float
    starts: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Choice:
    """The work of every stage with its backward split, and the seconds of it whole."""

    split: Workload
    whole: tuple[float, ...]

    @classmethod
    def of(cls, split: Workload, costs: CostsLike) -> Self:
        """Read what a whole backward costs.

        Raises:
            ValueError: a whole backward costs less than nothing.
        """
        whole = tuple(float(costs.duration(stage, Kind.B)) for stage in range(split.num_stages))
        for stage, seconds in enumerate(whole):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ValueError(f"the B of stage {stage} costs {seconds}; a cost is a finite number from 0")
        return cls(split, whole)

    def is_shorter_whole(self, stage: int) -> bool:
        """Whether a whole backward of a stage takes less than its halves."""
        return self.whole[stage] * _SAME < self.split.backward[stage] + self.split.weight[stage]

    def duration(self, stage: int, kind: str) -> float:
        """Seconds of one action."""
        return self.whole[stage] if kind == "B" else self.split.costs(stage)[kind]

    @property
    def floor(self) -> float:
        """What no order is shorter than, whichever backwards are whole.

        Cut a B into a first part that takes no longer than I and the rest: gradient and memory come no later. So the
        floor of split orders holds for halves that together take no longer than B, and the first no longer than either.
        """
        least = [self._least(stage) for stage in range(self.split.num_stages)]
        first, rest = tuple(one for one, _ in least), tuple(both - one for one, both in least)
        return floor_of_makespan(replace(self.split, backward=first, weight=rest))

    def _least(self, stage: int) -> tuple[float, float]:
        """The least seconds until a gradient can go on, and of the backward altogether."""
        i, w, whole = self.split.backward[stage], self.split.weight[stage], self.whole[stage]
        return (min(i, whole), whole) if self.is_shorter_whole(stage) else (i, i + w)

    def schedule(self, rows: tuple[str, ...], name: str) -> Schedule:
        """Rows of letters as a schedule: micro-batches go forward in order, back in order, and each W after its I."""
        return Schedule(tuple(tuple(_numbered(stage, row)) for stage, row in enumerate(rows)), name)

    def timed(self, rows: tuple[str, ...]) -> Timed | None:
        """Every action as early as it can; None if the order deadlocks."""
        if not any("B" in row for row in rows):
            played = replay(self.split, rows)
            return played and Timed(played.rows, played.makespan, played.starts)
        return self._timed(rows)

    def _timed(self, rows: tuple[str, ...]) -> Timed | None:
        schedule = self.schedule(rows, "")
        present = frozenset(schedule.actions())
        ends: dict[Action, float] = {}
        starts: list[list[float]] = [[] for _ in rows]
        clocks = [0.0] * len(rows)
        went_on = True
        while went_on:
            went_on = False
            for stage, row in enumerate(schedule.rows):
                for action in row[len(starts[stage]) :]:
                    needed = list(needs(action, schedule.num_stages, present))
                    if any(need not in ends for need in needed):
                        break
                    start = max([clocks[stage], *(ends[need] + self._message(need.stage, stage) for need in needed)])
                    starts[stage].append(start)
                    clocks[stage] = ends[action] = start + self.duration(stage, action.kind)
                    went_on = True
        if len(ends) < schedule.num_actions:
            return None
        return Timed(rows, max(clocks), tuple(map(tuple, starts)))

    def _message(self, sender: int, receiver: int) -> float:
        if sender == receiver:
            return 0.0
        return self.split.up[sender] if sender < receiver else self.split.down[receiver]

    def starting_points(self, found: tuple[str, ...]) -> Iterator[Timed]:
        """A split order, and where that is shorter for a stage, with a B where W follows I at once, and 1F1B with B."""
        whole = [self.is_shorter_whole(stage) for stage in range(self.split.num_stages)]
        fused = [_fused(row) if is_whole else row for row, is_whole in zip(found, whole, strict=True)]
        backwards = ("B" if is_whole else "IW" for is_whole in whole)
        alternating = [_one_f_one_b(self.split, stage, backward) for stage, backward in enumerate(backwards)]
        for rows in (found, tuple(fused), tuple(alternating)) if any(whole) else (found,):
            if timed := self.timed(rows):
                yield timed


def _numbered(stage: int, row: str) -> Iterator[Action]:
    """The k-th F is of micro-batch k, so is the k-th of I and B together, and each W of the oldest I without one."""
    num_f = num_back = 0
    open_i: list[int] = []
    for letter in row:
        if letter == "F":
            number, num_f = num_f, num_f + 1
        elif letter == "W":
            number = open_i.pop(0)
        else:
            number, num_back = num_back, num_back + 1
            open_i += [number] * (letter == "I")
        yield Action(stage, Kind(letter), number)


def _fused(row: str) -> str:
    """I and its own W become a B where nothing runs between them."""
    fused, num_waiting = [""], 0
    for letter in row:
        if letter == "W" and num_waiting == 1 and fused[-1] == "I":
            fused[-1], num_waiting = "B", 0
            continue
        num_waiting += {"I": 1, "W": -1}.get(letter, 0)
        fused.append(letter)
    return "".join(fused)


def _one_f_one_b(work: Workload, stage: int, backward: str) -> str:
    """1F1B, with no more forwards in flight than fit."""
    m = work.num_microbatches
    ahead = min(work.num_stages - stage, work.most_in_flight)
    return "F" * ahead + f"{backward}F" * (m - ahead) + backward * ahead
