"""The cases of exercise 06.3: `accumulate(model, loss_of, micro_batches)`, several backwards and one set of messages.

The loss notes when it is computed and when its backward begins, and how many messages the ledger has by then. One
launch runs several numbers of micro-batches.
"""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.comm import record_messages
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_06_ranks import WORLD_SIZE, close, judge_alone, seen_on_ranks, write_down

LossOf = Callable[[torch.Tensor], torch.Tensor]
Accumulate = Callable[[nn.Module, LossOf, list[torch.Tensor]], Any]

_NUMBERS = (3, 1, 4)  # of micro-batches
_WIDTH = 4
_SLACK_BYTES = 64  # a solution may also count something over the ranks


class _Event(NamedTuple):
    """What happened to which micro-batch, and how many messages there were by then."""

    kind: str
    micro_batch: int
    num_messages: int


@dataclass
class Seen:
    """What one rank saw, beside the truth of one process that has all the data, and some well-known wrong ones."""

    got: list[torch.Tensor | None]
    truth: list[torch.Tensor]
    local: list[torch.Tensor]
    last: list[torch.Tensor]
    num_micro_batches: int
    num_messages: int = 0
    num_bytes: int = 0
    events: list[_Event] = field(default_factory=list)


def program(rank: int, world_size: int, accumulate: Accumulate, folder: str) -> list[Seen]:
    """One call on one rank for each number of micro-batches."""
    return [_call(rank, world_size, accumulate, folder, number) for number in _NUMBERS]


def _call(rank: int, world_size: int, accumulate: Accumulate, folder: str, num_micro_batches: int) -> Seen:
    torch.manual_seed(num_micro_batches)
    model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh(), nn.Linear(_WIDTH, _WIDTH))
    model.register_parameter("unused", nn.Parameter(torch.zeros(3)))
    data = [[torch.randn(6, _WIDTH) for _ in range(num_micro_batches)] for _ in range(world_size)]
    wrong_ones = _alone(model, data[rank]), _alone(model, [one[-1] for one in data])
    seen = Seen([], _alone(model, [x for share in data for x in share]), *wrong_ones, num_micro_batches)
    numbers = {id(x): number for number, x in enumerate(data[rank])}
    with record_messages(write_down(folder, rank)) as ledger:

        def loss_of(x: torch.Tensor) -> torch.Tensor:
            number = numbers.get(id(x), -1)
            seen.events.append(_Event("forward", number, ledger.count()))
            loss: torch.Tensor = model(x).square().mean()
            loss.register_hook(lambda _: seen.events.append(_Event("backward", number, ledger.count())))
            return loss

        accumulate(model, loss_of, list(data[rank]))
    seen.got = [parameter.grad for name, parameter in model.named_parameters() if name != "unused"]
    seen.num_messages = ledger.count()
    # the busiest kind of call: a reduce and a broadcast of the same tensor count once
    seen.num_bytes = max((ledger.num_bytes(message.name) for message in ledger.messages), default=0)
    return seen


def _everything(accumulate: Accumulate) -> list[Seen]:
    """What every rank saw of every number of micro-batches."""
    return [seen for by_number in seen_on_ranks(program, accumulate) for seen in by_number]


def _alone(model: nn.Module, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradient of the mean loss over these batches, in one process."""
    model = deepcopy(model)
    model(torch.cat(batches)).square().mean().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@case("each micro-batch runs forward and backward before the next")
def one_graph_at_a_time(accumulate: Accumulate) -> None:
    for one in _everything(accumulate):
        wanted = [(kind, number) for number in range(one.num_micro_batches) for kind in ("forward", "backward")]
        happened = [(event.kind, event.micro_batch) for event in one.events]
        if sorted(happened) != sorted(wanted):
            (kind, again), times = Counter(happened).most_common(1)[0]
            if times > 1 and again >= 0:
                raise Wrong(
                    "again",
                    f"The {kind} of micro-batch {again} of {one.num_micro_batches} ran {times} times, so what it adds "
                    "is counted again. Call backward on the loss of each micro-batch alone, once.",
                )
            used = len({number for kind, number in happened if kind == "backward" and number >= 0})
            raise Wrong(
                "not_every_batch",
                f"{used} of {one.num_micro_batches} micro-batches ran forward and backward once; run each once.",
            )
        if [kind for kind, _ in happened] != [kind for kind, _ in wanted]:
            raise Wrong(
                "graphs_kept",
                "The next forward ran before the backward of the one before it, so several graphs were in memory. "
                "Accumulation exists to hold one; call backward() for each micro-batch.",
            )


@case("one set of messages, none before the last backward")
def one_set_of_messages(accumulate: Accumulate) -> None:
    everything = _everything(accumulate)
    for one in everything:
        limit, before = len(one.truth), one.events[-1].num_messages if one.events else 0
        if one.num_messages == 0 and any(other.num_messages for other in everything):
            raise Wrong(
                "not_averaged",
                f"With {one.num_micro_batches} micro-batch(es) no message was sent: each rank keeps the gradient of "
                "its own share. Average whatever their number is.",
            )
        if one.num_messages == 0:
            raise Wrong("unseen", "The ledger saw no message; average with functions of pllab.comm.")
        if before and one.num_messages > before:
            raise Wrong(
                "every_backward",
                f"{one.num_messages} messages for {limit} parameters, {before} of them before the last backward: "
                "each backward sends again what was sent before. Average once, after the last.",
            )
        if before:
            raise Wrong(
                "before_the_end",
                f"All {before} messages left before the last backward, so what it adds is never averaged. Accumulate "
                "to the end, then average.",
            )
        if one.num_messages > limit:
            raise Wrong("too_many", f"{one.num_messages} messages for {limit} parameters; one each is enough.")
        gradient_bytes = sum(gradient.nbytes for gradient in one.truth)
        if one.num_bytes > gradient_bytes + _SLACK_BYTES:
            raise Wrong(
                "sent_twice",
                f"The gradients have {gradient_bytes} bytes and your messages carried {one.num_bytes}: the same "
                "gradients were averaged more than once, which changes no number and costs the time again.",
            )


@case("the gradient equals that of one process with all the data")
def equals_one_process(accumulate: Accumulate) -> None:
    for one in _everything(accumulate):
        for got, truth, local, last in zip(one.got, one.truth, one.local, one.last, strict=True):
            _judge(got, truth, local, last, one.num_micro_batches)
    for one in seen_on_ranks(program, accumulate, 1)[0]:
        for got, truth in zip(one.got, one.truth, strict=True):
            judge_alone(got, truth)


def _judge(got: torch.Tensor | None, truth: torch.Tensor, local: torch.Tensor, last: torch.Tensor, k: int) -> None:
    """Name the bug from the numbers; k is the number of micro-batches."""
    w = WORLD_SIZE
    if close(got, truth):
        return
    if got is None:
        raise Wrong("gone", "A parameter has no gradient afterwards; leave the mean in parameter.grad.")
    factors = {k: ("not_divided", "times the number of micro-batches: backward adds up, so divide each loss by it")}
    factors[w] = ("sum", "times the number of ranks: all_reduce sums, so divide by world_size()")
    factors[k * w] = ("sum", "times micro-batches and ranks: both were added up and neither was divided")
    for factor, (hint_id, words) in factors.items():
        if close(got, truth * factor):
            raise Wrong(hint_id, f"The gradient is {factor} times too large, {words}.")
    if any(close(got, last * factor) for factor in (1, w, 1 / k, w / k)):
        raise Wrong("only_last", "Only the last micro-batch is in the gradient: the ones before were thrown away.")
    if any(close(got, local * factor) for factor in (1, k, 1 / w)):
        raise Wrong("not_averaged", "Each rank has the gradient of its own share; average over the ranks.")
    if any(close(got, truth * k / other) for other in range(1, 20)):
        raise Wrong(
            "other_number",
            f"With {k} micro-batch(es) the gradient has the wrong size, as if it had been divided by another number; "
            "divide by the number of those that came in.",
        )
    raise Wrong("value", "The gradient is not that of one process with all the data.")
