"""What a studio is set to: families, sizes, costs and memory, and the runs that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pllab.show.studio_costs import MOST_RANKS, WORK, Profile, Unseen, costs_of_stages
from pllab.show.studio_families import FAMILIES, Family, family_of, make_schedule
from pllab.show.studio_measured import Measured
from pllab.show.studio_view import Screen, Shown
from pllab.simulate import Costs

MOST_MICROBATCHES = 256


@dataclass(frozen=True)
class Setting:
    """Everything a prediction depends on. `costs` are for the layers of a rank, the profile for parts of them.

    Raises:
        ValueError: a family does not exist, or a size is out of range.
    """

    family: str
    compare: str
    num_ranks: int
    num_microbatches: int
    costs: Costs
    profile: Profile
    memory_limit: float | None
    unseen: Unseen = Unseen()
    families: Mapping[str, Family] | None = None

    def __post_init__(self) -> None:
        for name in filter(None, (self.family, self.compare)):
            self.family_of(name)
        check_size("num_ranks", self.num_ranks, MOST_RANKS)
        check_size("num_microbatches", self.num_microbatches, MOST_MICROBATCHES)

    @property
    def is_searched(self) -> bool:
        """Whether a schedule has to be searched, which may take seconds."""
        return any(self.family_of(name).is_searched for name in filter(None, (self.family, self.compare)))

    def family_of(self, name: str) -> Family:
        """The family of a name, among those this studio offers."""
        return family_of(name, self.families or FAMILIES)

    def costs_of(self, name: str) -> Costs:
        """What the stages of a family cost: as much in total as those of any other."""
        share = self.family_of(name).stages_per_rank
        return costs_of_stages(self.num_ranks, share, self.costs, self.profile, self.unseen)

    def named_profile(self) -> Profile:
        """The costs of single stages, by the stages of the family on screen."""
        usual = [getattr(self.costs, name) for name in WORK]
        return self.profile.cut(self.family_of(self.family).stages_per_rank, usual)

    def resized(self) -> "Setting":
        """The same with the sizes of its schedule, where that has only one."""
        sizes = self.family_of(self.family).sizes or (self.num_ranks, self.num_microbatches)
        return replace(self, num_ranks=sizes[0], num_microbatches=sizes[1])

    def show(self, name: str) -> Shown:
        """Make the schedule of a family and simulate it.

        Raises:
            ValueError: there is no such schedule, for example under this memory limit.
        """
        family, costs = self.family_of(name), self.costs_of(name)
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


def setting_of(inputs: Mapping[str, Any], unseen: Unseen, families: Mapping[str, Family]) -> Setting:
    """The setting of the inputs by their names, as the browser knows them."""
    names = inputs["family"], inputs["compare"]
    sizes = inputs["num_ranks"], inputs["num_microbatches"]
    costs = Costs(*(inputs[name] for name in (*WORK, "p2p")))
    profile = Profile.of(inputs["stage_costs"], inputs["stages_per_rank"])
    return Setting(*names, *sizes, costs, profile, inputs["memory_limit"], unseen, families)


def check_size(name: str, value: int, most: int) -> None:
    """Refuse a size off its slider.

    Raises:
        ValueError: naming the size, its value and the range.
    """
    if not 1 <= value <= most:
        raise ValueError(f"{name} is {value}; choose 1 to {most}")
