"""What a trace is read into: the values that the rest of the package draws, checks and simulates."""

from dataclasses import dataclass
from typing import Literal

from pllab.schedule import Kind, Schedule
from pllab.timeline import Timeline

Clock = Literal["kernel", "issue", "host", "pllab"]
"""Whose time the spans have: the GPU's kernels; the CPU that issued work to a GPU; the CPU that did the work; ours."""


@dataclass(frozen=True)
class Recorded:
    """One step of a recorded run: what every rank did in which order, and when.

    Example: with `recorded = read_trace(["rank0.json", "rank1.json"])`,
    `estimate([(recorded.schedule, recorded.timeline)])` is what its stages cost.

    Args:
        schedule: per rank, its F, B, I and W in the order of their starts.
        timeline: the same actions with their times, from zero, and communication as kind C.
        clock: whose time it is.
        note: what a reader has to know about these times, in words.
        step: number of the step, as the profiler or the order in the file counts.
        steps: all steps of the trace.
    """

    schedule: Schedule
    timeline: Timeline
    clock: Clock
    note: str
    step: int
    steps: tuple[int, ...]

    @property
    def has_backward(self) -> bool:
        """Whether it trains; costs and so a prediction need a forward and a backward of every stage."""
        return any(action.kind is not Kind.F for action in self.schedule.actions())
