"""Costs from measured runs: how long each kind of work took, how long messages travelled, how long a start took.

A simulation with these costs predicts other schedules of the same stages on the same machine.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from pllab.schedule import Costs, Kind, Schedule
from pllab.simulate.idle import Links
from pllab.timeline import Timeline

_Samples = defaultdict[tuple[Kind, int], list[float]]


def estimate(runs: Iterable[tuple[Schedule, Timeline]]) -> Costs:
    """The costs that explain runs of the same stages; each run is a schedule with its timeline.

    Example: `estimate([(schedule, simulate(schedule, costs))])` is `costs` again. Every stage needs a forward and a
    backward in some run. A kind that no run has follows from the others: B is I plus W, and I and W are half a B each.

    Starting an action takes time in a measured run even if its input is there. This `launch` is added to the action's
    cost, since the simulator starts at once. A message is the wait after the result was computed, minus a launch. Each
    cost is the mean of the middle half of its samples: means can be added up, and outliers are left out.

    Raises:
        ValueError: there is no run, a timeline is not of its schedule, or a stage has no forward or backward.
    """
    work: _Samples = defaultdict(list)
    launches: list[float] = []
    messages: list[float] = []
    num_stages = 0
    for schedule, timeline in runs:
        num_stages = max(num_stages, schedule.num_stages)
        links = Links(schedule, timeline)
        for row in links.rows:
            for span in row:
                work[Kind(span.action.kind), span.action.stage].append(span.duration)
            for before, span in pairwise(row):
                sent = links.last_input(span)
                if sent is None:  # of one that was sent long before, nobody knows when it arrived
                    launches.append(max(0.0, span.start - before.end))
                elif sent.end > before.end:  # the rank was free and waited for it
                    messages.append(max(0.0, span.start - sent.end))
    if not num_stages:
        raise ValueError("there is no run to estimate from; give at least one schedule with its timeline")
    launch = _middle(launches)
    stages = [_of_stage(work, stage, launch) for stage in range(num_stages)]
    forward, by_input, by_weight, whole = zip(*stages, strict=True)
    return Costs(forward, by_input, by_weight, max(0.0, _middle(messages) - launch), whole)


def _of_stage(work: _Samples, stage: int, launch: float) -> tuple[float, float, float, float]:
    """What F, I, W and B of a stage take."""
    taken = {kind: _middle(work[kind, stage]) + launch for kind in Kind if work.get((kind, stage))}
    if Kind.F not in taken or not (Kind.B in taken or taken.keys() >= {Kind.I, Kind.W}):
        raise ValueError(f"no run has a forward and a backward of stage {stage}; add one that has")
    whole = taken[Kind.B] if Kind.B in taken else taken[Kind.I] + taken[Kind.W]
    return taken[Kind.F], taken.get(Kind.I, whole / 2), taken.get(Kind.W, whole / 2), whole


def _middle(samples: list[float]) -> float:
    """The mean of the middle half; 0 if there are no samples."""
    cut = len(samples) // 4
    middle = sorted(samples)[cut : len(samples) - cut]
    return sum(middle) / len(middle) if middle else 0.0
