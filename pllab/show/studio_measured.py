"""A run to lay over a prediction: only one of the very schedule on screen may stand below it."""

from dataclasses import dataclass
from itertools import zip_longest

from pllab.schedule import Schedule
from pllab.simulate import Costs
from pllab.timeline import Timeline


@dataclass(frozen=True)
class Measured:
    """A run of a schedule on a real clock, and the costs its stages had if they slept.

    Raises:
        ValueError: the timeline is of another schedule; the sentence names the first difference.
    """

    schedule: Schedule
    costs: Costs
    timeline: Timeline

    def __post_init__(self) -> None:
        check_run(self.schedule, self.timeline)

    def fits(self, schedule: Schedule, costs: Costs) -> bool:
        """Whether it is still a run of what is on screen; real stages cost what they cost."""
        return schedule == self.schedule and (self.timeline.engine == "real" or costs == self.costs)


def check_run(schedule: Schedule, timeline: Timeline) -> None:
    """Refuse a timeline whose ranks did not do the rows of a schedule: F, B, I and W, in this order.

    Example: a run of `one_f_one_b(2, 3)` is refused for `one_f_one_b(2, 8)`: "the measured run is not of the schedule:
    action 6 of rank 0 is 0B2 in the run and 0F3 in the schedule; measure the schedule on screen".

    Raises:
        ValueError: naming the rank and the first difference.
    """
    for rank in range(max(schedule.num_ranks, timeline.num_ranks)):
        actions = (span.action for span in timeline.of_rank(rank))
        ran = [f"{one.stage}{one.kind}{one.microbatch}" for one in actions if one.kind in "FBIW"]
        row = map(str, schedule.rows[rank]) if rank < schedule.num_ranks else ()
        for place, (one, other) in enumerate(zip_longest(ran, row, fillvalue="nothing"), 1):
            if one != other:
                where = f"action {place} of rank {rank} is {one} in the run and {other} in the schedule"
                raise ValueError(f"the measured run is not of the schedule: {where}; measure the schedule on screen")
