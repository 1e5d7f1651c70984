"""GPipe: all forwards, then all backwards."""

from pllab.schedule.action import Action, Kind
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.sizes import check_sizes


@collector_paused()
def gpipe(num_stages: int, num_microbatches: int) -> Schedule:
    """Every stage runs all forwards, then all backwards: simple, and it holds all `m` micro-batches at once.

    Two stages and three micro-batches, time to the right:

        rank 0  F0 F1 F2 .  .  B0 B1 B2
        rank 1  .  F0 F1 F2 B0 B1 B2 .

    The backwards run in the order of the forwards, as torch.distributed.pipelining has it; the makespan is the same
    in either order.

    Raises:
        ValueError: a size below 1.

    Source: Huang et al., GPipe (2019), figure 2c; `ScheduleGPipe` in torch.distributed.pipelining.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    rows = (
        tuple(Action(stage, kind, m) for kind in (Kind.F, Kind.B) for m in range(num_microbatches))
        for stage in range(num_stages)
    )
    return Schedule(tuple(rows), "GPipe")
