"""What an emulated run sleeps for: a schedule, its costs, and the seconds that stand for one unit of cost."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch

from pllab.pipeline.interpret import Work
from pllab.pipeline.sleep import SleepStage, SleepWork
from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import Name
from pllab.schedule import Kind, Schedule, check
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

_LONGEST_SLEEP_S = 0.02  # long beside the 0.1 ms that a hand-over takes, and short enough to wait for
_SPARE_S = 60.0  # beyond twice the predicted time


@dataclass(frozen=True)
class Plan:
    """A schedule on sleeping stages, `unit_s` seconds for one unit of cost."""

    schedule: Schedule
    costs: Costs
    unit_s: float

    @classmethod
    def of(cls, schedule: Schedule, costs: Costs | None, unit_s: float | None) -> Self:
        """Check what is given, and choose what is not.

        Raises:
            ScheduleError: the schedule is illegal.
            ValueError: the costs are for another number of stages, or a unit takes no time or for ever.
        """
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
        """The same at once, to warm up."""
        return type(self)(self.schedule, self.costs, 0.0)

    @property
    def deadline_s(self) -> float:
        """The longest wait for a packet, and for all of them."""
        return _SPARE_S + 2 * self.unit_s * simulate(self.schedule, self.costs).makespan

    def works(self, stages: Iterable[int]) -> dict[int, Work]:
        """What some of the stages do."""
        return {stage: SleepWork(self.sleeper(stage)) for stage in stages}

    def sleeper(self, stage: int) -> SleepStage:
        """A stage that sleeps as long as the costs say."""
        f, i, w, b = (self.unit_s * self.costs.duration(stage, kind) for kind in (Kind.F, Kind.I, Kind.W, Kind.B))
        made = SleepStage(f, backward_input_s=i, backward_weight_s=w)
        made.backward_s = b  # which need not be their sum
        return made

    def stamped(self) -> Packet:
        """A packet that tells when it leaves."""
        return Packet((torch.tensor([time.perf_counter()], dtype=torch.float64),), (False,))

    def wait_for(self, packet: Packet, name: Name) -> Packet:
        """Wait until a packet has been on its way as long as the costs say; the ranks of one host share a clock."""
        travels_s = self._travels_s(name)
        if travels_s and (left_at := packet.tensors[0]) is not None:
            time.sleep(max(0.0, float(left_at) + travels_s - time.perf_counter()))
        return packet

    def _travels_s(self, name: Name) -> float:
        sender, homes = name.stage - 1 if name.forward else name.stage + 1, self.schedule.rank_of_stage
        if homes.get(sender, homes[name.stage]) == homes[name.stage]:
            return 0.0  # within a rank, or out of the batch
        return self.unit_s * self.costs.message(sender, name.stage)

    def in_units(self, timeline: Timeline) -> Timeline:
        """From seconds to the unit of the costs."""
        spans = [Span(one.rank, one.action, one.start / self.unit_s, one.end / self.unit_s) for one in timeline.spans]
        return Timeline.of(spans, timeline.engine, timeline.num_ranks)
