"""The settings of a studio: families of schedules by the names people use, sizes, costs and memory.

Families cut the model differently: with two stages per rank, each is half of a rank's layers. Costs and memory are
therefore stated for a rank's layers, so that two families on one axis do the same work. A schedule from elsewhere (the
editor, a search, a file) is a family of its own, with one size.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from pllab.arguments import require
from pllab.schedule import FAMILIES as PUBLISHED
from pllab.schedule import Schedule, check
from pllab.show.studio.runs import Screen, Shown, sizes_of
from pllab.show.studio.stage_costs import WORK, Given, Profile, costs_of_stages, split_costs
from pllab.simulate import Costs

Sizes = tuple[int | None, int | None]  # ranks and micro-batches that were asked for

MOST_RANKS = 64
MOST_MICROBATCHES = 512
MOST_TRIED = 128  # ranks times micro-batches up to which every family is tried out

STORIES = {  # what a family shows, in a sentence for a lecture
    "GPipe": "Look at the wedge in the middle: all forwards come first, so each rank waits for the last one's turn.",
    "1F1B": "Look at the staircases: ranks hold fewer micro-batches; with free messages the bubble is still GPipe's.",
    "eager 1F1B": "1F1B with forwards sent earlier: slow messages hide behind them, for more micro-batches held.",
    "interleaved 1F1B": "Look at both ends: with two thin stages a rank, filling and draining take half the time.",
    "breadth-first": "Two thin stages a rank, and all micro-batches pass a stage before the next one begins.",
    "ZB-H1": "The backward is cut in two: weight gradients W wait for nobody and fill the drain; memory as in 1F1B.",
    "ZB-H2": "Look at the W's: they wait for nobody and fill the gaps; without a barrier (b) only messages leave gaps.",
    "interleaved zero bubble": "Interleaved 1F1B with the backward cut in two: a third of its bubble, in less memory.",
    "ZB-V": "Two stages a rank in a V: the last one is on rank 0, so all ranks hold the same, and W fills the corners.",
    "V-half": "The V with fewer forwards ahead: about half the memory of 1F1B.",
    "V-min": "The V with as few forwards ahead as can be: about a third of the memory of 1F1B.",
    "DualPipeV": "The V with a forward and a backward in pairs, so that messages of one hide behind the other's work.",
}
TOUR = ("GPipe", "1F1B", "interleaved 1F1B", "ZB-H2")  # the stops before one's own run


class FamilyChoice(NamedTuple):
    """A family in the menu: how to make its schedule of some ranks and micro-batches, and how many stages a rank has.

    A family of one schedule has its `sizes` alone. If the ranks of that schedule have different numbers of stages,
    `stages_per_rank` is their mean.
    """

    name: str
    make: Callable[[int, int], Schedule]
    stages_per_rank: float = 1
    sizes: tuple[int, int] | None = None


@lru_cache(maxsize=16)
def _made(make: Callable[[int, int], Schedule], num_ranks: int, num_microbatches: int) -> Schedule:
    """The schedule of `make`; the latest are kept for the next change of a cost."""
    return make(num_ranks, num_microbatches)


@lru_cache(maxsize=512)
def _refusal(family: FamilyChoice, num_ranks: int, num_microbatches: int) -> str:
    """Why a family has no schedule of these sizes, or nothing."""
    try:
        _made(family.make, num_ranks, num_microbatches)
    except ValueError as error:
        return str(error)
    return ""


FAMILIES = {one.title: FamilyChoice(one.title, one.make, one.stages_per_rank) for one in PUBLISHED.values()}


def family_of(name: str, families: Mapping[str, FamilyChoice] = FAMILIES) -> FamilyChoice:
    """The family of a name.

    Raises:
        ValueError: there is none of this name; the sentence lists all.
    """
    if name not in families:
        raise ValueError(f"there is no family {name!r}; choose one of {', '.join(families)}")
    return families[name]


def family_of_schedule(schedule: Schedule) -> FamilyChoice:
    """A family of one schedule, under a name of its own: `1F1B (given)` if it is called 1F1B.

    Raises:
        ScheduleError: a ValueError; the schedule is illegal.
    """
    check(schedule)
    name = schedule.name or "schedule"
    while name in FAMILIES:
        name += " (given)"
    sizes = schedule.num_ranks, schedule.num_microbatches

    def only(num_ranks: int, num_microbatches: int) -> Schedule:
        asked = num_ranks, num_microbatches
        other = f"{name} is for {sizes_of(*sizes)} and not for {sizes_of(*asked)}; choose another family to change them"
        require(asked == sizes, other)
        return schedule

    return FamilyChoice(name, only, schedule.stages_per_rank, sizes)


@dataclass(frozen=True)
class Setting:
    """Everything the screen depends on. `costs` are for the layers of a rank, the profile for parts of them.

    `with_run` is whether a measured run of the schedule is drawn, too.
    """

    family: FamilyChoice
    compare: FamilyChoice | None
    num_ranks: int
    num_microbatches: int
    costs: Costs
    profile: Profile
    given: Given
    with_run: bool = True

    @classmethod
    def first(cls, family: FamilyChoice, compare: FamilyChoice | None, sizes: Sizes, costs: Costs) -> "Setting":
        """The first setting of a studio: 4 ranks and 8 micro-batches, or the sizes of the only schedule.

        Raises:
            ValueError: the costs are for another number of stages.
        """
        usual = family.sizes or (4, 8)
        ranks, microbatches = (first if size is None else size for size, first in zip(sizes, usual, strict=True))
        dials, profile, given = split_costs(costs, ranks, family.stages_per_rank)
        return cls(family, compare, ranks, microbatches, dials, profile, given)

    def after(self, inputs: Mapping[str, Any], families: Mapping[str, FamilyChoice]) -> "Setting":
        """The next setting, from the inputs of the controls.

        Stage costs are those of the family before, and keep their precision if they were not changed in the browser.
        Another family of one schedule brings its sizes.

        Raises:
            ValueError: there is no such family.
        """
        cells = {stage: tuple(values) for stage, values in inputs["stage_costs"].items()}
        profile = Profile(cells, self.family.stages_per_rank)
        setting = Setting(
            family_of(inputs["family"], families),
            family_of(inputs["compare"], families) if inputs["compare"] else None,
            inputs["num_ranks"],
            inputs["num_microbatches"],
            replace(self.costs, **{name: inputs[name] for name in (*WORK, "p2p")}),
            self.profile if profile == self.named_profile() else profile,
            self.given,
            inputs["with_run"],
        )
        sizes = setting.family.sizes
        if setting.family == self.family or sizes is None:
            return setting
        return replace(setting, num_ranks=sizes[0], num_microbatches=sizes[1])

    def to_inputs(self) -> dict[str, Any]:
        """The setting as inputs of the controls."""
        return {
            "family": self.family.name,
            "compare": self.compare.name if self.compare else "",
            "num_ranks": self.num_ranks,
            "num_microbatches": self.num_microbatches,
            **{name: getattr(self.costs, name) for name in (*WORK, "p2p")},
            "stage_costs": dict(self.named_profile().cells),
            "with_run": self.with_run,
        }

    def costs_of(self, family: FamilyChoice) -> Costs:
        """The costs of a family's stages; every family costs the same in total."""
        return costs_of_stages(self.num_ranks, family.stages_per_rank, self.costs, self.profile, self.given)

    def named_profile(self) -> Profile:
        """The costs of single stages, by the stages of the family on screen."""
        usual = [getattr(self.costs, name) for name in WORK]
        return self.profile.cut(self.family.stages_per_rank, usual)

    def shown(self, family: FamilyChoice) -> Shown:
        """The schedule of a family, to be simulated.

        Raises:
            ValueError: there is no such schedule.
        """
        schedule = _made(family.make, self.num_ranks, self.num_microbatches)
        return Shown(family.name, schedule, self.costs_of(family))

    def missing(self, families: Iterable[FamilyChoice]) -> dict[str, str]:
        """The families that have no schedule of these sizes, each with the reason.

        Example: `{"mine": "mine is for 3 ranks, 4 micro-batches and not for 4 ranks, ..."}`. Large sizes are not tried
        out, for all schedules have to be made: there a family says so when it is chosen.
        """
        sizes = self.num_ranks, self.num_microbatches
        tried = [one for one in families if one.sizes or sizes[0] * sizes[1] <= MOST_TRIED]
        reasons = {one.name: _refusal(one, *sizes) for one in tried}
        return {name: reason for name, reason in reasons.items() if reason}

    def screen(self, measured: Shown | None) -> Screen:
        """All runs to draw; a measured run while its schedule is on screen, with its costs if its stages slept."""
        main = self.shown(self.family)
        compared = self.shown(self.compare) if self.compare else None
        if measured and self.with_run and measured.schedule == main.schedule:
            if measured.engine == "real" or measured.costs == main.costs:
                return Screen(main, compared, replace(main, measured=measured.measured, note=measured.note))
        return Screen(main, compared)


def handed_out(
    setting: Setting, families: Iterable[FamilyChoice], ranks: Iterable[int], microbatches: Iterable[int]
) -> dict[str, Shown]:
    """The runs of a hand-out by `family|ranks|micro-batches`: every family at these sizes.

    What a family has no schedule for is left out.
    """
    runs = {}
    for family, p, m in product(families, ranks, microbatches):
        with suppress(ValueError):  # some families ask for more micro-batches, and one schedule has its own sizes
            runs[f"{family.name}|{p}|{m}"] = replace(setting, num_ranks=p, num_microbatches=m).shown(family)
    return runs
