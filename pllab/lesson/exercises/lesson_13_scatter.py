"""The cases of exercise 13.2: `shard_of_gradients(model)` sums gradients so that each rank has its part and no more.

The gradients are whole numbers, whose sums are exact in any order.
"""

import math

import torch
from torch import nn

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.lesson_13_parts import BYTES, judge_weight, part_of, part_size
from pllab.lesson.exercises.ranks import RANKS, SIZES, UP_TO_3, Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import compare_tensors, detached
from pllab.lesson.mistakes import Mistake

_EVEN, _UNEVEN, _FEW = "12 numbers", "26 numbers", "2 numbers"
_GAP = "a frozen parameter and a gradient that is None on all ranks"
_GAPS = "a frozen parameter and gradients that are None"
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
def even(shard_of_gradients: Function) -> None:
    _judge_parts(shard_of_gradients, _EVEN)


@case("the same for other sizes, padded with zeros, and for fewer numbers than ranks")
def uneven(shard_of_gradients: Function) -> None:
    for name in (_UNEVEN, _FEW):
        _judge_parts(shard_of_gradients, name)


@case("frozen parameters have no place; a gradient that is None counts as zeros, on one rank or on all")
def gaps(shard_of_gradients: Function) -> None:
    left_out = "A gradient that is None has no place. Give it one, of zeros: another rank may have a gradient there."
    shorter = len(_flat(_GAP, 0)) - math.prod(_GAPPED[_UNUSED])
    _judge_parts(
        shard_of_gradients,
        _GAP,
        Mistake("none_left_out", left_out, when=lambda part, size, *_: part.shape == (part_size(shorter, size),)),
    )
    _judge_parts(shard_of_gradients, _GAPS)


@case("nothing else is left: every grad is None, and the part is in new memory")
def nothing_else(shard_of_gradients: Function) -> None:
    for size, rank in RANKS:
        for name in _SHAPES:
            _, num_left, behind = _attempts(shard_of_gradients, size, name)[rank].value
            where, most = f"In a world of {size}, with {name}, rank {rank}", _size_of_part(name, size) * BYTES
            if num_left:
                raise Wrong("gradients_left", f"{where} still has {num_left} whole gradients: set grad to None.")
            if behind > most:
                told = f"{where} returned a view: {most} bytes keep {behind} alive"
                raise Wrong("whole_kept", f"{told}. Put the part into new memory.")


@case("a rank sends no more than a reduce-scatter of the flat gradient")
def few_bytes(shard_of_gradients: Function) -> None:
    for size in SIZES[1:]:
        for name in (_EVEN, _UNEVEN, _GAPS):
            attempts = _attempts(shard_of_gradients, size, name)
            judge_weight(attempts, _size_of_part(name, size), "a sum of which each rank keeps a part")


@until_one_fails
def scatter_all(watch: Watch, rank: int, world_size: int, shard_of_gradients: Function) -> Calls:
    """On every rank, for every model: the part, how many gradients are left, and the bytes behind the part.

    Who leaves a gradient out that is None everywhere would also give different sizes to the collective, on which gloo
    ends the processes: it stops before.
    """
    for name in _SHAPES:
        model = _model(name, rank)
        one = watch.attempt(shard_of_gradients, model)
        left = sum(parameter.grad is not None for parameter in model.parameters())
        behind = one.value.untyped_storage().nbytes() if isinstance(one.value, torch.Tensor) else 0
        yield name, one.holding((detached(one.value), left, behind))
        if name == _GAP and getattr(one.value, "shape", None) != (_size_of_part(name, world_size),):
            return


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


def _flat(name: str, rank: int) -> torch.Tensor:
    """The flat gradient of a rank, zeros where it has none."""
    trained = [parameter for parameter in _model(name, rank).parameters() if parameter.requires_grad]
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in trained])


def _size_of_part(name: str, size: int) -> int:
    return part_size(len(_flat(name, 0)), size)


def _attempts(shard_of_gradients: Function, size: int, name: str) -> list[Attempt]:
    return seen_in_call(scatter_all, shard_of_gradients, UP_TO_3, size, name)


def _judge_parts(shard_of_gradients: Function, name: str, *mistakes: Mistake) -> None:
    def summed(size: int, rank: int) -> torch.Tensor:
        return part_of(torch.stack([_flat(name, each) for each in range(size)]).sum(0), rank, size)

    compare_tensors(
        lambda size, rank: _attempts(shard_of_gradients, size, name)[rank].value[0],
        RANKS,
        lambda size, rank: summed(size, rank) / size,
        [Mistake("sum_for_mean", "That is the sum over the ranks; return the mean.", like=summed), *mistakes],
        asked=f"a model with {name} in a world of {{}} on rank {{}}",
    )
