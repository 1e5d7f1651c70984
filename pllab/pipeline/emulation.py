"""A schedule on a real clock, on stages that sleep: what `simulate` predicts, run by real threads.

It takes what `simulate` takes and answers in the same unit, so that both lie on one axis. The engine is the one that
runs GPT-2; the work is to sleep, and packets pass through wires that hold them as long as a message takes.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import torch

from pllab.pipeline.engine import Record, Transport, Work
from pllab.pipeline.mailboxes import Lanes
from pllab.pipeline.packets import NOTHING, Name, Packet, taken_by
from pllab.pipeline.sleep import SleepStage, SleepWork
from pllab.schedule import Action, Kind, Schedule, check
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

_LONGEST_SLEEP_S = 0.02  # long beside the 0.1 ms that a hand-over takes, and short enough to wait for
_SPARE_S = 60.0  # beyond twice the predicted time


def run_emulated(schedule: Schedule, costs: Costs | None = None, unit_s: float | None = None) -> Timeline:
    """Run a schedule on one lane per rank, whose stages sleep as long as the costs say; the timeline in their unit.

    Example, with `schedule, costs = one_f_one_b(4, 8), Costs(p2p=0.1)`: `simulate(schedule, costs)` has makespan 34.6,
    and `run_emulated(schedule, costs)` a little more.

    Widgets give a run their costs, so `BubbleStudio("1F1B", 4, 8, run=run_emulated)` and
    `ScheduleEditor(one_f_one_b(4, 6), run=run_emulated)` run what they show.

    F, B, I and W of every stage take what the costs say, and so does a message to a stage on another rank, on its way
    and on nobody's device. Waking up and handing over come on top, about 0.1 ms each, which counts the more the
    shorter the sleeps.

    Args:
        schedule: any legal one.
        costs: as for `simulate`; one unit each by default.
        unit_s: seconds to sleep for one unit of cost; so many that the longest F, I or W sleeps 20 ms by default. Give
            1.0 for costs that are seconds, to run at their own speed.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the costs are for another number of stages, or a unit takes no time or for ever.
    """
    plan = _Plan.of(schedule, costs, unit_s)
    everything = range(schedule.num_stages)
    with Lanes([f"cpu:{number}" for number in range(schedule.num_ranks)]) as lanes:
        for each in (plan.at_once(), plan):  # the first warms up
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
        """Check what is given, and choose what is not."""
        check(schedule)
        costs = costs or Costs()
        costs.check_stages(schedule.num_stages)
        longest = max(costs.duration(s, kind) for s in range(schedule.num_stages) for kind in (Kind.F, Kind.I, Kind.W))
        if unit_s is None:
            unit_s = _LONGEST_SLEEP_S / longest if longest else 1.0
        if not 0 < unit_s < math.inf:
            raise ValueError(f"unit_s is {unit_s}; give the seconds that one unit of cost sleeps, a number above 0")
        return cls(schedule, costs, unit_s)

    def at_once(self) -> Self:
        """The same without a sleep."""
        return replace(self, unit_s=0.0)

    @property
    def deadline_s(self) -> float:
        """The longest wait for a packet, and for all of them."""
        return _SPARE_S + 2 * self.unit_s * simulate(self.schedule, self.costs).makespan

    def works(self, stages: Iterable[int]) -> dict[int, Work]:
        """What some of the stages do."""
        return {stage: SleepWork(self.sleeper(stage)) for stage in stages}

    def sleeper(self, stage: int) -> SleepStage:
        """A stage that sleeps as long as the costs say."""
        f, b, i, w = (self.unit_s * self.costs.duration(stage, kind) for kind in (Kind.F, Kind.B, Kind.I, Kind.W))
        return SleepStage(f, b, backward_input_s=i, backward_weight_s=w)

    def entering(self, stages: Iterable[int]) -> dict[Name, Packet]:
        """Nothing for the first stage to take, and nothing for the last."""
        ends, numbers = {0: True, self.schedule.num_stages - 1: False}, range(self.schedule.num_microbatches)
        if self.schedule.num_stages == 1:
            return {Name(0, forward, number): NOTHING for forward in (True, False) for number in numbers}
        return {Name(stage, ends[stage], number): NOTHING for stage in stages if stage in ends for number in numbers}

    def delayed(self, transport: Transport) -> Transport:
        """Wires that hold every packet as long as its message takes."""
        return _Delayed(self, transport)

    def travels_s(self, name: Name) -> float:
        """How long a packet is on its way; no time within a rank, and from outside."""
        sender, homes = name.stage - 1 if name.forward else name.stage + 1, self.schedule.rank_of_stage
        if homes.get(sender, homes[name.stage]) == homes[name.stage]:
            return 0.0
        return self.unit_s * self.costs.message(sender, name.stage)

    def in_units(self, timeline: Timeline) -> Timeline:
        """From seconds to the unit of the costs."""
        spans = [Span(one.rank, one.action, one.start / self.unit_s, one.end / self.unit_s) for one in timeline.spans]
        return Timeline.of(spans, timeline.engine, timeline.num_ranks)


class _Delayed:
    """A transport whose packets say when they left, and are taken when they have been on their way long enough."""

    def __init__(self, plan: _Plan, inner: Transport) -> None:
        self._plan = plan
        self._inner = inner

    def take(self, action: Action) -> Packet:
        """Wait for the packet, and then until its time has come."""
        name, packet = taken_by(action), self._inner.take(action)
        travels_s = self._plan.travels_s(name) if name is not None else 0.0
        if travels_s and (left_at := packet.tensors[0]) is not None:
            time.sleep(max(0.0, float(left_at) + travels_s - time.perf_counter()))
        return packet

    def give(self, action: Action, packet: Packet) -> None:
        """Send on when the packet left."""
        del packet
        left_at = torch.tensor([time.perf_counter()], dtype=torch.float64)
        self._inner.give(action, Packet((left_at,), (False,)))
