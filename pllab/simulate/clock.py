"""The virtual clock: schedule and costs in, timeline out."""

from itertools import chain, repeat

from pllab.schedule import Costs, Schedule, Walk, check
from pllab.timeline import Span, Timeline

Times = tuple[list[float], ...]
"""Seconds, per rank in the order of its row."""


def simulate(schedule: Schedule, costs: Costs | None = None) -> Timeline:
    """Run a schedule on the virtual clock: an action starts once its rank is free and its input is there.

    Example, 1F1B with two stages, two micro-batches and a second for each of F, I and W, so two for a B:

        rank 0  F0 F1 .  B0 B0 .  B1 B1
        rank 1  .  F0 B0 B0 F1 B1 B1 .

    `simulate(one_f_one_b(2, 2))` ends after 9 s: B1 of rank 1 ends at 7, and B1 of rank 0 takes two more. With
    `Costs(p2p=0.5)` every rank waits half a second longer for each message.

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
    spans = chain.from_iterable(map(Span, repeat(rank), *row) for rank, row in enumerate(rows))
    return Timeline.of(spans, "simulated", schedule.num_ranks)


def action_times(schedule: Schedule, costs: Costs) -> tuple[Times, Times]:
    """When every action of a schedule starts and ends, as plain numbers; `simulate` makes spans of them.

    Example: rank 0 of `one_f_one_b(2, 2)` starts at `[0.0, 1.0, 4.0, 7.0]`; its row is F0 F1 B0 B1.

    Raises:
        ScheduleError: a ValueError; the schedule is illegal.
        ValueError: the costs are for another number of stages.
    """
    check(schedule)
    costs.check_stages(schedule.num_stages)
    walk = Walk(schedule, costs)
    return walk.starts, walk.ends
