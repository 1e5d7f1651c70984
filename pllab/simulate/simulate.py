"""Schedule and costs in, timeline out."""

from itertools import chain, repeat

from pllab.schedule import Schedule
from pllab.schedule.pause import collector_paused
from pllab.simulate.clock import action_times
from pllab.simulate.costs import Costs
from pllab.timeline import Span, Timeline


def simulate(schedule: Schedule, costs: Costs | None = None) -> Timeline:
    """Run a schedule on the virtual clock: an action starts once its rank is free and its input is there.

    Example, 1F1B with two stages, two micro-batches and a second for each of F, I and W, so two for a B:

        rank 0  F0 F1 .  B0 B0 .  B1 B1
        rank 1  .  F0 B0 B0 F1 B1 B1 .

    `simulate(one_f_one_b(2, 2))` ends after 9 s: B1 of rank 1 ends at 7, and B1 of rank 0 takes two more. With
    `Costs(p2p=0.5)` every rank waits half a second longer for what comes from the other.

    Args:
        schedule: what every rank does, in order.
        costs: seconds of work and of messages; by default one second each, and messages take no time.

    Returns:
        A timeline of the engine "simulated" whose clock starts at 0.

    Raises:
        ScheduleError: a ValueError; the schedule is illegal.
        ValueError: the costs are for another number of stages.
    """
    starts, ends = action_times(schedule, costs or Costs())
    rows = zip(schedule.rows, starts, ends, strict=True)
    with collector_paused():
        spans = chain.from_iterable(map(Span, repeat(rank), *row) for rank, row in enumerate(rows))
        return Timeline.of(spans, "simulated", schedule.num_ranks)
