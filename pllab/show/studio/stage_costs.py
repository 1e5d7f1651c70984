"""The costs of stages for any cut of the model: a profile over the depth, of which each stage has its share.

Another cut only regroups the layers. Two families on one axis therefore cost the same in total, and a slow part of the
model stays where it is.

    depth, in layers of a rank   0               1               2
    one stage per rank           |  stage 0: 1   |  stage 1: 3   |
    two stages per rank          |  0.5  |  0.5  |  1.5  |  1.5  |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum
from typing import NamedTuple

import numpy as np

from pllab.schedule import Kind
from pllab.simulate import Costs

Cells = tuple[float | None, ...]
"""The costs of a stage, kind by kind; None stands for the usual cost."""

WORK = ("forward", "backward_input", "backward_weight")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Profile:
    """Costs of single stages, and how many stages of that size share a rank's layers.

    Example: `Profile({"1": (3.0, None, None)})` for the second stage above; `.cut(2, usual)` names all four stages.
    """

    cells: Mapping[str, Cells]
    stages_per_rank: float = 1

    def filled(self, stage: int, usual: Sequence[float]) -> tuple[float, ...]:
        """The costs of a stage, and its share of the `usual` costs of a rank where it has none of its own."""
        own = self.cells.get(str(stage), (None,) * len(usual))
        shares = (whole / self.stages_per_rank for whole in usual)
        return tuple(share if value is None else float(value) for value, share in zip(own, shares, strict=True))

    def cut(self, stages_per_rank: float, usual: Sequence[float]) -> "Profile":
        """The same costs for stages of another size: a new stage has the sum of the layers between its boundaries."""
        if not self.cells or stages_per_rank == self.stages_per_rank:
            return replace(self, stages_per_rank=stages_per_rank)
        num_ranks = ceil((max(map(int, self.cells)) + 1) / self.stages_per_rank - _ROUNDING)
        num_new = ceil(num_ranks * stages_per_rank - _ROUNDING)
        num_old = ceil(num_new / stages_per_rank * self.stages_per_rank - _ROUNDING)
        old = np.arange(num_old + 1) / self.stages_per_rank  # boundaries, in layers of a rank
        new = np.arange(num_new + 1) / stages_per_rank
        columns = zip(*(self.filled(stage, usual) for stage in range(num_old)), strict=True)
        dealt = [np.diff(np.interp(new, old, np.append(0.0, np.cumsum(column)))).tolist() for column in columns]
        return _profile(zip(*dealt, strict=True), stages_per_rank)


class Given(NamedTuple):
    """The costs that a studio was given, F, I, W and B: of a rank, and of single stages.

    No dial shows a B. It stays as it was given until a dial moves its I or W, and is then their sum.
    """

    rank: Sequence[float]
    stages: Profile

    def backward(self, work: Sequence[Sequence[float]], stages_per_rank: float) -> list[float]:
        """Seconds of B for stages with this work."""
        cut = self.stages.cut(stages_per_rank, self.rank)
        whole = []
        for stage, (_, by_input, by_weight) in enumerate(work):
            _, *halves, given = cut.filled(stage, self.rank)
            whole.append(given if halves == [by_input, by_weight] else by_input + by_weight)
        return whole


def costs_of_stages(num_ranks: int, stages_per_rank: float, dials: Costs, profile: Profile, given: Given) -> Costs:
    """The costs of the stages: a rank's costs divided among them, and the costs of single stages from the profile.

    Example: with forward 1.0, two stages per rank and the profile `{"3": (0.9, None, None)}` for this cut, stage 3
    takes 0.9 s forward and all others 0.5 s. The latency of a message is the same for every cut.
    """
    usual = [getattr(dials, name) for name in WORK]
    cut = profile.cut(stages_per_rank, usual)
    work = [cut.filled(stage, usual) for stage in range(round(num_ranks * stages_per_rank))]
    forward, by_input, by_weight = zip(*work, strict=True)
    backward = given.backward(work, stages_per_rank)
    return replace(dials, forward=forward, backward_input=by_input, backward_weight=by_weight, backward=backward)


def split_costs(costs: Costs, num_ranks: int, stages_per_rank: float) -> tuple[Costs, Profile, Given]:
    """Split costs into dials (a rank's mean costs), the costs of single stages, and all as they were given.

    If each cost is one number, it is for a rank's layers. If any has values per stage, all are for a stage.

    Raises:
        ValueError: the costs are for another number of stages than the schedule has.
    """
    num_stages = round(num_ranks * stages_per_rank)
    costs.check_stages(num_stages)
    kinds = (Kind.F, Kind.I, Kind.W, Kind.B)
    stages = [tuple(costs.duration(stage, kind) for kind in kinds) for stage in range(num_stages)]
    rank: Sequence[float] = stages[0]
    if costs.num_stages is None:
        stages = []
    else:
        rank = [fsum(column) / num_ranks for column in zip(*stages, strict=True)]
    profile = _profile((values[:3] for values in stages), stages_per_rank)
    forward, by_input, by_weight, _ = rank
    dials = replace(costs, forward=forward, backward_input=by_input, backward_weight=by_weight, backward=None)
    return dials, profile, Given(rank, _profile(stages, stages_per_rank))


def _profile(stages: Iterable[Cells], stages_per_rank: float) -> Profile:
    return Profile({str(stage): values for stage, values in enumerate(stages)}, stages_per_rank)
