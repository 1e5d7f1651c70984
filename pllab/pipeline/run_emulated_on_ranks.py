"""An emulated run on processes: sleeping stages, and real messages between the ranks of a group."""

from pllab.comm import launch, rank
from pllab.pipeline.emulated_plan import Plan
from pllab.pipeline.interpret import Work
from pllab.pipeline.rank_executor import RankExecutor
from pllab.pipeline.rank_run import RankTransport
from pllab.pipeline.stream import Packet
from pllab.pipeline.transport import Name, taken_by
from pllab.pipeline.wires import Headers, Inbox, Outbox
from pllab.schedule import Action, Schedule
from pllab.simulate import Costs
from pllab.timeline import Timeline

_START_S = 30.0  # for each process, where cores are few


def run_emulated_on_ranks(schedule: Schedule, costs: Costs | None = None, unit_s: float | None = None) -> Timeline:
    """What `run_emulated` does, with one process per rank and messages over gloo; they take some seconds to start.

    Example: `run_emulated_on_ranks(gpipe(2, 4), Costs(p2p=0.5))`. A message is a real one, and what the costs say
    beyond it is waited for where it arrives.

    Raises:
        ScheduleError: the schedule is illegal.
        ValueError: the costs are for another number of stages, or a unit takes no time or for ever.
        RankError: a rank failed.
    """
    plan = Plan.of(schedule, costs, unit_s)
    timeout_s = plan.deadline_s + _START_S * schedule.num_ranks
    timeline: Timeline = launch(_on_rank, schedule.num_ranks, plan, backend="gloo", timeout_s=timeout_s)[0]
    return plan.in_units(timeline)


def _on_rank(_rank: int, _world_size: int, plan: Plan) -> Timeline:
    executor = _SlowRank(plan)
    executor.step()
    executor.plan = plan
    return executor.step().timeline


class _SlowRank(RankExecutor):
    """A rank that does not sleep at first: it warms up, and gets to know the shapes of its messages."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan.without_sleep()
        mine = {stage: plan.sleeper(stage) for stage in plan.schedule.stages_of_rank(rank())}
        super().__init__(plan.schedule, mine, timeout_s=plan.deadline_s)

    def _works(self, _score: object) -> dict[int, Work]:
        return self.plan.works(self._modules)

    def _transport(self, here: dict[Name, Packet], headers: Headers) -> RankTransport:
        inboxes = {wire.peer: Inbox(wire, headers) for wire in self._inwards}
        outboxes = {wire.peer: Outbox(wire, headers) for wire in self._outwards}
        return _SlowWires(self.plan, here, inboxes, outboxes)


class _SlowWires(RankTransport):
    """Wires on which a message takes its time."""

    def __init__(
        self, plan: Plan, here: dict[Name, Packet], inboxes: dict[int, Inbox], outboxes: dict[int, Outbox]
    ) -> None:
        super().__init__(plan.schedule, rank(), here, inboxes, outboxes)
        self._plan = plan

    def take(self, action: Action) -> Packet:
        name, packet = taken_by(action, self._plan.schedule.num_stages), super().take(action)
        return packet if name is None else self._plan.wait_for(packet, name)

    def give(self, action: Action, _packet: Packet) -> None:
        super().give(action, self._plan.stamped())
