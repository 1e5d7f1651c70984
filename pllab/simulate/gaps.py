"""Where the bubble comes from: for every idle gap of a rank, what it waited for."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from pllab.schedule import Action, Schedule
from pllab.simulate.costs import Costs
from pllab.simulate.links import Links, action_of
from pllab.timeline import Span, Timeline

Cause = Literal["start-up", "action", "message", "launch", "drain"]


class Gap(NamedTuple):
    """Idle seconds of a rank, why, and for which action of another rank it waited.

    Causes: `start-up` before the rank's first action; `action`: another rank had not finished `waited_for`;
    `message`: it had, and the result was on its way; `launch`: nothing was missing and the rank did not start, which
    only happens outside the simulator; `drain` after the rank's last action, while others go on.
    """

    rank: int
    start: float
    end: float
    cause: Cause
    waited_for: Action | None

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start

    def __str__(self) -> str:
        reasons = {
            "start-up": f"its first input comes from {self.waited_for}" if self.waited_for else "it starts late",
            "action": f"it waits for {self.waited_for}",
            "message": f"the result of {self.waited_for} is on its way",
            "launch": "nothing is missing, and it has not started yet",
            "drain": "its work is done",
        }
        return f"rank {self.rank} is idle for {self.duration:.4g} s at {self.start:.4g} s: {reasons[self.cause]}"


def gaps(schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> tuple[Gap, ...]:
    """All idle time of a run, cut by cause; together the gaps are `timeline.idle` device-seconds.

    Example, `simulate(one_f_one_b(2, 2))` on rank 0, where B0 of rank 1 ends at 4 and B1 at 7:

        rank 0  F0 F1 -  -  B0 B0 -  B1 B1      gap 2-4 action 1B0, gap 6-7 action 1B1
        rank 1  -  F0 B0 B0 F1 B1 B1 -  -       gap 0-1 start-up 0F0, gap 7-9 drain

    A wait that outlasts the awaited action is cut where that action ends; the rest is `message`. In a measured run
    the rest is a message and a launch; `costs` say how much of it is message, without them all of it.

    Args:
        schedule: what was run.
        timeline: of any engine.
        costs: how long messages take.

    Returns:
        Gaps by rank, in order of time.

    Raises:
        ValueError: the timeline is not of this schedule.
    """
    links = Links(schedule, timeline, costs)
    return tuple(
        gap
        for rank, row in enumerate(links.rows)
        for gap in _of_rank(rank, row, links, timeline.start, timeline.end)
        if gap.end > gap.start
    )


def _of_rank(rank: int, row: tuple[Span, ...], links: Links, start: float, end: float) -> Iterator[Gap]:
    if not row:
        yield Gap(rank, start, end, "drain", None)
        return
    sent = links.last_input(row[0])
    yield Gap(rank, start, row[0].start, "start-up", _action(sent))
    reached = row[0].end
    for before, span in pairwise(row):
        reached = max(reached, before.end)
        if span.start > reached:
            yield from _between(reached, span, links)
    yield Gap(rank, max(reached, row[-1].end), end, "drain", None)


def _between(start: float, span: Span, links: Links) -> Iterator[Gap]:
    """Cut one gap before a span: until its input was computed, until it was there, until it started."""
    sent = links.last_input(span)
    if sent is None:
        yield Gap(span.rank, start, span.start, "launch", None)
        return
    computed = min(max(start, sent.end), span.start)
    arrived = span.start if links.costs is None else min(max(computed, links.arrival(sent)), span.start)
    yield Gap(span.rank, start, computed, "action", _action(sent))
    yield Gap(span.rank, computed, arrived, "message", _action(sent))
    yield Gap(span.rank, arrived, span.start, "launch", None)


def _action(span: Span | None) -> Action | None:
    return None if span is None else action_of(span)
