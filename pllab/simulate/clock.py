"""The virtual clock: schedule and costs in, timeline out."""

from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple

from pllab.schedule import Costs, Kind, Schedule, Walk, check, collector_paused
from pllab.timeline import Span, Timeline


class Times(NamedTuple):
    """Starts and ends in seconds, per rank in the order of its row."""

    starts: tuple[list[float], ...]
    ends: tuple[list[float], ...]


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
    with collector_paused():
        spans = chain.from_iterable(map(Span, repeat(rank), *row) for rank, row in enumerate(rows))
        return Timeline.of(spans, "simulated", schedule.num_ranks)


def action_times(schedule: Schedule, costs: Costs) -> Times:
    """When every action of a schedule starts and ends, as plain numbers; `simulate` makes spans of them.

    Example: rank 0 of `one_f_one_b(2, 2)` starts at `[0.0, 1.0, 4.0, 7.0]`; its row is F0 F1 B0 B1.

    Raises:
        ScheduleError: a ValueError; the schedule is illegal.
        ValueError: the costs are for another number of stages.
    """
    if _is_placed(schedule):
        costs.check_stages(schedule.num_stages)
        walk = Walk(schedule, costs)
        if walk.is_over():
            return Times(walk.starts, walk.ends)
    check(schedule)  # which says what is wrong
    raise AssertionError("check passed a schedule that the simulator could not finish")


def _is_placed(schedule: Schedule) -> bool:
    """Whether a walk is possible: one rank per stage, only kinds that run, no number below zero."""
    actions = tuple(schedule.actions())
    homes = [set(map(itemgetter(0), row)) for row in schedule.rows]
    stages = set().union(*homes)
    work = 2 * schedule.num_stages * schedule.num_microbatches  # a split backward is one more
    return (
        all(homes)
        and sum(map(len, homes)) == len(stages) == schedule.num_stages > 0 == min(stages)
        and set(map(itemgetter(1), actions)) <= {Kind.F, Kind.B, Kind.I, Kind.W}
        and min(map(itemgetter(2), actions)) == 0
        and work <= len(actions) <= 1.5 * work
    )
