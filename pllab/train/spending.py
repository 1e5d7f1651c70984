"""Where the training time went: a stopwatch for each rank, and the timelines of its pipeline.

    work        forward and backward
    bubble      waiting that the order of the schedule makes even if all its actions take equally long
    imbalance   waiting for a device whose work takes longer
    messages    calls of `pllab.comm` that the work waits for, packets between stages, and handing out and collecting
                a pipeline's work; what PyTorch's classes, GPUs and the ranks of one stage send is part of the work
    data        making a batch, counting its tokens, reporting
    optimizer   gradient norm, clipping and update

They are device-seconds, two lanes for three seconds are six, and add up to the training time of all devices.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, get_args

import torch

from pllab.comm.devices import event_after, is_gpu
from pllab.schedule import Schedule
from pllab.simulate import gaps, simulate
from pllab.timeline import Timeline

Cause = Literal["work", "bubble", "imbalance", "messages", "data", "optimizer"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
Seconds = dict[Cause, float]
Mark = float | torch.Event


@dataclass
class Stopwatch:
    """Says after some work what the time since the last lap was for.

    Example: `watch.lap("data")` once the batch is there, `watch.lap("work")` after the backward, `watch.end_step()`.

    On a GPU a lap is an event, so that nothing waits: call `steps` when the GPU has finished.
    """

    device: torch.device

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget all steps; the first lap of the next one begins now."""
        self._start = self._now()
        self._steps: list[list[tuple[Cause | None, Mark]]] = [[]]
        self._within: list[list[tuple[Cause, float]]] = [[]]

    def lap(self, cause: Cause | None) -> None:
        """Put the time since the last lap down to this cause; to none, and it does not count."""
        laps = self._steps[-1]
        if laps and laps[-1][0] == cause:
            laps.pop()
        laps.append((cause, self._now()))

    def within(self, cause: Cause, seconds: float) -> None:
        """Put seconds that lie within the work of this step down to another cause."""
        self._within[-1].append((cause, seconds))

    def end_step(self) -> None:
        """The laps from now on belong to the next step."""
        self._steps.append([])
        self._within.append([])

    def steps(self) -> list[Seconds]:
        """The seconds of every ended step by cause."""
        before, steps = self._start, []
        for laps, within in zip(self._steps[:-1], self._within, strict=False):
            seconds = dict.fromkeys(CAUSES, 0.0)
            for part_of, part in within:
                seconds[part_of] += part
                seconds["work"] -= part
            for cause, mark in laps:
                if cause is not None:
                    seconds[cause] += _between(before, mark)
                before = mark
            steps.append(seconds)
        return steps

    def _now(self) -> Mark:
        if not is_gpu(self.device):
            return time.perf_counter()
        return event_after(torch.accelerator.current_stream(self.device), is_timed=True)


def _between(start: Mark, end: Mark) -> float:
    if isinstance(start, torch.Event) and isinstance(end, torch.Event):
        return start.elapsed_time(end) / 1e3
    assert isinstance(start, float) and isinstance(end, float)
    return end - start


class Inside(NamedTuple):
    """The device-seconds of one batch in a pipeline, from its first action to its last."""

    total: float
    busy: float
    waited: float
    """For the work of another device; the rest of the idle time is messages."""

    @classmethod
    def of(cls, schedule: Schedule, timeline: Timeline) -> Self:
        """Add up the timeline of a batch that took this schedule."""
        waits = (gap.duration for gap in gaps(schedule, timeline) if gap.cause not in ("message", "launch"))
        return cls(timeline.num_ranks * timeline.makespan, timeline.busy, sum(waits))


def pipeline_time(steps: Sequence[Seconds], schedule: Schedule, inside: Sequence[Inside]) -> Seconds:
    """The device-seconds of a pipeline in some steps, whose seconds of "work" are those in which it had a batch.

    The bubble is the idle time of the schedule in a simulation where F, I and W take equally long, for as much work;
    what a device waited beyond that for another one's work is imbalance.

    Example: two lanes had batches for 10 s, in which they computed for 14 of 20 device-seconds and waited 5 for each
    other, under a schedule with a bubble overhead of 1/4: work 14, bubble 3.5, imbalance 1.5, messages 1.
    """
    device_s: Seconds = {cause: schedule.num_ranks * sum(step[cause] for step in steps) for cause in CAUSES}
    busy, waited = sum(each.busy for each in inside), sum(each.waited for each in inside)
    bubble = min(waited, busy * simulate(schedule).bubble_overhead)
    messages = device_s["messages"] + device_s["work"] - busy - waited
    return device_s | {"work": busy, "bubble": bubble, "imbalance": waited - bubble, "messages": messages}


def replicas_time(steps: Sequence[Seconds], messages_of_ranks: Sequence[Sequence[float]]) -> Seconds:
    """The seconds of one replica over its steps, given the seconds that each rank spent on the messages of each step.

    The rank that came last waited for the messages alone; what another waited longer is imbalance.

    Example: a step's messages took 3 s on rank 0 and 1 s on rank 1: on rank 0, 1 s of messages and 2 s of imbalance.
    """
    total: Seconds = {cause: sum(step[cause] for step in steps) for cause in CAUSES}
    messages = sum(min(of_step) for of_step in zip(*messages_of_ranks, strict=True))
    return total | {"messages": messages, "imbalance": total["messages"] - messages}
