"""What runs where, in which order. A schedule is a value: checked, drawn, simulated and run as it is.

action.py       stage, kind, micro-batch: `2F0`
schedule.py     per rank, the ordered list of its actions
needs.py        which action waits for which
memory.py       how many micro-batches an order holds
check.py        is it legal; if not, a sentence
text.py         the CSV of torch.distributed.pipelining
split.py        the same order with I and W where a B was
sizes.py        the sizes every generator refuses

Families, each a function from sizes to a Schedule:
gpipe.py            all forwards, then all backwards
one_f_one_b.py      forward and backward in turn, and its eager form
interleaved.py      several stages per rank (Megatron)
breadth_first.py    several stages per rank, stage after stage
zb_h.py             ZB-H1 and ZB-H2: the backward split
zb_v.py             ZB-V: stages in a V
v_shape.py          V-half and V-min: a V with less memory
dual_pipe_v.py      DualPipe on a V
zero_bubble.py      from costs, under a memory limit (zero_bubble_*.py: its clock, search and floors)
optimal.py          the best there is, by OR-tools, for small sizes

series.py, fill.py and v_letters.py are tools of several families; pause.py keeps the collector out.

Standard library only.
"""

from pllab.schedule.action import Action, Kind
from pllab.schedule.breadth_first import looped_breadth_first
from pllab.schedule.check import Problem, ScheduleError, check, problems
from pllab.schedule.costs_like import CostsLike
from pllab.schedule.dual_pipe_v import dual_pipe_v
from pllab.schedule.gpipe import gpipe
from pllab.schedule.interleaved import interleaved
from pllab.schedule.memory import Held, peak_in_flight
from pllab.schedule.needs import needs
from pllab.schedule.one_f_one_b import eager_one_f_one_b, one_f_one_b
from pllab.schedule.optimal import Optimum, optimal
from pllab.schedule.schedule import Schedule
from pllab.schedule.split import split_backwards
from pllab.schedule.v_shape import v_half, v_min
from pllab.schedule.zb_h import zb_h1, zb_h2
from pllab.schedule.zb_v import zbv
from pllab.schedule.zero_bubble import zero_bubble

__all__ = [
    "Action",
    "CostsLike",
    "Held",
    "Kind",
    "Optimum",
    "Problem",
    "Schedule",
    "ScheduleError",
    "check",
    "dual_pipe_v",
    "eager_one_f_one_b",
    "gpipe",
    "interleaved",
    "looped_breadth_first",
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
