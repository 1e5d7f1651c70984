"""Which spans decide how long a run takes: make one of them shorter and, until another chain takes over, it is."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from pllab.schedule import Schedule
from pllab.simulate.costs import Costs
from pllab.simulate.links import Links
from pllab.timeline import Span, Timeline

Link = Literal["start", "rank", "input"]


class PathStep(NamedTuple):
    """A span of the critical path, what held it back, and the seconds since the step before.

    Links: `start`, it is the first; `rank`, its rank was at work on the step before; `input`, the step before sends
    it what it needs, and `lag` is the message.
    """

    span: Span
    link: Link
    lag: float


def critical_path(schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> tuple[Span, ...]:
    """The chain of spans from start to end in which each had to wait for the one before it.

    Example, `simulate(one_f_one_b(2, 2))`, where rank 1 is the busy one and the last message goes back:

        rank 0 [F0] F1 .  .  B0 B0 .  [B1 B1]
        rank 1  .  [F0][B0 B0][F1][B1 B1]             0F0 1F0 1B0 1F1 1B1 0B1, 1 + 1 + 2 + 1 + 2 + 2 = 9 s

    In a simulated run the durations and lags add up to the makespan. In a measured one, what is left is launches.

    Args:
        schedule: what was run.
        timeline: of any engine.
        costs: how long messages take. A measured span that starts after its input came and its rank was free is
            linked to the later of the two; without costs messages are taken to be instant for that.

    Raises:
        ValueError: the timeline is not of this schedule.
    """
    return tuple(step.span for step in critical_steps(schedule, timeline, costs))


def critical_steps(schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> tuple[PathStep, ...]:
    """The critical path with what links each span to the one before; arguments as `critical_path`."""
    links = Links(schedule, timeline, costs)
    return tuple(_backwards(links, timeline.engine == "simulated"))[::-1]


def _backwards(links: Links, exact: bool) -> Iterator[PathStep]:
    """From the span that ends last to the one nothing held back."""
    earlier = {id(span): before for row in links.rows for before, span in zip(row, row[1:], strict=False)}
    span = max((row[-1] for row in links.rows if row), key=lambda span: span.end, default=None)
    while span is not None:
        before, sent = earlier.get(id(span)), links.last_input(span)
        link = _link(span, before, sent, links, exact)
        cause = {"start": None, "rank": before, "input": sent}[link]
        yield PathStep(span, link, span.start - cause.end if cause else 0.0)
        span = cause


def _link(span: Span, before: Span | None, sent: Span | None, links: Links, exact: bool) -> Link:
    """The later of two: the rank was free, the input was there."""
    if before is None:
        return "start" if sent is None else "input"
    if sent is None:
        return "rank"
    if exact:  # the virtual clock launches at once, so a rank that was free earlier waited for its input
        return "input" if span.start > before.end else "rank"
    return "input" if links.arrival(sent) > before.end else "rank"
