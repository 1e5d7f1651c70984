"""Stages that sleep instead of computing, and schedules of them: what `simulate` predicts, on real threads and clocks.

A sleeping stage needs no core, so eight real stages with real threads, queues and messages run on two cores and show
the true bubble. The engine is the one that runs GPT-2. `run_emulated` takes the arguments and the unit of `simulate`,
so that both timelines share one axis, and holds each packet for the time of a message.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import torch
from torch import nn

from pllab.arguments import is_number
from pllab.pipeline.engine import NOTHING, ActionTimes, Name, Packet, Packets, Wire, made_by, taken_by
from pllab.pipeline.lanes import Lanes
from pllab.pipeline.streams import HostStream
from pllab.schedule import Action, Kind, Schedule, check
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

_LONGEST_SLEEP_S = 0.02  # long beside the 0.1 ms that a hand-over takes, and short enough to wait for
_SPARE_S = 60.0  # beyond twice the predicted time


class SleepStage(nn.Module):
    """A stage of a `LaneExecutor` whose forward takes `forward_s` seconds and whose backward takes `backward_s`.

    Example: `LaneExecutor(one_f_one_b(8, 16), [SleepStage(0.01, 0.02)] * 8).step().timeline` is that of an eight-stage
    pipeline on any laptop.

    A split backward takes `backward_input_s` and then `backward_weight_s`, by default half of `backward_s` each. If
    only these two are given, `backward_s` is their sum.

    Raises:
        ValueError: a time is negative or infinite, or the time of a backward is missing.
    """

    def __init__(
        self,
        forward_s: float,
        backward_s: float | None = None,
        *,
        backward_input_s: float | None = None,
        backward_weight_s: float | None = None,
    ) -> None:
        super().__init__()
        for seconds in (forward_s, backward_s, backward_input_s, backward_weight_s):
            if seconds is not None and not (is_number(seconds) and 0 <= seconds < math.inf):
                raise ValueError(f"a stage cannot sleep {seconds!r} s; give finite times of at least 0")
        if backward_s is None and backward_input_s is not None and backward_weight_s is not None:
            backward_s = backward_input_s + backward_weight_s
        if backward_s is None or (backward_input_s is None) != (backward_weight_s is None):
            raise ValueError(
                f"backward_s={backward_s}, backward_input_s={backward_input_s} and backward_weight_s="
                f"{backward_weight_s} do not say how long a backward takes; give backward_s, or the other two"
            )
        self.forward_s = forward_s
        self.backward_s = backward_s
        self.backward_input_s = backward_s / 2 if backward_input_s is None else backward_input_s
        self.backward_weight_s = backward_s / 2 if backward_weight_s is None else backward_weight_s

    def forward(self, *_: Any) -> NoReturn:
        """Refuse to run: a sleeping stage computes nothing, so there is nothing to differentiate.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "a SleepStage passes nothing on; run it as a whole stage of a LaneExecutor, or a schedule with run_emulated"
        )


class SleepWork:
    """What F, B, I and W do to a sleeping stage: take their time.

    A sleeper wakes late, by 0.05 to 0.1 ms on Linux. What one sleep overran is taken off the next, so that a row of
    many short actions takes as long as their sum.
    """

    def __init__(self, stage: SleepStage) -> None:
        self._seconds = {
            Kind.F: stage.forward_s,
            Kind.B: stage.backward_s,
            Kind.I: stage.backward_input_s,
            Kind.W: stage.backward_weight_s,
        }
        self._overslept_s = 0.0

    def parts(self, action: Action) -> tuple[Action, ...]:
        """The action itself: a sleeper recomputes nothing."""
        return (action,)

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Sleep as long as the action takes, and pass on what came."""
        start = time.perf_counter()
        wanted_s = self._seconds[action.kind] - self._overslept_s
        time.sleep(max(0.0, wanted_s))
        self._overslept_s = time.perf_counter() - start - wanted_s
        return packet


def sleeper(module: nn.Module) -> SleepStage | None:
    """The sleeping stage a module is, bare or inside containers of one; None if it is a real stage."""
    inside = [part for part in module.modules() if next(part.children(), None) is None]
    return inside[0] if len(inside) == 1 and isinstance(inside[0], SleepStage) else None


def run_sleepers(
    lanes: Lanes,
    schedule: Schedule,
    stages: Sequence[SleepStage],
    timeout_s: float,
    wire: Callable[[Packets, HostStream, torch.device], Wire] = Wire,
) -> Timeline:
    """Run a schedule on sleeping stages, whose packets are empty.

    Raises:
        TimeoutError: no stage woke up for `timeout_s` seconds.
    """
    record = ActionTimes("emulated", schedule.num_ranks)
    ends = ((0, True), (schedule.num_stages - 1, False))
    entering = {Name(*end, number): NOTHING for end in ends for number in range(schedule.num_microbatches)}
    works = {number: SleepWork(stage) for number, stage in enumerate(stages)}
    lanes.run(schedule, works, entering, record, timeout_s, wire=wire)
    return record.timeline()


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
    check(schedule)
    costs = costs or Costs()
    costs.check_stages(schedule.num_stages)
    unit_s = _unit_s(costs, schedule.num_stages) if unit_s is None else unit_s
    if not is_number(unit_s) or not 0 < unit_s < math.inf:
        raise ValueError(f"unit_s is {unit_s!r}; give the seconds that one unit of cost sleeps, a number above 0")
    timeout_s = _SPARE_S + 2 * unit_s * simulate(schedule, costs).makespan
    with Lanes([f"cpu:{number}" for number in range(schedule.num_ranks)]) as lanes:
        for sleep_s in (0.0, unit_s):  # the first warms up
            stages = [stage_of(costs, stage, sleep_s) for stage in range(schedule.num_stages)]
            wire = partial(SlowWire, partial(_message_s, schedule, costs, sleep_s), {})
            timeline = run_sleepers(lanes, schedule, stages, timeout_s, wire)
    spans = [Span(span.rank, span.action, span.start / unit_s, span.end / unit_s) for span in timeline.spans]
    return Timeline.of(spans, timeline.engine, timeline.num_ranks)


def stage_of(costs: Costs, stage: int, unit_s: float) -> SleepStage:
    """A stage that sleeps as long as its costs say."""
    f, b, i, w = (unit_s * costs.duration(stage, kind) for kind in (Kind.F, Kind.B, Kind.I, Kind.W))
    return SleepStage(f, b, backward_input_s=i, backward_weight_s=w)


def _unit_s(costs: Costs, num_stages: int) -> float:
    """The seconds of one unit of cost for which the longest F, I or W sleeps 20 ms."""
    kinds = (Kind.F, Kind.I, Kind.W)
    longest = max(costs.duration(stage, kind) for stage in range(num_stages) for kind in kinds)
    return _LONGEST_SLEEP_S / longest if longest else 1.0


class SlowWire(Wire):
    """Holds each packet for the time of its message; the lanes share the times at which packets are due."""

    def __init__(self, message_s: Callable[[int, int], float], due_s: dict[Name, float], *lane: Any) -> None:
        super().__init__(*lane)
        self._message_s = message_s
        self._due_s = due_s

    def take(self, action: Action) -> Packet:
        """Wait for the packet, then until it is due; what enters from outside has not travelled."""
        name, packet = taken_by(action), super().take(action)
        if name in self._due_s:
            time.sleep(max(0.0, self._due_s[name] - time.perf_counter()))
        return packet

    def give(self, action: Action, packet: Packet) -> None:
        """Note when the packet is due, and hand it over."""
        if (name := made_by(action)) is not None:
            self._due_s[name] = time.perf_counter() + self._message_s(action.stage, name.stage)
        super().give(action, packet)


def _message_s(schedule: Schedule, costs: Costs, unit_s: float, sender: int, stage: int) -> float:
    """How many seconds a packet travels from one stage to another: no time within a rank, nor out of the pipeline."""
    homes = schedule.rank_of_stage
    return 0.0 if homes.get(stage, homes[sender]) == homes[sender] else unit_s * costs.message(sender, stage)
