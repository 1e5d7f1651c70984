"""Runs as an engine measured them, on a clock that does not start at zero."""

from pllab.schedule import Action, Kind
from pllab.simulate import simulate
from pllab.timeline import Span, Timeline


def recorded(timeline, engine="real", slower=1.0):
    """The same run, `slower` times as long."""
    spans = (span._replace(start=7 + slower * span.start, end=7 + slower * span.end) for span in timeline.spans)
    return Timeline.of(spans, engine, timeline.num_ranks)


def emulate(schedule, costs):
    """A run that takes a quarter longer than its prediction."""
    return recorded(simulate(schedule, costs), "emulated", 1.25)


def run_forward_only():
    """Two devices, three micro-batches forward, 100 ms each: idle 2 of 8."""
    places = [(rank, index) for rank in range(2) for index in range(3)]
    spans = [Span(rank, Action(rank, Kind.F, index), rank + index, rank + index + 1) for rank, index in places]
    return recorded(Timeline.of(spans, "real", 2), slower=0.1)
