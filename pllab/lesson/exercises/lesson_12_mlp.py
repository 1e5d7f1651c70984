"""The cases of exercise 12.1: `split_mlp(...)`, a rank's share of gelu(x A + a) B + b, forward and backward.

The plain layers in one process are the oracle. Which columns a rank takes is the learner's choice, so gradients are
judged after adding up those of all ranks, the shares by where a rank's gradient is not zero, and the work by the
multiplications of the matrix products of a rank's forward.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from pllab import comm
from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import RANKS, SIZES, UP_TO_3, Attempt, Watch
from pllab.lesson.exercises.tensors import NO_GRADIENT, alike, compare_tensors, detached
from pllab.lesson.mistakes import Mistake, compare
from pllab.parallel.tensor import copy_in, reduce_out

_CALL = "a forward and its backward"
_WIDTH, _HIDDEN = 5, 12
_ROOM = 1.25  # times its share of the multiplications, for a rank that prepares something by a product
_OF_X, _OF_B = "the gradient of x", "the gradient of b"
_SPLIT = ("the gradient of A", "the gradient of a", "the gradient of B")


class Seen(NamedTuple):
    """What one call left on a rank: the output and all gradients by name, and what the forward sent and did."""

    tensors: dict[str, Any]
    num_forward: int
    num_products: int  # multiplications in matrix products


@case("forward equals the plain layers on every rank, in worlds of 1, 2 and 3")
def forward_equal(split_mlp: Function) -> None:
    bias, right = _leaves()[4].detach(), _plain()["y"]
    before = "Every rank added b before the sum."
    term = "That is this rank's own term, with b: add up the terms of all ranks."
    _compare(
        split_mlp,
        "y",
        Mistake("bias_times", before, like=lambda size, _: right + (size - 1) * bias),
        Mistake("term", term, when=lambda _, size, *__: alike(_total(split_mlp, "y", size), right + (size - 1) * bias)),
    )


@case("the gradient of x is whole on every rank")
def gradient_of_x(split_mlp: Function) -> None:
    partial = "That is this rank's term; without the all-reduce of the backward the layers below learn differently."
    _compare(split_mlp, _OF_X, NO_GRADIENT, _adds_up("partial_gradient", partial, split_mlp, _OF_X))


@case("each rank learns its own share of A, a and B, and all shares together are the plain gradients")
def shares(split_mlp: Function) -> None:
    nothing_saved = "If a rank computes with all hidden features, nothing is saved."
    compare(
        lambda name, size, rank: _num_features(_tensors(split_mlp, size)[rank][name], name),
        [(name, *place) for name in _SPLIT for place in RANKS],
        lambda _, size, *__: _HIDDEN // size,
        [NO_GRADIENT, Mistake("whole_weight", nothing_saved, like=lambda *_: _HIDDEN)],
        asked="the number of hidden features in {} in a world of {} on rank {}",
    )
    compare_tensors(
        lambda name, size: _total(split_mlp, name, size),
        [(name, size) for name in _SPLIT for size in SIZES],
        lambda name, _: _plain()[name],
        asked="{}, added up over the ranks of a world of {},",
    )


@case("a rank's forward multiplies no more numbers than its share")
def share_of_work(split_mlp: Function) -> None:
    x, up, _, down, _ = _leaves()
    for size, rank in RANKS[1:]:
        share = x.shape[:-1].numel() * (up.numel() + down.numel()) // size
        num_products = _attempts(split_mlp, size)[rank].value.num_products
        if num_products > _ROOM * share:
            told = f"In a world of {size}, rank {rank} multiplied {num_products} numbers, and its share is {share}"
            why = "Cut the weights, not what they make: it computed hidden features that it threw away."
            raise Wrong("all_the_work", f"{told}. {why}")


@case("the bias b counts once, and has its whole gradient on every rank")
def bias_once(split_mlp: Function) -> None:
    inside = "One rank added b before the sum, or each a part of it: the copies of b drift apart. Add b after the sum."
    _compare(split_mlp, _OF_B, _adds_up("bias_inside", inside, split_mlp, _OF_B))


@case("one all-reduce forward and one backward, and no other message")
def two_messages(split_mlp: Function) -> None:
    for size, rank in RANKS[1:]:
        one = _attempts(split_mlp, size)[rank]
        names, num_forward = [message.name for message in one.messages], one.value.num_forward
        if names != ["all_reduce"] * 2 or num_forward != 1:
            ways = [", ".join(some) or "nothing" for some in (names[:num_forward], names[num_forward:])]
            told = f"In a world of {size}, rank {rank} sent {ways[0]} forward and {ways[1]} backward"
            raise Wrong("more_messages", f"{told}; right is one all_reduce each way.")


def call_on_ranks(watch: Watch, rank: int, world_size: int, split_mlp: Function) -> dict[str, Attempt]:
    """On every rank: one forward and one backward of the learner's function, with fresh weights."""

    def forward_and_backward() -> Seen:
        leaves = _leaves()
        with comm.record_messages() as ledger:
            with FlopCounterMode(display=False) as counter:
                output = split_mlp(*leaves, rank, world_size, copy_in, reduce_out)
            num_forward = ledger.count()
            if isinstance(output, torch.Tensor) and output.requires_grad:
                output.backward(_weights(output.shape))
        tensors = _by_name([detached(output), *(leaf.grad for leaf in leaves)])
        return Seen(tensors, num_forward, counter.get_total_flops() // 2)

    return {_CALL: watch.attempt(forward_and_backward)}


def _leaves() -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(12)
    shapes = ((2, 3, _WIDTH), (_WIDTH, _HIDDEN), (_HIDDEN,), (_HIDDEN, _WIDTH), (_WIDTH,))
    return tuple(torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes)


def _weights(shape: Sequence[int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(13), dtype=torch.float64)


def _plain() -> dict[str, torch.Tensor]:
    x, up, up_bias, down, down_bias = leaves = _leaves()
    output = functional.gelu(x @ up + up_bias) @ down + down_bias
    return _by_name([output.detach(), *torch.autograd.grad(output, leaves, _weights(output.shape))])


def _by_name(tensors: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("y", _OF_X, *_SPLIT, _OF_B), tensors, strict=True))


def _attempts(split_mlp: Function, size: int) -> list[Attempt]:
    return seen_in_call(call_on_ranks, split_mlp, UP_TO_3, size, _CALL)


def _tensors(split_mlp: Function, size: int) -> list[dict[str, Any]]:
    return [one.value.tensors for one in _attempts(split_mlp, size)]


def _total(split_mlp: Function, name: str, size: int) -> torch.Tensor:
    """The sum over all ranks of this tensor; a gradient that is None counts as zeros."""
    found = [tensors[name] for tensors in _tensors(split_mlp, size) if tensors[name] is not None]
    return sum(found, torch.zeros(()))


def _num_features(grad: torch.Tensor | None, name: str) -> int | None:
    """How many hidden features a gradient reaches: columns of A, numbers of a, rows of B."""
    if grad is None:
        return None
    rows = grad.t() if name == _SPLIT[0] else grad
    return int(rows.reshape(_HIDDEN, -1).any(1).sum())


def _compare(split_mlp: Function, name: str, *mistakes: Mistake) -> None:
    """Compare this tensor on every rank with that of the plain layers."""
    asked = f"{name} in a world of {{}} on rank {{}}"
    right = _plain()[name]
    compare_tensors(
        lambda size, rank: _tensors(split_mlp, size)[rank][name], RANKS, lambda *_: right, mistakes, asked=asked
    )


def _adds_up(hint_id: str, sentence: str, split_mlp: Function, name: str) -> Mistake:
    """The mistake of ranks that each have a part of what all of them need whole."""
    return Mistake(hint_id, sentence, when=lambda _, size, *__: alike(_total(split_mlp, name, size), _plain()[name]))
