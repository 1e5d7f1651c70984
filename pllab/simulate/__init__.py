"""The virtual clock: it runs a schedule without a device, and says of any timeline where the time went.

costs.py        what work and messages cost
clock.py        when every action would start and end
estimation.py   costs back out of measured runs
idle.py         what every idle gap waited for, and which spans decide how long a run takes
formulas.py     what theory says

No torch; standard library only.
"""

from pllab.simulate import formulas
from pllab.simulate.clock import Times, action_times, simulate
from pllab.simulate.costs import Costs
from pllab.simulate.estimation import estimate
from pllab.simulate.idle import Gap, PathStep, critical_path, critical_steps, gaps

__all__ = [
    "Costs",
    "Gap",
    "PathStep",
    "Times",
    "action_times",
    "critical_path",
    "critical_steps",
    "estimate",
    "formulas",
    "gaps",
    "simulate",
]
