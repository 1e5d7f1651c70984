"""What runs where, in which order. A schedule is a value that is checked, drawn, simulated and run.

model.py          stage, kind, micro-batch, `2F0`; a schedule, per rank the ordered list of its actions; how one is made
costs.py          what work and messages cost
dependencies.py   which action waits for which, and the walk of a schedule in that order
legality.py       is it legal; if not, a sentence; and how many micro-batches it holds (counted by pllab/memory.py)
families/         the published schedules, from sizes
search/           schedules from costs under a memory limit

Standard library only.
"""

from pllab.memory import Held
from pllab.schedule.costs import Costs
from pllab.schedule.dependencies import Walk, needs, pair_shares
from pllab.schedule.families import FAMILIES, FamilyName, family_of
from pllab.schedule.families.looped import breadth_first, interleaved, interleaved_zero_bubble
from pllab.schedule.families.one_way import eager_one_f_one_b, gpipe, one_f_one_b, zb_h1, zb_h2
from pllab.schedule.families.v_shaped import dual_pipe_v, v_half, v_min, zbv
from pllab.schedule.legality import Problem, ScheduleError, check, gathers, peak_in_flight, problems
from pllab.schedule.model import Action, Kind, Schedule, collector_paused, split_backwards
from pllab.schedule.search.shortest import optimal, zero_bubble

__all__ = [
    "FAMILIES",
    "Action",
    "Costs",
    "FamilyName",
    "Held",
    "Kind",
    "Problem",
    "Schedule",
    "ScheduleError",
    "Walk",
    "breadth_first",
    "check",
    "collector_paused",
    "dual_pipe_v",
    "eager_one_f_one_b",
    "family_of",
    "gathers",
    "gpipe",
    "interleaved",
    "interleaved_zero_bubble",
    "needs",
    "one_f_one_b",
    "optimal",
    "pair_shares",
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
