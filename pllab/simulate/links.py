"""What the spans of a timeline wait for: the schedule's data flow, laid over times."""

from collections.abc import Iterator

from pllab.schedule import Action, Kind, Schedule, needs
from pllab.simulate.costs import Costs
from pllab.timeline import Span, Timeline

IDLE_KINDS = frozenset("C")
"""Spans that leave the device free; the timeline does not count them as busy either."""


class Links:
    """The spans of a run by action and by rank, and what each had to wait for.

    Args:
        schedule: what was run; its actions say which backwards are split.
        timeline: of any engine.
        costs: how long messages take; without it they take no time here.

    Raises:
        ValueError: the timeline has an action that the schedule has not.
    """

    def __init__(self, schedule: Schedule, timeline: Timeline, costs: Costs | None = None) -> None:
        self.num_stages = schedule.num_stages
        self.costs = costs
        self.rows = [
            tuple(span for span in timeline.of_rank(rank) if span.action.kind not in IDLE_KINDS)
            for rank in range(timeline.num_ranks)
        ]
        self.of_action = {action_of(span): span for row in self.rows for span in row if span.action.kind in "FBIW"}
        foreign = self.of_action.keys() - set(schedule.actions())
        if foreign:
            raise ValueError(f"the timeline has {min(foreign)} and the schedule has not; pass the schedule it is of")

    def last_input(self, span: Span) -> Span | None:
        """Of what other ranks had to send, what arrived last; None where all was on this rank."""
        return max(self._from_others(span), key=self.arrival, default=None)

    def arrival(self, sent: Span) -> float:
        """When the result of a span is at the next rank, as far as the costs say."""
        return sent.end + self.message(sent)

    def message(self, sent: Span) -> float:
        """Seconds on the way, as far as the costs say."""
        stage = sent.action.stage
        receiver = stage + 1 if sent.action.kind == "F" else stage - 1
        return self.costs.message(stage, receiver) if self.costs else 0.0

    def _from_others(self, span: Span) -> Iterator[Span]:
        if span.action.kind not in "FBIW":
            return
        for need in needs(action_of(span), self.num_stages, self.of_action):
            sent = self.of_action.get(need)
            # An input that began later was not waited for: the clocks of two measured ranks differ a little.
            if sent is not None and sent.rank != span.rank and sent.start <= span.start:
                yield sent


def action_of(span: Span) -> Action:
    """The action of a span as a schedule has it."""
    action = span.action
    return action if isinstance(action, Action) else Action(action.stage, Kind(action.kind), action.microbatch)
