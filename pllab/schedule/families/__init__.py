"""The published families, each a function from sizes to a `Schedule`.

one_way.py    one stage per rank: GPipe, 1F1B, eager 1F1B, ZB-H1, ZB-H2
looped.py     several stages per rank, dealt out in loops: breadth-first, interleaved 1F1B and zero bubble
v_shaped.py   two stages per rank in a V: ZB-V, V-half, V-min, DualPipeV
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from pllab.schedule.families.looped import breadth_first, interleaved, interleaved_zero_bubble
from pllab.schedule.families.one_way import eager_one_f_one_b, gpipe, one_f_one_b, zb_h1, zb_h2
from pllab.schedule.families.v_shaped import dual_pipe_v, v_half, v_min, zbv
from pllab.schedule.model import Schedule

FamilyName = Literal[
    "gpipe",
    "1f1b",
    "eager_1f1b",
    "interleaved",
    "breadth_first",
    "zb_h1",
    "zb_h2",
    "zbv",
    "v_half",
    "v_min",
    "interleaved_zero_bubble",
    "dual_pipe_v",
]


class Family(NamedTuple):
    """A family by the name people use: its schedule for ranks and micro-batches, and how many stages a rank has."""

    title: str
    make: Callable[[int, int], Schedule]
    stages_per_rank: int = 1


def family_of(schedule: Schedule) -> str | None:
    """The name of the published family whose rows a legal schedule has: `"1F1B"` for `one_f_one_b(2, 4)`."""
    sizes = schedule.num_ranks, schedule.num_microbatches
    alike = (family for family in FAMILIES.values() if family.stages_per_rank == schedule.stages_per_rank)
    return next((family.title for family in alike if family.make(*sizes) == schedule), None)


FAMILIES: Mapping[str, Family] = {
    "gpipe": Family("GPipe", gpipe),
    "1f1b": Family("1F1B", one_f_one_b),
    "eager_1f1b": Family("eager 1F1B", eager_one_f_one_b),
    "interleaved": Family("interleaved 1F1B", interleaved, 2),
    "breadth_first": Family("breadth-first", lambda ranks, m: breadth_first([*range(ranks)] * 2, m), 2),
    "zb_h1": Family("ZB-H1", zb_h1),
    "zb_h2": Family("ZB-H2", zb_h2),
    "zbv": Family("ZB-V", zbv, 2),
    "v_half": Family("V-half", v_half, 2),
    "v_min": Family("V-min", v_min, 2),
    "interleaved_zero_bubble": Family("interleaved zero bubble", interleaved_zero_bubble, 2),
    "dual_pipe_v": Family("DualPipeV", dual_pipe_v, 2),
}
"""The families by the names that commands take."""
