"""Costs from measured runs: how long each kind of work took, how long messages travelled, how long a start took.

A simulation with these costs predicts other schedules of the same stages on the same machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from pllab.schedule import Kind, Schedule
from pllab.simulate.costs import Costs
from pllab.simulate.idle import Links
from pllab.timeline import Span, Timeline

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
            launches += _launches(row, links)
            messages += _messages(row, links)
    launch = _middle(launches)
    return _costs(work, num_stages, launch, max(0.0, _middle(messages) - launch))


def _costs(work: _Samples, num_stages: int, launch: float, p2p: float) -> Costs:
    def per_stage(kind: Kind) -> list[float | None]:
        samples = (work.get((kind, stage)) for stage in range(num_stages))
        return [_middle(seconds) + launch if seconds else None for seconds in samples]

    forward, whole, by_input, by_weight = map(per_stage, (Kind.F, Kind.B, Kind.I, Kind.W))
    for stage in range(num_stages):
        if forward[stage] is None or (whole[stage] is None and by_input[stage] is None):
            raise ValueError(f"no run has a forward and a backward of stage {stage}; add one that has")
    if not num_stages:
        raise ValueError("there is no run to estimate from; give at least one schedule with its timeline")
    halves = [value / 2 if value is not None else None for value in whole]
    return Costs(
        forward=_filled_in(forward),
        backward_input=_filled_in(by_input, halves),
        backward_weight=_filled_in(by_weight, halves),
        backward=_filled_in(whole, [_sum(*pair) for pair in zip(by_input, by_weight, strict=True)]),
        p2p=p2p,
    )


def _launches(row: tuple[Span, ...], links: Links) -> Iterator[float]:
    """Gaps before actions whose input had arrived before the previous action began."""
    for before, span in pairwise(row):
        sent = links.last_input(span)
        if sent is None or sent.end <= before.start:
            yield max(0.0, span.start - before.end)


def _messages(row: tuple[Span, ...], links: Links) -> Iterator[float]:
    """From the end of the awaited action to the start of the one that waited for it."""
    for before, span in pairwise(row):
        sent = links.last_input(span)
        if sent is not None and sent.end > before.end:
            yield max(0.0, span.start - sent.end)


def _middle(samples: list[float]) -> float:
    """The mean of the middle half; 0 if there are no samples."""
    cut = len(samples) // 4
    middle = sorted(samples)[cut : len(samples) - cut]
    return sum(middle) / len(middle) if middle else 0.0


def _filled_in(values: list[float | None], instead: list[float | None] | None = None) -> tuple[float, ...]:
    filled = [value if value is not None else other for value, other in zip(values, instead or values, strict=True)]
    assert None not in filled, "every stage has been checked for a forward and a backward"
    return tuple(value for value in filled if value is not None)


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
