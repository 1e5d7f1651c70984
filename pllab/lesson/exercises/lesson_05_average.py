"""The cases of exercise 05.2: `average_gradients(model)` makes three ranks equal to one process.

Single calls get gradients drawn at random. The steps are SGD's: it shows a constant factor in the gradient, which Adam
divides away.
"""

from copy import deepcopy
from functools import partial
from math import prod
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import close, compare_tensors, numbers_of, sgd_step
from pllab.lesson.mistakes import Mistake, retold

Numbers = dict[str, torch.Tensor | None]

_SIZE = 3  # with two ranks, a 2 written into the code would pass for the number of ranks
_PLAN = ((_SIZE, 1),)
_KINDS = ("plain", "tied", "frozen", "unused")
_ALL_KINDS = "frozen, unused, tied"
_ROWS = 4  # per rank
_STEPS, _RATE = 3, 0.5
_SLACK_BYTES = 128  # a solution may also tell the others which gradients it has


class Small(nn.Module):
    """A model with the three special cases: a frozen layer, one that forward never calls, a weight used twice."""

    def __init__(self, kinds: str) -> None:
        super().__init__()
        if "unused" in kinds:
            self.unused = nn.Linear(6, 20)  # first, so that who leaves the loop at it has done nothing yet
        self.gain = nn.Parameter(torch.ones(6, dtype=torch.float64))  # of the model itself, and of another type
        self.embed = nn.Embedding(11, 6)
        self.middle = nn.Linear(6, 6).requires_grad_("frozen" not in kinds)
        self.hidden = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        if "tied" in kinds:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(rows,) int64 -> (rows, 11)."""
        hidden = torch.tanh(self.hidden(torch.tanh(self.middle(self.embed(tokens)))))
        logits: torch.Tensor = self.head(hidden * self.gain.float())
        return logits


@until_one_fails
def average_on_ranks(watch: Watch, rank: int, world_size: int, average_gradients: Function) -> Calls:
    """On every rank: a call for every kind of model; in the world of three, then the steps with all kinds in one.

    The value of an attempt is the weights and gradients after it.
    """
    for kind in _KINDS if world_size > 1 else _KINDS[:1]:
        model = _model_of(kind, rank)
        attempt = watch.attempt(average_gradients, model)
        yield kind, attempt.holding(_numbers(model))
    if world_size > 1:
        yield from _steps(watch, rank, average_gradients)


def _model_of(kind: str, rank: int) -> Small:
    """A model with gradients drawn at random; its weights differ between ranks, so that averaging them would show."""
    torch.manual_seed(5)
    model = Small(kind)
    torch.manual_seed(100 + rank)
    for name, parameter in model.named_parameters():
        drawn = torch.randn_like(parameter)
        if parameter.requires_grad and not name.startswith("unused"):
            parameter.grad = drawn
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)
    if rank == 1 and model.hidden.bias.grad is not None:
        model.hidden.bias.grad.zero_()  # a zero is a gradient like any other
    return model


def _steps(watch: Watch, rank: int, average_gradients: Function) -> Calls:
    torch.manual_seed(5)
    model = Small(_ALL_KINDS)
    for step in range(_STEPS):
        _backward(model, step, slice(_ROWS * rank, _ROWS * (rank + 1)))
        attempt = watch.attempt(average_gradients, model)
        if not attempt.failed:
            sgd_step(model.parameters(), _RATE)
        yield f"step {step + 1}", attempt.holding(_numbers(model))


def _one_process() -> dict[str, torch.Tensor]:
    """The weights after the steps of one process with the whole batch."""
    torch.manual_seed(5)
    model = Small(_ALL_KINDS)
    for step in range(_STEPS):
        _backward(model, step, slice(None))
        sgd_step(model.parameters(), _RATE)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _backward(model: nn.Module, step: int, rows: slice) -> None:
    """The gradient of the mean loss over some rows of the batch that all ranks share."""
    generator = torch.Generator().manual_seed(step)
    tokens, targets = torch.randint(11, (2, _ROWS * _SIZE), generator=generator)
    model.zero_grad()
    nn.functional.cross_entropy(model(tokens[rows]), targets[rows]).backward()


def _numbers(model: nn.Module) -> Numbers:
    """All weights, and all gradients, as in `gain` and `gain.grad`."""
    gradients = {f"{name}.grad": parameter.grad for name, parameter in model.named_parameters()}
    return numbers_of(model) | deepcopy(gradients)


def _right(got: Any, right: Any) -> bool:
    """Float64 keeps its digits."""
    is_double = right is not None and right.dtype == torch.float64
    return close(got, right, *((1e-12, 0.0) if is_double else (1e-4, 1e-6)))


def _compare(average_gradients: Function, kind: str, size: int = _SIZE) -> None:
    """Compare the gradients after one call with the mean, and the weights with themselves."""
    seen = [one.value for one in seen_in_call(average_on_ranks, average_gradients, _PLAN, size, kind)]
    own = [_numbers(_model_of(kind, rank)) for rank in range(size)]

    def mean(name: str, *_: int, factor: float = 1.0) -> torch.Tensor | None:
        parts = [each for one in own if (each := one[name]) is not None]
        return factor * torch.stack(parts).mean(0) if parts else None

    mistakes = [
        Mistake("not_averaged", "That is this rank's own gradient.", like=lambda name, rank: own[rank][name]),
        Mistake("sum_not_mean", "That is the sum over the ranks; divide it.", like=partial(mean, factor=size)),
        Mistake(
            "literal_world_size",
            "That is a third of the sum, which is right only on three ranks. Ask the group for the number of ranks.",
            like=partial(mean, factor=size / _SIZE),  # on three ranks that is right
        ),
        Mistake(
            "digits_lost",
            "That is nearly right. It travelled in a smaller type; send each gradient in its own type.",
            when=lambda got, name, _: close(got, mean(name), 1e-2, 3e-2),
        ),
        Mistake(
            "invented_gradient",
            "The gradient was None on all ranks; with a tensor of zeros, momentum and weight decay would act.",
            when=lambda got, name, _: got is not None and mean(name) is None,
        ),
    ]
    compare_tensors(
        lambda name, rank: seen[rank].get(name),
        [(name, rank) for name in own[0] for rank in range(size)],
        lambda name, rank: mean(name) if name.endswith(".grad") else own[rank][name],
        mistakes,
        asked=f"{{}} on rank {{}} of {size}, in the {kind} model,",
        same=_right,
    )


@case("every gradient becomes the mean over three ranks, on each of them")
def the_mean(average_gradients: Function) -> None:
    """A world of one rank shows a number of ranks that stands in the code."""
    _compare(average_gradients, "plain")
    _compare(average_gradients, "tied")
    _compare(average_gradients, "plain", size=1)


@case("frozen and unused parameters, whose grad is None on all ranks, are left alone")
def skipped(average_gradients: Function) -> None:
    for kind in ("frozen", "unused"):
        with retold("none_gradient", f"A parameter that is {kind} has grad None on all ranks.", of="raised"):
            _compare(average_gradients, kind)


@case("no gradient travels twice (what is sent is counted)")
def few_messages(average_gradients: Function) -> None:
    """What has no gradient sends nothing, and a tied weight is sent once."""
    model = Small(_ALL_KINDS)
    _backward(model, 0, slice(None))
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    num_bytes, numel = sum(one.nbytes for one in gradients), sum(one.numel() for one in gradients)
    for each in seen_in_call(average_on_ranks, average_gradients, _PLAN, _SIZE, f"step {_STEPS}"):
        sent = each.busiest(lambda one: one.num_bytes)
        numbers = each.busiest(lambda one: prod(one.shape))  # who sends all in the largest type sends no more of them
        if numbers > numel + _SLACK_BYTES // 4 and sent > num_bytes + _SLACK_BYTES:
            told = f"The gradients have {num_bytes} bytes and your calls moved {sent}"
            why = "a tied weight has two names and one gradient, or something without a gradient was sent."
            raise Wrong("sent_twice", f"{told}: {why}")


@case("after three SGD steps three ranks have the weights of one process with the whole batch")
def equals_one_process(average_gradients: Function) -> None:
    """The model has a frozen, an unused and a tied parameter."""
    seen = seen_in_call(average_on_ranks, average_gradients, _PLAN, _SIZE, f"step {_STEPS}")
    right = _one_process()
    compare_tensors(
        lambda name, rank: seen[rank].value[name],
        [(name, rank) for name in right for rank in range(_SIZE)],
        lambda name, _: right[name],
        asked=f"{{}} on rank {{}} after {_STEPS} steps",
        same=partial(close, rtol=1e-4),
    )
