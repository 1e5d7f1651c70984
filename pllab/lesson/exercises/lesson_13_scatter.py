"""The cases of exercise 13.2: `shard_of_gradients(model)` sums gradients so that each rank has its part and no more.

The gradients are whole numbers, whose sums are exact in any order.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_13_ranks import (
    SIZES,
    Seen,
    close,
    judge_weight,
    padded,
    part_size,
    seen_in,
    without_value,
)
from pllab.lesson.exercises.ranks import Watch

ShardOf = Callable[[nn.Module], Any]

_EVEN, _UNEVEN, _FEW = "12 numbers", "26 numbers", "2 numbers"
_GAP, _GAPS = "a gradient that is None on all ranks", "gradients that are None"
_NAMES = (_EVEN, _UNEVEN, _FEW, _GAP, _GAPS)
_GAPPED = ((5,), (3, 4), (6,), (4,), (2, 2))
_SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    _EVEN: ((2, 3), (6,)),
    _UNEVEN: ((5,), (3, 4), (), (2, 2, 2)),
    _FEW: ((2,),),
    _GAP: _GAPPED,
    _GAPS: _GAPPED,
}
_FROZEN, _UNUSED, _ONLY_ON_0 = 2, 3, 1  # of the model with gaps


@case("each rank gets its part of the mean of the flat gradient, where w divides n")
def even(shard_of_gradients: ShardOf) -> None:
    _judge_parts(shard_of_gradients, _EVEN)


@case("the same for other sizes, padded with zeros, and for fewer numbers than ranks")
def uneven(shard_of_gradients: ShardOf) -> None:
    for name in (_UNEVEN, _FEW):
        _judge_parts(shard_of_gradients, name)


@case("frozen parameters have no place; a gradient that is None counts as zeros, on one rank or on all")
def gaps(shard_of_gradients: ShardOf) -> None:
    for name in (_GAP, _GAPS):
        _judge_parts(shard_of_gradients, name)


@case("nothing else is left: every grad is None, and the part has memory of its own")
def nothing_else(shard_of_gradients: ShardOf) -> None:
    for size in SIZES:
        for name in _NAMES:
            for rank, one in enumerate(seen_in(scatter_all, shard_of_gradients, size, name)):
                _judge_rest(one.held, f"In a world of {size}, with {name}, rank {rank}", _numel(name), size)


@case("a rank sends no more than a reduce-scatter of the flat gradient")
def few_bytes(shard_of_gradients: ShardOf) -> None:
    for size in (3, 2):
        for name in (_EVEN, _UNEVEN, _GAPS):
            seen = seen_in(scatter_all, shard_of_gradients, size, name)
            judge_weight(seen, part_size(_numel(name), size), "a sum of which each rank keeps a part")


def scatter_all(watch: Watch, rank: int, world_size: int, shard_of_gradients: ShardOf) -> dict[str, Seen]:
    """On every rank, a call for every model; `held` is the gradients that are left and the bytes behind the result.

    Who leaves a gradient out that is None everywhere would also give different sizes to the collective, on which gloo
    ends the processes: it stops before.
    """
    seen: dict[str, Seen] = {}
    for name in _NAMES:
        model = _model(name, rank)
        one = watch.attempt(shard_of_gradients, model)
        left = sum(parameter.grad is not None for parameter in model.parameters())
        value = one.value.detach() if isinstance(one.value, torch.Tensor) else one.value
        behind = value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else 0
        told = value.clone() if isinstance(value, torch.Tensor) else type(value).__name__
        seen[name] = Seen(without_value(one), told, (left, behind))
        if one.failed or (name == _GAP and _leaves_out(told, world_size)):
            break
    return seen


def _model(name: str, rank: int) -> nn.Module:
    """Parameters with the gradients of this rank."""
    some = torch.Generator().manual_seed(rank + 7 * len(name))
    model = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in _SHAPES[name]])
    for parameter in model:
        parameter.grad = torch.randint(-60, 60, tuple(parameter.shape), generator=some).float()
    if name in (_GAP, _GAPS):
        model[_FROZEN].requires_grad_(False).grad = None
        model[_UNUSED].grad = None
    if name == _GAPS and rank > 0:
        model[_ONLY_ON_0].grad = None
    return model


def _numel(name: str) -> int:
    return sum(parameter.numel() for parameter in _model(name, 0).parameters() if parameter.requires_grad)


def _flat(name: str, rank: int) -> torch.Tensor:
    """The flat gradient of a rank, zeros where it has none."""
    trained = [parameter for parameter in _model(name, rank).parameters() if parameter.requires_grad]
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in trained])


def _leaves_out(mine: Any, size: int) -> bool:
    """Whether a part is as long as without the gradient that is None on all ranks."""
    return isinstance(mine, torch.Tensor) and mine.shape == (
        part_size(_numel(_GAP) - math.prod(_GAPPED[_UNUSED]), size),
    )


def _judge_parts(shard_of_gradients: ShardOf, name: str) -> None:
    for size in SIZES:
        seen = seen_in(scatter_all, shard_of_gradients, size, name)
        whole = padded(torch.stack([_flat(name, rank) for rank in range(size)]).sum(0), size)
        parts = whole.view(size, -1)
        if name == _GAP and all(_leaves_out(one.result, size) for one in seen):
            raise Wrong(
                "none_left_out",
                f"In a world of {size}, the parts are too short for {_numel(name)} numbers: a gradient that is None "
                "has no place. Fill its place with zeros, because another rank may have a gradient there.",
            )
        for rank, one in enumerate(seen):
            _judge_part(one.result, rank, parts, _flat(name, rank), f"In a world of {size}, with {name}, rank {rank}")


def _judge_part(mine: Any, rank: int, sums: torch.Tensor, own: torch.Tensor, where: str) -> None:
    """Compare a rank's part with the sums over the ranks, (w, c)."""
    size, most = sums.shape
    if not isinstance(mine, torch.Tensor):
        raise Wrong("no_part", f"{where} returned {mine}; return its part of the mean, a tensor of {most} numbers.")
    if mine.shape != (most,):
        raise Wrong(
            "other_shape",
            f"{where} returned a tensor of shape {tuple(mine.shape)}; its part has shape ({most},), the last ones "
            "padded with zeros, because all parts of a reduce-scatter have one size.",
        )
    right = sums / size
    if close(mine, right[rank]):
        return
    if size > 1 and close(mine, sums[rank]):
        raise Wrong("sum_for_mean", f"{where} has the sum over the ranks; the gradient of the whole batch is the mean.")
    if size > 1 and close(mine, right[rank] / size):
        raise Wrong("divided_twice", f"{where} has the mean divided by {size} once more.")
    if any(close(mine, other) for number, other in enumerate(right) if number != rank):
        raise Wrong("other_part", f"{where} has the part of another rank; rank r has the numbers from r * c on.")
    if size > 1 and any(close(mine, each) for each in (padded(own, size).view(size, -1)[rank], right[rank] * 0)):
        raise Wrong("not_summed", f"{where} has only its own gradients: every rank's count.")
    raise Wrong(
        "other_numbers",
        f"{where} has other numbers than its part of the mean of the flat gradient. Lay all gradients side by side in "
        "the order of the parameters, with zeros where one is None, and pad once, at the end.",
    )


def _judge_rest(held: tuple[int, int], where: str, numel: int, size: int) -> None:
    left, behind = held
    if left:
        raise Wrong("gradients_left", f"{where} still has {left} whole gradients: set grad to None to free them.")
    most = 4 * part_size(numel, size)
    if behind > most:
        raise Wrong(
            "whole_kept",
            f"{where} returned a view: its {most} bytes keep alive the {behind} bytes they are cut from. Return a "
            "tensor with memory of its own.",
        )
