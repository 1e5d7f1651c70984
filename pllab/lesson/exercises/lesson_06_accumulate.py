"""The cases of exercise 06.3: `accumulate(model, loss_of, micro_batches)`, several backwards and one set of messages.

The loss notes when it is computed and when its backward begins, and how many messages the ledger has by then. One
launch runs several numbers of micro-batches.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from pllab.comm import record_messages
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import close, compare_tensors
from pllab.lesson.mistakes import Mistake

LossOf = Callable[[torch.Tensor], torch.Tensor]

_SIZE = 2
_PLAN = ((_SIZE, 1),)
_NUMBERS = (3, 1, 4)  # of micro-batches
_WIDTH = 4
_SLACK_BYTES = 64  # a solution may also count something over the ranks


class _Event(NamedTuple):
    """What happened to which micro-batch, and how many messages there were by then."""

    kind: str
    micro_batch: int
    num_messages: int


class Seen(NamedTuple):
    """What one rank saw in one call."""

    gradients: list[torch.Tensor | None]
    events: list[_Event]


@until_one_fails
def accumulate_on_ranks(watch: Watch, rank: int, world_size: int, accumulate: Function) -> Calls:
    """On every rank: a call for each number of micro-batches."""
    for number in _NUMBERS:
        model, data = _given(number, world_size)
        micro_batches, events = data[rank], list[_Event]()
        with record_messages() as ledger:
            loss_of = _noting(model, micro_batches, events, ledger.count)
            attempt = watch.attempt(accumulate, model, loss_of, list(micro_batches))
        gradients = [parameter.grad for name, parameter in model.named_parameters() if name != "unused"]
        yield _in_words(number), attempt.holding(Seen(gradients, events))


def _in_words(number: int) -> str:
    return f"{number} micro-batch{'es' * (number > 1)}"


def _given(number: int, world_size: int) -> tuple[nn.Module, list[list[torch.Tensor]]]:
    """The model, and the micro-batches of every rank."""
    torch.manual_seed(number)
    model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh(), nn.Linear(_WIDTH, _WIDTH))
    model.register_parameter("unused", nn.Parameter(torch.zeros(3)))
    return model, [[torch.randn(6, _WIDTH) for _ in range(number)] for _ in range(world_size)]


def _noting(
    model: nn.Module, micro_batches: list[torch.Tensor], events: list[_Event], count: Callable[[], int]
) -> LossOf:
    """The loss of a micro-batch, which notes its forward and its backward; -1 stands for any other tensor."""
    numbers = {id(x): number for number, x in enumerate(micro_batches)}

    def loss_of(x: torch.Tensor) -> torch.Tensor:
        number = numbers.get(id(x), -1)
        events.append(_Event("forward", number, count()))
        loss: torch.Tensor = model(x).square().mean()
        loss.register_hook(lambda _: events.append(_Event("backward", number, count())))
        return loss

    return loss_of


def _gradients(number: int, size: int, micro_batches: slice = slice(None)) -> list[torch.Tensor]:
    """The gradient of the mean loss over these micro-batches of all ranks, in one process."""
    model, data = _given(number, size)
    model(torch.cat([x for share in data for x in share[micro_batches]])).square().mean().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def _attempts(accumulate: Function, number: int, size: int = _SIZE) -> list[Attempt]:
    return seen_in_call(accumulate_on_ranks, accumulate, _PLAN, size, _in_words(number))


@case("each micro-batch runs forward and backward before the next")
def one_graph_at_a_time(accumulate: Function) -> None:
    for number in _NUMBERS:
        wanted = [(kind, each) for each in range(number) for kind in ("forward", "backward")]
        for one in _attempts(accumulate, number):
            happened = [(kind, each) for kind, each, _ in one.value.events]
            said = ", ".join(f"{kind} of {each if each >= 0 else 'another tensor'}" for kind, each in happened)
            what = f"With {_in_words(number)} your function ran: {said or 'nothing'}."
            if sorted(happened) != sorted(wanted):
                raise Wrong("not_every_batch", f"{what} Right is one forward and one backward of each.")
            if [kind for kind, _ in happened] != [kind for kind, _ in wanted]:
                raise Wrong("graphs_kept", f"{what} Run each backward before the next forward: a graph takes memory.")


@case("one set of messages, none before the last backward")
def one_set_of_messages(accumulate: Function) -> None:
    for number in _NUMBERS:
        gradients = _gradients(number, _SIZE)
        num_bytes = sum(gradient.nbytes for gradient in gradients)
        for one in _attempts(accumulate, number):
            sent, before = len(one.messages), one.value.events[-1].num_messages
            if before:
                told = f"With {_in_words(number)}, {before} of your {sent} messages left before the last backward"
                raise Wrong("every_backward", f"{told}; right is none. Average once, when all gradients are added up.")
            most = one.busiest(lambda each: each.num_bytes)
            if sent > len(gradients) or most > num_bytes + _SLACK_BYTES:
                told = f"With {_in_words(number)} your function sent {sent} messages, with {most} bytes"
                why = f"the {len(gradients)} gradients have {num_bytes}, so one message each, or one for all, will do."
                raise Wrong("sent_twice", f"{told}; {why}")


@case("the gradient equals that of one process with all the data")
def equals_one_process(accumulate: Function) -> None:
    only_last = Mistake(
        "only_last",
        "It contains only the last micro-batch: the earlier gradients were thrown away.",
        when=lambda got, place, number, _: any(
            close(got, factor * _gradients(number, _SIZE, slice(-1, None))[place]) for factor in (1, 1 / number)
        ),
    )
    not_divided = Mistake(
        "not_divided",
        "It is too large by the number of micro-batches: backward adds up, so divide each loss.",
        like=lambda place, number, _: number * _gradients(number, _SIZE)[place],
    )
    half = Mistake(
        "literal_world_size",
        "That is half of it, which is right only on two ranks. Ask world_size().",
        like=lambda place, number, _: _gradients(number, 1)[place] / 2,
    )
    for size, mistakes in ((_SIZE, [not_divided, only_last]), (1, [half])):
        seen = {number: _attempts(accumulate, number, size) for number in _NUMBERS}
        compare_tensors(
            lambda place, number, rank, seen=seen: seen[number][rank].value.gradients[place],
            [(place, number, rank) for number in _NUMBERS for rank in range(size) for place in range(4)],
            lambda place, number, _, size=size: _gradients(number, size)[place],
            mistakes,
            asked=f"gradient {{}} with {{}} micro-batches, on rank {{}} of {size},",
            same=close,
        )
