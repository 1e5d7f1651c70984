"""A schedule on a real clock, on stages that sleep: what `simulate` predicts, run by real threads with real queues.

It takes what `simulate` takes and answers in the same unit, so that both lie on one axis.
"""

from collections.abc import Sequence

import torch

from pllab.pipeline.emulated_plan import Plan
from pllab.pipeline.lane_run import Lane, LaneRun
from pllab.pipeline.mailbox import Mailbox
from pllab.pipeline.record import Record
from pllab.pipeline.stream import HostStream, Packet
from pllab.pipeline.transport import Name
from pllab.pipeline.worker import create_workers
from pllab.schedule import Schedule
from pllab.simulate import Costs
from pllab.timeline import Timeline


def run_emulated(schedule: Schedule, costs: Costs | None = None, unit_s: float | None = None) -> Timeline:
    """Run a schedule on one lane per rank, whose stages sleep as long as the costs say; the timeline in their unit.

    Example, with `schedule, costs = one_f_one_b(4, 8), Costs(p2p=0.1)`: `simulate(schedule, costs)` has makespan 34.6,
    and `run_emulated(schedule, costs)` a little more.

    Widgets give a run their costs, so `BubbleStudio("1F1B", 4, 8, run=run_emulated)` and
    `ScheduleEditor(one_f_one_b(4, 6), run=run_emulated)` run what they show.

    F, B, I and W of every stage take what the costs say, and so does a message to a stage on another rank, on its way
    and on nobody's device. What waking up and handing over take comes on top: about 0.1 ms, which counts the more in
    the timeline the shorter the sleeps.

    Args:
        schedule: any legal one.
        costs: as for `simulate`; one unit each by default.
        unit_s: seconds to sleep for one unit of cost; so many that the longest F, I or W sleeps 20 ms by default. Give
            1.0 for costs that are seconds, to run at their own speed.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the costs are for another number of stages, or a unit takes no time or for ever.
    """
    plan = Plan.of(schedule, costs, unit_s)
    cpu, patience_s = torch.device("cpu"), 10.0
    lanes = [Lane(create_workers([f"cpu:{rank}"]), cpu, HostStream()) for rank in range(schedule.num_ranks)]
    try:
        _step(plan.without_sleep(), lanes)
        timeline = _step(plan, lanes)
    except (KeyboardInterrupt, TimeoutError):
        patience_s = 0.1  # the workers still have their rows; they end on their own
        raise
    finally:
        for lane in lanes:
            lane.workers.close(patience_s)
    return plan.in_units(timeline)


def _step(plan: Plan, lanes: Sequence[Lane]) -> Timeline:
    record = Record("emulated", plan.schedule.num_ranks)
    run = _SlowLanes(plan, lanes, record)
    try:
        run.run([()] * plan.schedule.num_microbatches)
    except (KeyboardInterrupt, TimeoutError):
        run.stop()
        raise
    return record.timeline()


class _SlowLanes(LaneRun):
    """Lanes between which a message takes its time."""

    def __init__(self, plan: Plan, lanes: Sequence[Lane], record: Record) -> None:
        works = plan.works(range(plan.schedule.num_stages))
        super().__init__(plan.schedule, lanes, works, record, plan.deadline_s)
        self._mailboxes = [_SlowMailbox(plan) for _ in lanes]


class _SlowMailbox(Mailbox):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.deadline_s)
        self._plan = plan

    def put(self, name: Name, _packet: Packet) -> None:
        super().put(name, self._plan.stamped())

    def take(self, name: Name) -> Packet:
        return self._plan.wait_for(super().take(name), name)
