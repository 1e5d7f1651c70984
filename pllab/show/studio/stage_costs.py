"""The costs of stages for any cut of the model: a profile over the depth, of which each stage has its share.

Another cut only regroups the layers. Two families on one axis therefore cost the same in total, and a slow part of the
model stays where it is.

    depth, in layers of a rank   0               1               2
    one stage per rank           |  stage 0: 1   |  stage 1: 3   |
    two stages per rank          |  0.5  |  0.5  |  1.5  |  1.5  |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum

import numpy as np
import numpy.typing as npt

from pllab.simulate import Costs

Depths = npt.NDArray[np.float64]
Cells = tuple[float | None, ...]
"""Three costs of a stage; None stands for the usual cost."""

WORK = ("forward", "backward_input", "backward_weight")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Profile:
    """Costs of single stages, and how many stages of that size share a rank's layers.

    Example: `Profile({1: (3.0, None, None)})` for the second stage above; `.cut(2, usual)` names stages 2 and 3.
    """

    cells: Mapping[int, Cells]
    stages_per_rank: float = 1

    @classmethod
    def of(cls, stage_costs: Mapping[str, Sequence[float | None]], stages_per_rank: float) -> "Profile":
        """Make a profile from the widget's trait, whose keys are stage numbers as text.

        Raises:
            ValueError: a stage does not have three costs.
        """
        for stage, values in stage_costs.items():
            if len(values) != len(WORK):
                problem = f"stage_costs of stage {stage} has {len(values)} values"
                raise ValueError(f"{problem}; give seconds forward, of inputs and of weights, None as all others")
        return cls({int(stage): tuple(values) for stage, values in stage_costs.items()}, stages_per_rank)

    def stage_costs(self) -> dict[str, Cells]:
        """The profile as the widget's trait."""
        return {str(stage): values for stage, values in self.cells.items()}

    def cut(self, stages_per_rank: float, usual: Sequence[float]) -> "Profile":
        """The same costs for stages of another size; `usual` are the costs of a rank whose stages have none."""
        if not self.cells or stages_per_rank == self.stages_per_rank:
            return replace(self, stages_per_rank=stages_per_rank)
        num_ranks = ceil((max(self.cells) + 1) / self.stages_per_rank - _ROUNDING)
        num_new = ceil(num_ranks * stages_per_rank - _ROUNDING)
        num_old = ceil(num_new / stages_per_rank * self.stages_per_rank - _ROUNDING)
        old = np.arange(num_old + 1) / self.stages_per_rank  # boundaries, in layers of a rank
        new = np.arange(num_new + 1) / stages_per_rank
        none: Cells = (None,) * len(usual)
        rows = [self.cells.get(stage, none) for stage in range(num_old)]
        columns = [
            _dealt(column, whole / self.stages_per_rank, old, new)
            for column, whole in zip(zip(*rows, strict=True), usual, strict=True)
        ]
        cells = {stage: values for stage, values in enumerate(zip(*columns, strict=True)) if values != none}
        return Profile(cells, stages_per_rank)


def _dealt(values: Cells, usual: float, old: Depths, new: Depths) -> Cells:
    """One cost of the stages between new boundaries; None, which a dial moves, if no part of a stage has its own.

    Costs are spread evenly within an old stage, and a new stage has the sum between its boundaries.
    """
    filled = [usual if value is None else value for value in values]
    has_own = [value is not None for value in values]
    costs, parts = (np.diff(np.interp(new, old, np.append(0.0, np.cumsum(one)))) for one in (filled, has_own))
    return tuple(float(cost) if part > _ROUNDING else None for cost, part in zip(costs, parts, strict=True))


@dataclass(frozen=True)
class Unseen:
    """Costs that no dial shows: whole backwards.

    `usual` are a rank's I, W and B, `whole` those of single stages. If B is not I + W, it keeps its proportion to them
    when a dial moves them. Without `usual` and `whole`, B is I + W.
    """

    usual: Sequence[float] | None = None
    whole: Profile = Profile({})

    def backward(
        self, own: Mapping[int, Cells], work: Sequence[Sequence[float]], stages_per_rank: float
    ) -> list[float] | None:
        """Seconds of B for stages with this work; stages without costs of their own have the usual proportion."""
        if self.usual is None:
            return None
        usual = tuple(value / stages_per_rank for value in self.usual)
        whole = self.whole.cut(stages_per_rank, self.usual).cells
        cells = {stage: whole.get(stage, usual) for stage, values in own.items() if values[1:] != (None, None)}
        return [_whole(values[1], values[2], cells.get(stage, usual)) for stage, values in enumerate(work)]


def costs_of_stages(num_ranks: int, stages_per_rank: float, dials: Costs, profile: Profile, unseen: Unseen) -> Costs:
    """The costs of the stages: a rank's costs divided among them, and the costs of single stages from the profile.

    Example: with forward 1.0, two stages per rank and the profile `{3: (0.9, None, None)}` for this cut, stage 3 takes
    0.9 s forward and all others 0.5 s. The latency of a message is the same for every cut.
    """
    num_stages = round(num_ranks * stages_per_rank)
    rank = [getattr(dials, name) for name in WORK]
    usual = [value / stages_per_rank for value in rank]
    cells = profile.cut(stages_per_rank, rank).cells
    own = {stage: values for stage, values in cells.items() if 0 <= stage < num_stages}
    work = [_fill(own.get(stage), usual) for stage in range(num_stages if own else 1)]
    whole = unseen.backward(own, work, stages_per_rank)
    forward, by_input, by_weight = (column if own else column[0] for column in zip(*work, strict=True))
    return Costs(forward, by_input, by_weight, dials.p2p, whole if own or whole is None else whole[0])


def split_costs(costs: Costs, num_ranks: int, stages_per_rank: float) -> tuple[Costs, Profile, Unseen]:
    """Split costs into dials (a rank's mean costs), the costs of single stages, and those that no dial shows.

    If each cost is one number, it is for a rank's layers. If any has values per stage, all are for a stage.

    Raises:
        ValueError: the costs are for another number of stages than the schedule has.
    """
    num_stages = round(num_ranks * stages_per_rank)
    costs.check_stages(num_stages)
    names = WORK if costs.backward is None else (*WORK, "backward")
    means = [getattr(costs, name) for name in names]
    stages: list[Cells] = []
    if costs.num_stages is not None:
        lists = [value if isinstance(value, tuple) else (value,) * num_stages for value in means]
        means = [fsum(column) / num_ranks for column in lists]
        stages = list(zip(*lists, strict=True))
    profile, whole = (
        Profile({stage: values[part] for stage, values in enumerate(stages)}, stages_per_rank)
        for part in (slice(3), slice(1, None))
    )
    unseen = Unseen() if costs.backward is None else Unseen(means[1:], whole)
    forward, by_input, by_weight = means[:3]
    return Costs(forward, by_input, by_weight, costs.p2p), profile, unseen


def _fill(cells: Cells | None, usual: Sequence[float]) -> tuple[float, ...]:
    """The values of a stage, with the usual ones in place of None."""
    values = cells or (None,) * len(usual)
    return tuple(plain if value is None else float(value) for value, plain in zip(values, usual, strict=True))


def _whole(by_input: float, by_weight: float, model: Cells) -> float:
    """B for an I and a W, in the proportion of a model: measured Bs stay as they are until a dial moves I or W."""
    model_input, model_weight, model_whole = (value or 0.0 for value in model)
    split = model_input + model_weight
    if (by_input, by_weight) == (model_input, model_weight):
        return model_whole
    return model_whole * ((by_input + by_weight) / split) if split else model_whole + by_input + by_weight
