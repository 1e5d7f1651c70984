"""What runs where, in which order. A schedule is a value that is checked, drawn, simulated and run.

model.py          stage, kind, micro-batch, `2F0`; and a schedule, per rank the ordered list of its actions
dependencies.py   which action waits for which, and the walk of a schedule in that order
legality.py       is it legal; if not, a sentence; and how many micro-batches it holds (counted by pllab/memory.py)
families/         the published schedules, from sizes
search/           schedules from costs under a memory limit
making.py         what families and searches share

Standard library only.
"""

from pllab.memory import Held
from pllab.schedule.dependencies import CostsLike, Walk, needs
from pllab.schedule.families import (
    FAMILIES,
    Family,
    breadth_first,
    eager_one_f_one_b,
    family_of,
    gpipe,
    interleaved,
    one_f_one_b,
    v_half,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
)
from pllab.schedule.legality import Problem, ScheduleError, check, peak_in_flight, problems
from pllab.schedule.making import check_sizes, collector_paused
from pllab.schedule.model import Action, Kind, Schedule, split_backwards
from pllab.schedule.search.shortest import Optimum, optimal, zero_bubble

__all__ = [
    "FAMILIES",
    "Action",
    "CostsLike",
    "Family",
    "Held",
    "Kind",
    "Optimum",
    "Problem",
    "Schedule",
    "ScheduleError",
    "Walk",
    "breadth_first",
    "check",
    "check_sizes",
    "collector_paused",
    "eager_one_f_one_b",
    "family_of",
    "gpipe",
    "interleaved",
    "needs",
    "one_f_one_b",
    "optimal",
    "peak_in_flight",
    "problems",
    "split_backwards",
    "v_half",
    "v_min",
    "zb_h1",
    "zb_h2",
    "zbv",
    "zero_bubble",
]
