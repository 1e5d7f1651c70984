"""Stages that sleep instead of computing, and schedules of them: what `simulate` predicts, on real threads and clocks.

A sleeping stage needs no core, so eight real stages with real threads, queues and messages run on two cores and show
the true bubble. The engine is the one that runs GPT-2. `run_emulated` takes the arguments and the unit of `simulate`,
so that both timelines share one axis, and holds each packet for the time of a message.
"""

import math
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from pllab.arguments import is_number
from pllab.pipeline.engine import NOTHING, ActionTimes, Name, Packet, Transport, made_by, taken_by
from pllab.pipeline.lanes import Lanes
from pllab.schedule import Action, Kind, Schedule, check, pair_shares
from pllab.simulate import Costs, simulate
from pllab.timeline import Timeline

_LONGEST_SLEEP_S = 0.02  # long beside the 0.1 ms that a hand-over takes, and short enough to wait for
_SPARE_S = 60.0  # beyond twice the predicted time


class SleepWork:
    """The work of a stage that sleeps: F, B, I and W take their time, in seconds.

    A sleeper wakes late, by 0.05 to 0.1 ms on Linux. The delay of one sleep is taken off the next, so that a row of
    many short actions takes as long as their sum.
    """

    def __init__(self, costs: Costs, stage: int, unit_s: float, shares: Mapping[Action, float]) -> None:
        self.seconds = {kind: unit_s * costs.duration(stage, kind) for kind in (Kind.F, Kind.B, Kind.I, Kind.W)}
        self.shares = shares
        self._overslept_s = 0.0

    def parts(self, action: Action) -> tuple[Action, ...]:
        """The action itself: a sleeper recomputes nothing."""
        return (action,)

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Sleep as long as the action takes, and pass on what came."""
        start = time.perf_counter()
        wanted_s = self.seconds[action.kind] * self.shares.get(action, 1.0) - self._overslept_s
        time.sleep(max(0.0, wanted_s))
        self._overslept_s = time.perf_counter() - start - wanted_s
        return packet


def run_emulated(schedule: Schedule, costs: Costs | None = None, unit_s: float | None = None) -> Timeline:
    """Run a schedule on stages that sleep as long as the costs say, and return the timeline in the costs' unit.

    Example, with `schedule, costs = one_f_one_b(4, 8), Costs(p2p=0.1)`: `simulate(schedule, costs)` has makespan 34.6,
    and `run_emulated(schedule, costs)` a little more.

    A widget runs what it shows with `BubbleStudio("1F1B", 4, 8, run=run_emulated)` or
    `ScheduleEditor(one_f_one_b(4, 6), run=run_emulated)`.

    F, B, I and W of every stage take as long as the costs say. So does a message to another rank, and no device is
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
        raise ValueError(f"unit_s is {unit_s!r}; give the seconds of sleep for one unit of cost, a number above 0")
    timeout_s = _SPARE_S + 2 * unit_s * simulate(schedule, costs).makespan
    shares = pair_shares(schedule, costs)
    ends = ((0, True), (schedule.num_stages - 1, False))
    entering = {Name(*end, number): NOTHING for end in ends for number in range(schedule.num_microbatches)}
    with closing(Lanes([f"cpu:{rank}" for rank in range(schedule.num_ranks)])) as lanes:
        for sleep_s in (0.0, unit_s):  # the first warms up
            works = {stage: SleepWork(costs, stage, sleep_s, shares) for stage in range(schedule.num_stages)}
            transport = partial(SlowTransport, schedule.rank_of_stage, sleep_s * costs.p2p, {})
            record = ActionTimes("emulated", schedule.num_ranks)
            lanes.run(schedule, works, entering, record, timeout_s, transport=transport)
    spans = [span._replace(start=span.start / unit_s, end=span.end / unit_s) for span in record.timeline().spans]
    return Timeline.of(spans, "emulated", schedule.num_ranks)


def _unit_s(costs: Costs, num_stages: int) -> float:
    """The seconds of one unit of cost for which the longest F, I or W sleeps 20 ms."""
    kinds = (Kind.F, Kind.I, Kind.W)
    longest = max(costs.duration(stage, kind) for stage in range(num_stages) for kind in kinds)
    return _LONGEST_SLEEP_S / longest if longest else 1.0


class SlowTransport(Transport):
    """Holds a packet for another rank as long as a message takes; the lanes share the times at which such are due."""

    def __init__(self, homes: Mapping[int, int], message_s: float, due_s: dict[Name, float], *lane: Any) -> None:
        super().__init__(*lane)
        self._homes = homes
        self._message_s = message_s
        self._due_s = due_s

    def take(self, action: Action) -> Packet:
        """Wait for the packet, then until it is due if it has travelled."""
        name, packet = taken_by(action), super().take(action)
        if name in self._due_s:
            time.sleep(max(0.0, self._due_s[name] - time.perf_counter()))
        return packet

    def give(self, action: Action, packet: Packet) -> None:
        """Note when the packet is due at another rank, and hand it over; what leaves the pipeline goes to none."""
        name, own = made_by(action), self._homes[action.stage]
        if name is not None and self._homes.get(name.stage, own) != own:
            self._due_s[name] = time.perf_counter() + self._message_s
        super().give(action, packet)
