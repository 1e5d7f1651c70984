"""What a studio is set to: families, sizes, costs and memory, and the runs that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pllab.schedule import Schedule
from pllab.show.studio_families import Family, family_of, make_schedule
from pllab.show.studio_view import Screen, Shown
from pllab.simulate import Costs
from pllab.timeline import Timeline

StageCosts = Mapping[str, tuple[float | None, float | None, float | None]]

MOST_RANKS = 32
MOST_MICROBATCHES = 256
WORK = ("forward", "backward_input", "backward_weight")


@dataclass(frozen=True)
class Measured:
    """A run of a schedule on a real clock, and the costs its stages had if they slept."""

    schedule: Schedule
    costs: Costs
    timeline: Timeline

    def fits(self, schedule: Schedule, costs: Costs) -> bool:
        """Whether it is still a run of what is on screen; real stages cost what they cost."""
        return schedule == self.schedule and (self.timeline.engine == "real" or costs == self.costs)


@dataclass(frozen=True)
class Setting:
    """Everything a prediction depends on. `costs` are for the layers of a rank, `stage_costs` for single stages.

    Raises:
        ValueError: a family does not exist, or a size is out of range.
    """

    family: str
    compare: str
    num_ranks: int
    num_microbatches: int
    costs: Costs
    stage_costs: StageCosts
    memory_limit: float | None

    def __post_init__(self) -> None:
        for name in filter(None, (self.family, self.compare)):
            family_of(name)
        check_size("num_ranks", self.num_ranks, MOST_RANKS)
        check_size("num_microbatches", self.num_microbatches, MOST_MICROBATCHES)

    @property
    def is_searched(self) -> bool:
        """Whether a schedule has to be searched, which may take seconds."""
        return any(family_of(name).make is None for name in filter(None, (self.family, self.compare)))

    def costs_of(self, name: str) -> Costs:
        """What the stages of a family cost; single stages cost their own where both families are cut alike."""
        family = family_of(name)
        alike = family.stages_per_rank == family_of(self.family).stages_per_rank
        return costs_of_stages(family, self.num_ranks, self.costs, self.stage_costs if alike else {})

    def show(self, name: str) -> Shown:
        """Make the schedule of a family and simulate it.

        Raises:
            ValueError: there is no such schedule, for example under this memory limit.
        """
        family, costs = family_of(name), self.costs_of(name)
        schedule = make_schedule(family, self.num_ranks, self.num_microbatches, costs, self.memory_limit)
        shown = Shown(name, schedule, costs, family.stages_per_rank)
        _ = shown.columns  # simulated here, where what cannot be shown is refused
        return shown

    def screen(self, measured: Measured | None) -> Screen:
        """All runs to draw; a measured one only while it is a run of this schedule."""
        main = self.show(self.family)
        compared = self.show(self.compare) if self.compare else None
        if measured is None or not measured.fits(main.schedule, self.costs_of(self.family)):
            return Screen(main, compared, None)
        return Screen(main, compared, replace(main, source=measured.timeline))


def setting_of(inputs: Mapping[str, Any]) -> Setting:
    """The setting of the inputs by their names, as the browser knows them."""
    costs = Costs(*(inputs[name] for name in (*WORK, "p2p")))
    sizes = inputs["num_ranks"], inputs["num_microbatches"]
    return Setting(inputs["family"], inputs["compare"], *sizes, costs, inputs["stage_costs"], inputs["memory_limit"])


def costs_of_stages(family: Family, num_ranks: int, costs: Costs, stage_costs: StageCosts) -> Costs:
    """What one stage costs: a rank's costs shared by its stages, with the stages that cost something else.

    Example: with forward 1.0, two stages a rank and `{"3": (0.9, None, None)}`, stage 3 takes 0.9 s forward and all
    others 0.5 s. Messages cost the same however the model is cut.
    """
    share = family.stages_per_rank
    usual: list[float] = [getattr(costs, name) / share for name in WORK]
    num_stages = num_ranks * share
    own = {int(stage): values for stage, values in stage_costs.items() if int(stage) < num_stages}
    if not own:
        return replace(costs, **dict(zip(WORK, usual, strict=True)))
    forward, input_, weight = zip(*(_fill(own.get(stage), usual) for stage in range(num_stages)), strict=True)
    return replace(costs, forward=forward, backward_input=input_, backward_weight=weight)


def split_costs(costs: Costs, family: Family, num_ranks: int) -> tuple[Costs, StageCosts]:
    """Costs per stage as a rank's mean costs and single stages; costs that are one number stay as they are.

    A message keeps the time it takes from stage 0 to stage 1, bytes and bandwidth included.

    Raises:
        ValueError: the costs are for another number of stages than the family has.
    """
    num_stages = num_ranks * family.stages_per_rank
    costs.check_stages(num_stages)
    p2p = costs.message(0, 1) if num_stages > 1 else costs.p2p
    lists = [_each(getattr(costs, name), num_stages) for name in WORK]
    if not any(isinstance(getattr(costs, name), tuple) for name in WORK):
        forward, input_, weight = (values[0] for values in lists)
        return Costs(forward, input_, weight, p2p), {}
    forward, input_, weight = (sum(values) / num_ranks for values in lists)
    return Costs(forward, input_, weight, p2p), {
        str(stage): values for stage, values in enumerate(zip(*lists, strict=True))
    }


def check_size(name: str, value: int, most: int) -> None:
    """Refuse a size off its slider.

    Raises:
        ValueError: naming the size, its value and the range.
    """
    if not 1 <= value <= most:
        raise ValueError(f"{name} is {value}; choose 1 to {most}")


def _each(cost: object, num_stages: int) -> tuple[float, ...]:
    return cost if isinstance(cost, tuple) else (cost,) * num_stages  # type: ignore[return-value]


def _fill(given: tuple[float | None, ...] | None, usual: list[float]) -> list[float]:
    """The values given for a stage, and the usual ones where there are none."""
    values = given or (None,) * len(usual)
    return [plain if value is None else float(value) for value, plain in zip(values, usual, strict=True)]
