"""The cases of exercise 05.1: `broadcast_parameters(model)` gives every rank the numbers of rank 0."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_05_watch import Attempt, attempt, log_of, run

Broadcast = Callable[[nn.Module], Any]
Numbers = dict[str, torch.Tensor]


class Block(nn.Module):
    """Parameters, a frozen layer, a tied weight, the buffers of a batch norm, and one that is not in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.rand(3, 4).gt(0.5), persistent=False)
        self.exact = nn.Parameter(torch.rand(3, dtype=torch.float64))
        self.embed = nn.Embedding(7, 5)
        self.norm = nn.BatchNorm1d(5)
        self.norm.register_buffer("drift", torch.rand(5), persistent=False)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.head = nn.Linear(5, 7)
        self.head.weight = self.embed.weight


@dataclass(frozen=True)
class Seen:
    """One rank: its numbers before and after, and whether the model still holds the same tensors."""

    attempt: Attempt
    before: Numbers
    after: Numbers
    same_tensors: bool
    frozen: bool


def start_apart(rank: int, _: int, broadcast_parameters: Broadcast, folder: str) -> dict[str, Seen]:
    """Inside a rank: a model with numbers of its own; then the student's function."""
    torch.manual_seed(100 + rank)
    held = [nn.Parameter(torch.zeros(1)) for _ in range(37 * rank)]  # so a set has another order on each rank
    model = Block()
    with torch.no_grad():
        for tensor in chain(model.parameters(), model.buffers()):
            if tensor.dtype == torch.int64:
                tensor.add_(2**24 + 1 + 2_000_000 * rank)  # what float32 cannot hold
            elif tensor.dtype != torch.bool:
                tensor.add_((rank + 1) ** 2)  # a batch norm starts equal on all ranks; no rank has the mean
    before, tensors = _numbers(model), _identities(model)
    _, attempted = attempt(log_of(folder, rank), broadcast_parameters, model)
    same = tensors == _identities(model)
    del held
    frozen = not any(parameter.requires_grad for parameter in model.frozen.parameters())
    return {"start": Seen(attempted, before, _numbers(model), same, frozen)}


def _numbers(model: nn.Module) -> Numbers:
    named = chain(model.named_parameters(), model.named_buffers())
    return {name: tensor.detach().clone() for name, tensor in named}


def _identities(model: nn.Module) -> list[tuple[int, int]]:
    """The tensors and the memory that their numbers are in."""
    return [(id(tensor), tensor.data_ptr()) for tensor in chain(model.parameters(), model.buffers())]


@case("three ranks start from different seeds, and end with every parameter of rank 0")
def all_parameters(broadcast_parameters: Broadcast) -> None:
    seen: list[Seen] = run(start_apart, broadcast_parameters).of("start")
    names = [name for name in seen[0].before if name.startswith(("exact", "embed", "norm.w", "norm.b", "head"))]
    wrong = _different(seen, names)
    if not wrong:
        return
    _judge_digits(seen)
    _judge_origin(seen, wrong)
    if len(wrong) < len(names):
        raise Wrong(
            "not_all_parameters",
            f"{', '.join(wrong)} still differs from rank 0's on another rank; every parameter has to go out.",
        )
    raise _nothing_arrived(seen)


@case("frozen parameters and buffers are rank 0's as well")
def everything_else(broadcast_parameters: Broadcast) -> None:
    seen: list[Seen] = run(start_apart, broadcast_parameters).of("start")
    wrong = _different(seen, list(seen[0].before))
    _judge_digits(seen)
    _judge_origin(seen, wrong)
    if len(wrong) == len(seen[0].before):
        raise _nothing_arrived(seen)
    if wrong := _different(seen, [name for name in seen[0].before if name.startswith("frozen")]):
        raise Wrong(
            "frozen_forgotten",
            f"{', '.join(wrong)} is frozen, and still has another value on each rank; it takes part in forward too.",
        )
    wrong = _different(seen, _BUFFERS)
    if set(wrong) == {"mask", "norm.num_batches_tracked"}:
        raise Wrong(
            "whole_numbers",
            f"{', '.join(wrong)} still has another value on each rank: a buffer may hold whole numbers or truth "
            "values, and has to go out like any other.",
        )
    if set(wrong) == {"mask", "norm.drift"}:
        raise Wrong(
            "not_persistent",
            "mask and norm.drift still have another value on each rank: they are buffers with persistent=False, which "
            "the state dict leaves out and model.buffers() lists.",
        )
    if wrong:
        raise Wrong(
            "buffers_forgotten",
            f"{', '.join(wrong)} is a buffer, not a parameter, and still has another value on each rank; "
            "model.buffers() lists them.",
        )


@case("the numbers are written into the tensors that were there before")
def in_place(broadcast_parameters: Broadcast) -> None:
    """The optimizer holds the tensors that were there before, and what was frozen stays frozen."""
    seen: list[Seen] = run(start_apart, broadcast_parameters).of("start")
    if not all(each.same_tensors for each in seen):
        raise Wrong(
            "replaced",
            "The model holds new tensors now, or tensors in new memory, and whoever held the old ones, such as "
            "an optimizer or a view, does not see the numbers of rank 0; write into the memory of the old ones.",
        )
    if not all(each.frozen for each in seen):
        raise Wrong("unfrozen", "The frozen layer is trained now; requires_grad must stay as it was.")


def _nothing_arrived(seen: list[Seen]) -> Wrong:
    if not any(each.attempt.calls for each in seen):
        return Wrong(
            "nothing_sent", "No rank sent or received anything, and each still has the numbers of its own seed."
        )
    return Wrong(
        "not_stored",
        "Messages were sent, and the numbers are what they were: the result went into another tensor, such as a copy.",
    )


def _judge_digits(seen: list[Seen]) -> None:
    """Almost the numbers of rank 0."""
    for name, right in seen[0].before.items():
        values = [each.after[name].double() for each in seen]
        agreed = all(torch.equal(value, values[0]) for value in values)
        near = agreed and all(
            value.shape == right.shape and torch.allclose(value, right.double(), rtol=1e-6) for value in values
        )
        if near and name in _different(seen, [name]):
            raise Wrong(
                "digits_lost",
                f"{name} is almost that of rank 0, but has lost digits: it is {right.dtype} and travelled in a smaller "
                "type. Let each tensor travel in its own.",
            )


def _judge_origin(seen: list[Seen], wrong: list[str]) -> None:
    """All ranks agree, but not on the numbers of rank 0."""
    agreed = [name for name in wrong if all(torch.equal(each.after[name], seen[0].after[name]) for each in seen)]
    if not agreed:
        return
    name = agreed[0]
    values = [each.after[name] for each in seen]
    for rank, each in enumerate(seen):
        if torch.equal(values[0], each.before[name]):
            raise Wrong("wrong_source", f"All ranks now have {name} of rank {rank}; the source is rank 0.")
    before, value = torch.stack([each.before[name].double() for each in seen]), values[0].double()
    if torch.allclose(value, before.mean(0), atol=1e-5) or torch.allclose(value, before.sum(0), atol=1e-5):
        raise Wrong(
            "averaged",
            f"All ranks now have a sum or mean for {name}: no rank's own start, and what rank 0 had loaded is lost.",
        )
    if not any(each.attempt.calls for each in seen):
        raise Wrong(
            "re_seeded",
            "All ranks agree without a single message: you drew the weights again. What rank 0 had loaded is lost.",
        )


def _different(seen: list[Seen], names: list[str]) -> list[str]:
    return [
        name
        for name in names
        if any(not torch.equal(each.after.get(name, _NONE), seen[0].before[name]) for each in seen)
    ]


_NONE = torch.empty(0)
_BUFFERS = ["mask", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "norm.drift"]
