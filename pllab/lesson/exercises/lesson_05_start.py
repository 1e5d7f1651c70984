"""The cases of exercise 05.1: `broadcast_parameters(model)` gives every rank the numbers of rank 0."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Attempt, Watch
from pllab.lesson.exercises.tensors import close, compare_tensors, identical, numbers_of
from pllab.lesson.mistakes import Mistake

Numbers = dict[str, torch.Tensor]

_PLAN = ((3,),)
_RANKS = range(3)


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


def start_apart(watch: Watch, rank: int, world_size: int, broadcast_parameters: Function) -> dict[str, Attempt]:
    """On every rank: a model with numbers of its own; then the student's function."""
    made = [_model_of(rank)]
    while not _sets_begin_apart(made[-1], rank, world_size):
        made.append(_model_of(rank))  # those before it stay, so that this one has other addresses
    model = made[-1]
    tensors = _identities(model)
    attempt = watch.attempt(broadcast_parameters, model)
    is_frozen = not any(parameter.requires_grad for parameter in model.frozen.parameters())
    return {"a model": attempt.holding((numbers_of(model), tensors == _identities(model), is_frozen))}


def _model_of(rank: int) -> Block:
    """A model whose numbers tell its rank, and of which no rank has the mean."""
    torch.manual_seed(100 + rank)
    model = Block()
    with torch.no_grad():
        for tensor in chain(model.parameters(), model.buffers()):
            if tensor.dtype == torch.int64:
                tensor.add_(2**24 + 1 + 2_000_000 * rank)  # what float32 cannot hold
            elif tensor.dtype != torch.bool:
                tensor.add_((rank + 1) ** 2)  # a batch norm starts equal on all ranks
    return model


def _sets_begin_apart(model: nn.Module, rank: int, world_size: int) -> bool:
    """Whether Python's sets of these tensors begin with another one than on all other ranks."""
    parameters, buffers = list(model.parameters()), list(model.buffers())
    everything, first_of_all = parameters + buffers, next(iter(set(parameters) | set(buffers)))
    places = _place(everything, first_of_all), _place(parameters, next(iter(set(parameters))))
    return all(place % world_size == rank for place in places)


def _place(tensors: Sequence[torch.Tensor], wanted: torch.Tensor) -> int:
    return next(place for place, tensor in enumerate(tensors) if tensor is wanted)


def _identities(model: nn.Module) -> list[tuple[int, int]]:
    """The tensors and the memory that their numbers are in."""
    return [(id(tensor), tensor.data_ptr()) for tensor in chain(model.parameters(), model.buffers())]


def _seen(broadcast_parameters: Function) -> list[tuple[Numbers, bool, bool]]:
    """For every rank: its numbers, whether they are in the old tensors, and whether the frozen layer is frozen."""
    return [each.value for each in seen_in_call(start_apart, broadcast_parameters, _PLAN, 3, "a model")]


def _compare(broadcast_parameters: Function, names: Sequence[str], kept: str, advice: str) -> None:
    """Compare with rank 0's numbers; `kept` and `advice` are the hint where a rank has kept its own."""
    seen, starts = _seen(broadcast_parameters), [numbers_of(_model_of(rank)) for rank in _RANKS]

    def is_mean_or_sum(got: Any, name: str, _: int) -> bool:
        both = torch.stack([start[name].double() for start in starts])
        return close(got, both.mean(0)) or close(got, both.sum(0))

    mistakes = [
        Mistake(kept, advice, like=lambda name, rank: starts[rank][name]),
        *(
            Mistake(
                "wrong_source",
                f"Those are the numbers of rank {source}; the source is rank 0.",
                like=lambda name, _, source=source: starts[source][name],
            )
            for source in _RANKS[1:]
        ),
        Mistake(
            "averaged", "That is a sum or mean over the ranks; rank 0's loaded numbers are lost.", when=is_mean_or_sum
        ),
        Mistake(
            "digits_lost",
            "It travelled in a smaller type and lost digits. Send each tensor in its own type.",
            when=lambda got, name, _: close(got, starts[0][name], rtol=1e-6),
        ),
    ]
    compare_tensors(
        lambda name, rank: seen[rank][0].get(name),
        [(name, rank) for name in names for rank in _RANKS],
        lambda name, _: starts[0][name],
        mistakes,
        asked="{} on rank {}",
        same=identical,
    )


@case("three ranks start from different seeds, and end with every parameter of rank 0")
def all_parameters(broadcast_parameters: Function) -> None:
    names = ["exact", "embed.weight", "norm.weight", "norm.bias", "head.bias"]
    _compare(broadcast_parameters, names, "wrong", "Each rank has kept its own numbers.")


@case("frozen parameters and buffers are rank 0's as well")
def everything_else(broadcast_parameters: Function) -> None:
    frozen = "This parameter is frozen, but forward uses it: send it too."
    _compare(broadcast_parameters, ["frozen.weight", "frozen.bias"], "frozen_forgotten", frozen)
    buffers = [name for name, _ in Block().named_buffers()]
    listed = "This is a buffer. model.buffers() lists all: whole numbers, truth values, those with persistent=False."
    _compare(broadcast_parameters, buffers, "buffers_forgotten", listed)


@case("the numbers are written into the tensors that were there before")
def in_place(broadcast_parameters: Function) -> None:
    """The optimizer holds the tensors that were there before, and what was frozen stays frozen."""
    seen = _seen(broadcast_parameters)
    if not all(same_tensors for _, same_tensors, _ in seen):
        raise Wrong("replaced", "The model has new tensors or memory, and an optimizer holds the old: write into that.")
    if not all(is_frozen for _, _, is_frozen in seen):
        raise Wrong("wrong", "frozen.weight.requires_grad was False before the call and is True now; do not change it.")
