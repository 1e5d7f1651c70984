"""Looped breadth-first: several stages a rank, each of which takes all micro-batches before the next stage starts."""

from itertools import chain

from pllab.schedule.action import Action, Kind
from pllab.schedule.pause import collector_paused
from pllab.schedule.schedule import Schedule
from pllab.schedule.series import series
from pllab.schedule.sizes import check_sizes


@collector_paused()
def looped_breadth_first(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> Schedule:
    """GPipe over a loop: rank `r` of `p` has the stages `r`, `p + r`, ... and runs them one after the other.

    Two ranks with two stages each and three micro-batches, a backward as long as a forward:

        rank 0  0F0 0F1 0F2 2F0 2F1 2F2  .   .  2B0 2B1 2B2 0B0 0B1 0B2
        rank 1   .  1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B1 3B2 1B0 1B1 1B2  .

    A stage goes up once and down once for the whole batch, which suits weights that are sharded and gathered. The
    bubble overhead is `(p - 1) / (v m)` from `m = p` on, as for `interleaved`; a rank holds all `v m` activations.

    Raises:
        ValueError: a size below 1.

    Source: Lamy-Poirier, Breadth-First Pipeline Parallelism (2023); `ScheduleLoopedBFS` in
    torch.distributed.pipelining, which runs the backwards of a stage in the reverse order.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, stages_per_rank=stages_per_rank)
    rows = (_row(range(rank, num_ranks * stages_per_rank, num_ranks), num_microbatches) for rank in range(num_ranks))
    return Schedule(tuple(rows), f"looped breadth-first, {stages_per_rank} stages a rank")


def _row(stages: range, num_microbatches: int) -> tuple[Action, ...]:
    loops = ((Kind.F, stages), (Kind.B, stages[::-1]))
    parts = (series(stage, kind, range(num_microbatches)) for kind, loop in loops for stage in loop)
    return tuple(chain.from_iterable(parts))
