"""The virtual clock: it runs a schedule without a device, and says of any timeline where the time went.

costs.py           what work and messages cost
clock.py           when every action would start and end
simulate.py        schedule and costs in, timeline out
estimate.py        costs back out of measured runs
critical_path.py   which spans decide how long a run takes
gaps.py            what every idle gap waited for
held.py            how many micro-batches a rank holds, over time
formulas.py        what theory says
judge.py           rows of theory and print beside what the simulator says

No torch; standard library only.
"""

from pllab.simulate import formulas
from pllab.simulate.clock import Times, action_times
from pllab.simulate.costs import Costs
from pllab.simulate.critical_path import PathStep, critical_path, critical_steps
from pllab.simulate.estimate import estimate
from pllab.simulate.gaps import Gap, gaps
from pllab.simulate.held import held_over_time
from pllab.simulate.simulate import simulate

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
    "held_over_time",
    "simulate",
]
