"""What runs where, in which order. A schedule is a value: checked, drawn, simulated and run as it is.

action.py       stage, kind, micro-batch: `2F0`
schedule.py     per rank, the ordered list of its actions
needs.py        which action waits for which
memory.py       how many micro-batches an order holds
check.py        is it legal; if not, a sentence
text.py         the CSV of torch.distributed.pipelining
gpipe.py, one_f_one_b.py    one file per family

Standard library only.
"""

from pllab.schedule.action import Action, Kind
from pllab.schedule.check import Problem, ScheduleError, check, problems
from pllab.schedule.costs_like import CostsLike
from pllab.schedule.gpipe import gpipe
from pllab.schedule.memory import Held, peak_in_flight
from pllab.schedule.needs import needs
from pllab.schedule.one_f_one_b import eager_one_f_one_b, one_f_one_b
from pllab.schedule.schedule import Schedule

__all__ = [
    "Action",
    "CostsLike",
    "Held",
    "Kind",
    "Problem",
    "Schedule",
    "ScheduleError",
    "check",
    "eager_one_f_one_b",
    "gpipe",
    "needs",
    "one_f_one_b",
    "peak_in_flight",
    "problems",
]
