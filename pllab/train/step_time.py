"""How long a step of a layout would take: the schedule on the virtual clock, and what the messages of tp and dp add.

Every number here is simulated: from what work costs, measured or assumed, and from two numbers for each kind of wire.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from pllab.schedule import Schedule
from pllab.simulate import Costs, MessageCost, simulate

_FREE = MessageCost(0.0, 0.0)


class Sent(NamedTuple):
    """Some messages of one rank, and the bytes that it sends for them."""

    num_messages: float = 0
    traffic: float = 0


@dataclass(frozen=True)
class StepTime:
    """The simulated seconds of a step, by what they are for; they add up."""

    compute_s: float
    """The schedule with free messages: the work, and the bubble."""
    pp_s: float
    """What packets between stages add."""
    tp_s: float
    """What the messages of split layers add."""
    dp_s: float
    """What is sent after the schedule: gradients, weights, the norm."""

    @property
    def total_s(self) -> float:
        """All of it."""
        return sum(getattr(self, field.name) for field in fields(self))

    def text(self) -> str:
        """The sum in words."""
        parts = [f"{field.name[:-2]} {getattr(self, field.name):.3g}" for field in fields(self)]
        return f"{self.total_s:.3g} s a step, simulated: {' + '.join(parts)}"


def step_time(
    schedule: Schedule,
    costs: Costs,
    *,
    tp_forward: Sequence[Sent] | None = None,
    tp_backward: Sequence[Sent] | None = None,
    tp_link: MessageCost | None = None,
    after: Sent | None = None,
    link: MessageCost | None = None,
) -> StepTime:
    """Simulate a step of a layout: a pipeline whose stages are split over tp and shared over dp.

    Drawn, for one stage and two micro-batches; without tp and dp it is `simulate`:

        F tp  F tp  B tp  B tp  dp

    Messages of tp make an action longer, because it waits for them; those of dp follow the last action. Nothing
    overlaps, so this is an upper bound for code that hides messages behind work.

    Args:
        schedule: of one pipeline.
        costs: seconds of work of each stage, measured or assumed, and of packets between stages.
        tp_forward: what a rank sends over tp in F of one micro-batch, for each stage; by default nothing.
        tp_backward: the same in B.
        tp_link: the wire between ranks of a tp group; by default it takes no time.
        after: what a rank sends once in a step, after its actions.
        link: the wire between hosts.

    Raises:
        ValueError: the schedule is illegal, or there are costs or messages for another number of stages.
    """
    link = link or _FREE
    split = with_tp(costs, schedule.num_stages, tp_forward, tp_backward, tp_link)
    alone = simulate(schedule, replace(costs, p2p=0.0)).makespan
    together = simulate(schedule, costs).makespan
    waiting = simulate(schedule, split).makespan
    return StepTime(alone, together - alone, waiting - together, link.seconds(*(after or Sent())))


def with_tp(
    costs: Costs,
    num_stages: int,
    forward: Sequence[Sent] | None = None,
    backward: Sequence[Sent] | None = None,
    link: MessageCost | None = None,
) -> Costs:
    """The costs of stages that are split over tp: F and the first half of a backward also wait for their messages.

    Example: stages with F and I of 1 s, an F that sends 3 messages and a link of 0.1 s a message: F 1.3 s, I 1 s.

    Raises:
        ValueError: there are messages for another number of stages.
    """
    link = link or _FREE
    more_forward, more_backward = (
        [link.seconds(*sent) for sent in each or [Sent()] * num_stages] for each in (forward, backward)
    )
    for seconds in (more_forward, more_backward):
        if len(seconds) != num_stages:
            raise ValueError(f"messages are given for {len(seconds)} stages of {num_stages}; give each one")
    split = replace(costs, forward=_sum(costs.forward, more_forward))
    if costs.backward is None:
        return replace(split, backward_input=_sum(costs.backward_input, more_backward))
    return replace(split, backward=_sum(costs.backward, more_backward))


def _sum(cost: object, more: Sequence[float]) -> tuple[float, ...]:
    """A cost of `Costs`, one for all stages or one for each, and what is added to it."""
    each = cost if isinstance(cost, tuple) else (cost,) * len(more)
    return tuple(one + extra for one, extra in zip(each, more, strict=True))
