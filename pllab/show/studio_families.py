"""The families of schedules a studio offers, by the names people use.

Families cut the model differently: two stages a rank are each half of a rank's layers. Costs and memory are therefore
stated for a rank's layers, so that two families on one axis do the same work. A schedule somebody made (in the
editor, by a solver, in a file) is a family of its own, with one size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pllab.schedule import (
    Schedule,
    check,
    dual_pipe_v,
    eager_one_f_one_b,
    gpipe,
    interleaved,
    looped_breadth_first,
    one_f_one_b,
    v_half,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
    zero_bubble,
)
from pllab.show.studio_view import say_sizes
from pllab.simulate import Costs


@dataclass(frozen=True)
class Family:
    """A name, how to make its schedule from ranks and micro-batches, and how many stages a rank has.

    Without `make` the schedule is searched for costs and a memory limit, and anew when they change; or it is `only`
    this one. Ranks of one schedule may have different numbers of stages; it has their mean.
    """

    name: str
    make: Callable[[int, int], Schedule] | None
    stages_per_rank: float = 1
    only: Schedule | None = None

    @property
    def is_searched(self) -> bool:
        """Whether a schedule has to be searched, which may take seconds."""
        return self.make is None and self.only is None

    @property
    def sizes(self) -> tuple[int, int] | None:
        """Ranks and micro-batches of the only schedule; None where both can be chosen."""
        return (self.only.num_ranks, self.only.num_microbatches) if self.only else None


FAMILIES = {
    family.name: family
    for family in (
        Family("GPipe", gpipe),
        Family("1F1B", one_f_one_b),
        Family("eager 1F1B", eager_one_f_one_b),
        Family("interleaved 1F1B", interleaved, 2),
        Family("looped breadth-first", looped_breadth_first, 2),
        Family("ZB-H1", zb_h1),
        Family("ZB-H2", zb_h2),
        Family("ZBV", zbv, 2),
        Family("V-half", v_half, 2),
        Family("V-min", v_min, 2),
        Family("DualPipeV", dual_pipe_v, 2),
        Family("zero bubble search", None),
    )
}


def family_of(name: str, families: Mapping[str, Family] | None = None) -> Family:
    """The family of a name, among `FAMILIES` or others.

    Raises:
        ValueError: there is none; the sentence lists all.
    """
    families = families or FAMILIES
    if name not in families:
        raise ValueError(f"there is no family {name!r}; choose one of {', '.join(families)}")
    return families[name]


def family_of_schedule(schedule: Schedule) -> Family:
    """A family that is one schedule, under a name no other has: `1F1B (given)` if it is called 1F1B.

    Raises:
        ScheduleError: a ValueError; the schedule is illegal.
    """
    check(schedule)
    name = schedule.name or "schedule"
    while name in FAMILIES:
        name += " (given)"
    share = schedule.num_stages / schedule.num_ranks
    return Family(name, None, int(share) if share.is_integer() else share, schedule)


def make_schedule(
    family: Family, num_ranks: int, num_microbatches: int, costs: Costs, memory_limit: float | None
) -> Schedule:
    """The schedule of a family; the latest are kept for the next move of a slider.

    `costs` are those of a stage. A search without a limit may hold `num_ranks` micro-batches, as 1F1B does.

    Raises:
        ValueError: the family is one schedule of other sizes, or a search finds none.
    """
    if family.only is not None:
        return _sized(family.name, family.only, (num_ranks, num_microbatches))
    if family.make is None:
        return _searched(num_ranks, num_microbatches, costs, float(num_ranks) if memory_limit is None else memory_limit)
    return _made(family.make, num_ranks, num_microbatches)


def _sized(name: str, schedule: Schedule, asked: tuple[int, int]) -> Schedule:
    sizes = schedule.num_ranks, schedule.num_microbatches
    if sizes != asked:
        is_for = f"{name} is for {say_sizes(*sizes)} and not for {say_sizes(*asked)}"
        raise ValueError(f"{is_for}; choose another family to change them")
    return schedule


@lru_cache(maxsize=16)
def _made(make: Callable[[int, int], Schedule], num_ranks: int, num_microbatches: int) -> Schedule:
    return make(num_ranks, num_microbatches)


@lru_cache(maxsize=16)
def _searched(num_ranks: int, num_microbatches: int, costs: Costs, memory_limit: float) -> Schedule:
    return zero_bubble(num_ranks, num_microbatches, costs, memory_limit)
