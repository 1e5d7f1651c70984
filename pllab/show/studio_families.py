"""The families of schedules a studio offers, by the names people use.

Families cut the model differently: two stages a rank are each half of a rank's layers. Costs and memory are therefore
stated for a rank's layers, so that two families on one axis do the same work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from pllab.schedule import (
    Schedule,
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
from pllab.simulate import Costs


@dataclass(frozen=True)
class Family:
    """A name, how to make its schedule from ranks and micro-batches, and how many stages a rank has.

    Without `make` the schedule is searched for costs and a memory limit, and anew when they change.
    """

    name: str
    make: Callable[[int, int], Schedule] | None
    stages_per_rank: int = 1


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


def family_of(name: str) -> Family:
    """The family of a name.

    Raises:
        ValueError: there is none; the sentence lists all.
    """
    if name not in FAMILIES:
        raise ValueError(f"there is no family {name!r}; choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def make_schedule(
    family: Family, num_ranks: int, num_microbatches: int, costs: Costs, memory_limit: float | None
) -> Schedule:
    """The schedule of a family; the latest are kept for the next move of a slider.

    `costs` are those of a stage. A search without a limit may hold `num_ranks` micro-batches, as 1F1B does.
    """
    if family.make is None:
        return _searched(num_ranks, num_microbatches, costs, float(num_ranks) if memory_limit is None else memory_limit)
    return _made(family.make, num_ranks, num_microbatches)


@lru_cache(maxsize=16)
def _made(make: Callable[[int, int], Schedule], num_ranks: int, num_microbatches: int) -> Schedule:
    return make(num_ranks, num_microbatches)


@lru_cache(maxsize=16)
def _searched(num_ranks: int, num_microbatches: int, costs: Costs, memory_limit: float) -> Schedule:
    return zero_bubble(num_ranks, num_microbatches, costs, memory_limit)
