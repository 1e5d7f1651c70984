"""Where the time of a run went: the cause of every idle gap, and the spans that decide how long the run takes.

Both combine the data flow of the schedule with the spans of a timeline, from any engine.
"""

from collections.abc import Iterator
from math import fsum
from typing import Literal, NamedTuple, get_args

from pllab.schedule import Action, Costs, Kind, Schedule, needs
from pllab.timeline import Span, Timeline


class Links:
    """The spans of a run by action and by rank, and the inputs each had to wait for.

    Args:
        schedule: the schedule that was run; its actions say which backwards are split.
        timeline: its timeline, from any engine.
        costs: how long messages take; without costs they take no time here.

    Raises:
        ValueError: the timeline has an action that is not in the schedule.
    """

    def __init__(self, schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> None:
        self.num_stages = schedule.num_stages
        self.costs = costs
        self.rows = [tuple(span for _, span in timeline.work_of(rank)) for rank in range(timeline.num_ranks)]
        self.of_action = {action_of(span): span for row in self.rows for span in row if span.action.kind in "FBIW"}
        self._received = {(span.rank, span.end) for span in timeline.spans if span.action.kind == Kind.C}
        foreign = self.of_action.keys() - set(schedule.actions())
        if foreign:
            raise ValueError(f"the timeline has {min(foreign)} but the schedule has not; pass the schedule it is of")

    def last_input(self, span: Span) -> Span | None:
        """The input from other ranks that arrived last; None if every input is from this rank."""
        return max(self._from_others(span), key=self.arrival, default=None)

    def arrival(self, sent: Span) -> float:
        """When the result of a span reaches the next rank, by the costs."""
        return sent.end + (self.costs.p2p if self.costs else 0.0)

    def waited_to_receive(self, span: Span) -> bool:
        """Whether a recorded communication of the rank ended as the span began: then it waited for its input."""
        return (span.rank, span.start) in self._received

    def _from_others(self, span: Span) -> Iterator[Span]:
        if span.action.kind not in "FBIW":
            return
        for need in needs(action_of(span), self.num_stages, self.of_action):
            sent = self.of_action.get(need)
            # An input that began later did not hold it up: the clocks of two measured ranks differ a little.
            if sent is not None and sent.rank != span.rank and sent.start <= span.start:
                yield sent


def action_of(span: Span) -> Action:
    """The action of a span as an `Action` of a schedule."""
    action = span.action
    return action if isinstance(action, Action) else Action(action.stage, Kind(action.kind), action.microbatch)


Cause = Literal["start-up", "action", "message", "launch", "drain"]


class Gap(NamedTuple):
    """An idle gap of a rank, its cause, and the action of another rank it waited for.

    Causes: `start-up`, before the rank's first action; `action`, another rank had not finished `waited_for`;
    `message`, the result was on its way; `launch`, nothing was missing but the rank had not started, which does not
    happen in the simulator; `drain`, after the rank's last action.
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
        reason = f"it waits for {self.waited_for}" if self.waited_for else self.cause
        return f"rank {self.rank} is idle for {self.duration:.4g} s at {self.start:.4g} s: {reason}"


def gaps(schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> tuple[Gap, ...]:
    """All idle time of a run, divided by cause; together the gaps are `timeline.idle` device-seconds.

    Example, `simulate(one_f_one_b(2, 2))` on rank 0, where B0 of rank 1 ends at 4 and B1 at 7:

        rank 0  F0 F1 -  -  B0 B0 -  B1 B1      gap 2-4 action 1B0, gap 6-7 action 1B1
        rank 1  -  F0 B0 B0 F1 B1 B1 -  -       gap 0-1 start-up 0F0, gap 7-9 drain

    If a wait outlasts the awaited action, the rest of it is a `message`. In a measured run the rest is a message and a
    launch. With `costs` the two are told apart; without them all of it counts as `message`, and so it does where the
    timeline has a communication of the rank that ends as the action begins.

    Args:
        schedule: the schedule that was run.
        timeline: its timeline, from any engine.
        costs: how long messages take.

    Returns:
        Gaps by rank, in order of time.

    Raises:
        ValueError: the timeline is not of this schedule.
    """
    links = Links(schedule, timeline, costs)
    return tuple(
        gap for rank in range(timeline.num_ranks) for gap in _of_rank(rank, timeline, links) if gap.end > gap.start
    )


class IdleCause(NamedTuple):
    """A cause, its seconds on all ranks together, and its share of all idle time."""

    cause: Cause
    seconds: float
    share: float

    @property
    def words(self) -> str:
        """The cause in words: `drain` is "after a rank's last action"."""
        return {
            "start-up": "before a rank's first action",
            "action": "another rank was not done",
            "message": "the result was on its way",
            "launch": "nothing was missing: the rank was about to start, or still sending",
            "drain": "after a rank's last action",
        }[self.cause]


def idle_causes(schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> tuple[IdleCause, ...]:
    """The idle time of a run by cause; the seconds add up to `timeline.idle`, and the shares to 1.

    Example, `simulate(one_f_one_b(2, 2))`, whose ranks are idle for 6 s of 18:

        start-up  1 s  1/6      rank 1 waits for 0F0
        action    3 s  3/6      rank 0 waits for 1B0 and for 1B1
        message   0 s  0        they take no time here
        launch    0 s  0
        drain     2 s  2/6      rank 1 is done

    Args:
        schedule: the schedule that was run.
        timeline: its timeline, from any engine.
        costs: how long messages take; see `gaps`.

    Returns:
        Every cause, in this order; of a run that is never idle all shares are 0.

    Raises:
        ValueError: the timeline is not of this schedule.
    """
    seconds: dict[Cause, list[float]] = {cause: [] for cause in get_args(Cause)}
    for gap in gaps(schedule, timeline, costs):
        seconds[gap.cause].append(gap.duration)
    sums = {cause: fsum(durations) for cause, durations in seconds.items()}
    total = fsum(sums.values())
    return tuple(IdleCause(cause, idle, idle / total if total else 0.0) for cause, idle in sums.items())


def _of_rank(rank: int, timeline: Timeline, links: Links) -> Iterator[Gap]:
    for start, end, span in timeline.idle_times(rank):
        if span is None:
            yield Gap(rank, start, end, "drain", None)
        elif span is links.rows[rank][0]:
            yield Gap(rank, start, span.start, "start-up", _action(links.last_input(span)))
        else:
            yield from _between(start, span, links)


def _between(start: float, span: Span, links: Links) -> Iterator[Gap]:
    """Cut the gap before a span into three: until its input was computed, until it arrived, until the span started."""
    sent = links.last_input(span)
    if sent is None:
        yield Gap(span.rank, start, span.start, "launch", None)
        return
    computed = min(max(start, sent.end), span.start)
    is_seen = links.costs is None or links.waited_to_receive(span)
    arrived = span.start if is_seen else min(max(computed, links.arrival(sent)), span.start)
    yield Gap(span.rank, start, computed, "action", _action(sent))
    yield Gap(span.rank, computed, arrived, "message", _action(sent))
    yield Gap(span.rank, arrived, span.start, "launch", None)


def _action(span: Span | None) -> Action | None:
    return None if span is None else action_of(span)


Link = Literal["start", "rank", "input"]


class PathStep(NamedTuple):
    """A span of the critical path, what held it back, and the seconds since the step before.

    Links: `start`, it is the first; `rank`, its rank was busy with the step before; `input`, the step before sends its
    input, and `lag` is the message.
    """

    span: Span
    link: Link
    lag: float


def critical_steps(schedule: Schedule, timeline: Timeline) -> tuple[PathStep, ...]:
    """The critical path: the chain of spans, from start to end, each of which waited for the one before it.

    Example, `simulate(one_f_one_b(2, 2))`, where rank 1 is the busy one and the last message goes back:

        rank 0 [F0] F1 .  .  B0 B0 .  [B1 B1]
        rank 1  .  [F0][B0 B0][F1][B1 B1]             0F0 1F0 1B0 1F1 1B1 0B1, 1 + 1 + 2 + 1 + 2 + 2 = 9 s

    In a simulated run the durations and lags add up to the makespan. In a measured one the rest is launches, and a span
    waited for its input where that was made later than its rank was free.

    Args:
        schedule: the schedule that was run.
        timeline: its timeline, from any engine.

    Raises:
        ValueError: the timeline is not of this schedule.
    """
    links = Links(schedule, timeline)
    return tuple(_backwards(links, timeline.engine == "simulated"))[::-1]


def _backwards(links: Links, exact: bool) -> Iterator[PathStep]:
    """From the span that ends last back to the span that waited for nothing."""
    earlier = {id(span): before for row in links.rows for before, span in zip(row, row[1:], strict=False)}
    span = max((row[-1] for row in links.rows if row), key=lambda span: span.end, default=None)
    while span is not None:
        before, sent = earlier.get(id(span)), links.last_input(span)
        link = _link(span, before, sent, exact)
        cause = {"start": None, "rank": before, "input": sent}[link]
        yield PathStep(span, link, span.start - cause.end if cause else 0.0)
        span = cause


def _link(span: Span, before: Span | None, sent: Span | None, exact: bool) -> Link:
    """Which came later: the free rank or the input."""
    if before is None:
        return "start" if sent is None else "input"
    if sent is None:
        return "rank"
    if exact:  # the virtual clock launches at once, so a rank that was free earlier waited for its input
        return "input" if span.start > before.end else "rank"
    return "input" if sent.end > before.end else "rank"
