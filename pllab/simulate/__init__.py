"""The virtual clock runs a schedule without a device; the other files say where the time of a run went.

clock.py        when every action would start and end
estimation.py   costs from measured runs
idle.py         the cause of every idle gap, their sums, and the spans that decide how long a run takes
messages.py     what messages cost, and collectives made of them

No torch; standard library only.
"""

from pllab.schedule import Costs
from pllab.simulate.clock import action_times, simulate
from pllab.simulate.estimation import estimate
from pllab.simulate.idle import Gap, IdleCause, critical_steps, gaps, idle_causes
from pllab.simulate.messages import MessageCost, leave_when_ready, simulate_transfers

__all__ = [
    "Costs",
    "Gap",
    "IdleCause",
    "MessageCost",
    "action_times",
    "critical_steps",
    "estimate",
    "gaps",
    "idle_causes",
    "leave_when_ready",
    "simulate",
    "simulate_transfers",
]
