"""A schedule on real threads and a real clock, with stages that sleep: what `simulate` predicts, run.

Arguments and unit are those of `simulate`, so that both timelines share one axis. The engine is the one that runs
GPT-2. Here the work of a stage is to sleep, and a wire holds each packet for the time of a message.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import torch

from pllab.pipeline.engine import NOTHING, Name, Packet, Record, Transport, Work, taken_by
from pllab.pipeline.lanes import Lanes
from pllab.pipeline.sleep import SleepStage, SleepWork
from pllab.schedule import Action, Kind, Schedule, check
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

_LONGEST_SLEEP_S = 0.02  # long beside the 0.1 ms that a hand-over takes, and short enough to wait for
_SPARE_S = 60.0  # beyond twice the predicted time


def run_emulated(schedule: Schedule, costs: Costs | None = None, unit_s: float | None = None) -> Timeline:
    """Run a schedule on stages that sleep as long as the costs say, and return the timeline in the costs' unit.

    Example, with `schedule, costs = one_f_one_b(4, 8), Costs(p2p=0.1)`: `simulate(schedule, costs)` has makespan 34.6,
    and `run_emulated(schedule, costs)` a little more.

    A widget runs what it shows with `BubbleStudio("1F1B", 4, 8, run=run_emulated)` or
    `ScheduleEditor(one_f_one_b(4, 6), run=run_emulated)`.

    F, B, I and W of every stage take the time that the costs say. So does a message to another rank, and no device is
    busy with it. Waking up and handing over add about 0.1 ms each, which matters most for short sleeps.

    Args:
        schedule: any legal schedule.
        costs: as for `simulate`; one unit each by default.
        unit_s: seconds of sleep for one unit of cost; by default the longest F, I or W sleeps 20 ms. Give 1.0 for
            costs in seconds, to run at their own speed.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the costs are for another number of stages, or `unit_s` is not above 0 and finite.
    """
    plan = _Plan.of(schedule, costs, unit_s)
    everything = range(schedule.num_stages)
    with Lanes([f"cpu:{number}" for number in range(schedule.num_ranks)]) as lanes:
        for each in (plan.without_sleep(), plan):  # the first warms up
            record = Record("emulated", schedule.num_ranks)
            works, entering = each.works(everything), each.entering(everything)
            lanes.run(schedule, works, entering, record, plan.deadline_s, through=each.delayed)
    return plan.in_units(record.timeline())


@dataclass(frozen=True)
class _Plan:
    """A schedule on sleeping stages, `unit_s` seconds for one unit of cost."""

    schedule: Schedule
    costs: Costs
    unit_s: float

    @classmethod
    def of(cls, schedule: Schedule, costs: Costs | None, unit_s: float | None) -> Self:
        """Check the arguments and fill in the defaults."""
        check(schedule)
        costs = costs or Costs()
        costs.check_stages(schedule.num_stages)
        longest = max(costs.duration(s, kind) for s in range(schedule.num_stages) for kind in (Kind.F, Kind.I, Kind.W))
        if unit_s is None:
            unit_s = _LONGEST_SLEEP_S / longest if longest else 1.0
        if not 0 < unit_s < math.inf:
            raise ValueError(f"unit_s is {unit_s}; give the seconds that one unit of cost sleeps, a number above 0")
        return cls(schedule, costs, unit_s)

    def without_sleep(self) -> Self:
        """The same plan with sleeps of no time."""
        return replace(self, unit_s=0.0)

    @property
    def deadline_s(self) -> float:
        """The longest time in which no action ends."""
        return _SPARE_S + 2 * self.unit_s * simulate(self.schedule, self.costs).makespan

    def works(self, stages: Iterable[int]) -> dict[int, Work]:
        """The work of some of the stages."""
        return {stage: SleepWork(self.sleeper(stage)) for stage in stages}

    def sleeper(self, stage: int) -> SleepStage:
        """A stage that sleeps as long as the costs say."""
        f, b, i, w = (self.unit_s * self.costs.duration(stage, kind) for kind in (Kind.F, Kind.B, Kind.I, Kind.W))
        return SleepStage(f, b, backward_input_s=i, backward_weight_s=w)

    def entering(self, stages: Iterable[int]) -> dict[Name, Packet]:
        """Empty packets for the forwards of the first stage and the backwards of the last."""
        ends, numbers = {0: True, self.schedule.num_stages - 1: False}, range(self.schedule.num_microbatches)
        if self.schedule.num_stages == 1:
            return {Name(0, forward, number): NOTHING for forward in (True, False) for number in numbers}
        return {Name(stage, ends[stage], number): NOTHING for stage in stages if stage in ends for number in numbers}

    def delayed(self, transport: Transport) -> Transport:
        """A transport that holds every packet for the time of its message."""
        return _Delayed(self, transport)

    def travel_s(self, name: Name) -> float:
        """How long a packet travels: no time within a rank, and none from outside the pipeline."""
        sender, homes = name.stage - 1 if name.forward else name.stage + 1, self.schedule.rank_of_stage
        if homes.get(sender, homes[name.stage]) == homes[name.stage]:
            return 0.0
        return self.unit_s * self.costs.message(sender, name.stage)

    def in_units(self, timeline: Timeline) -> Timeline:
        """Convert a timeline from seconds to the unit of the costs."""
        unit_s = self.unit_s
        spans = [Span(span.rank, span.action, span.start / unit_s, span.end / unit_s) for span in timeline.spans]
        return Timeline.of(spans, timeline.engine, timeline.num_ranks)


class _Delayed:
    """A transport that sends the time of departure with each packet and holds the packet until its time of arrival."""

    def __init__(self, plan: _Plan, inner: Transport) -> None:
        self._plan = plan
        self._inner = inner

    def take(self, action: Action) -> Packet:
        """Wait for the packet, then for the rest of its travel time."""
        name, packet = taken_by(action), self._inner.take(action)
        travel_s = self._plan.travel_s(name) if name is not None else 0.0
        if travel_s and (left_at := packet.tensors[0]) is not None:
            time.sleep(max(0.0, float(left_at) + travel_s - time.perf_counter()))
        return packet

    def give(self, action: Action, packet: Packet) -> None:
        """Send the time of departure in place of the packet."""
        del packet
        left_at = torch.tensor([time.perf_counter()], dtype=torch.float64)
        self._inner.give(action, Packet((left_at,), (False,)))
