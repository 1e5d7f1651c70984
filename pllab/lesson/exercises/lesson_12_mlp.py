"""The cases of exercise 12.1: `split_mlp(...)`, a rank's share of gelu(x A + a) B + b, forward and backward.

The plain layers in one process are the oracle. Which columns a rank takes is the learner's choice, so gradients are
judged after adding up those of all ranks, the shares by where a rank's gradient is not zero, and the work by the
multiplications of the matrix products of a rank's forward.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from pllab import comm
from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch
from pllab.parallel.tensor import copy_in, reduce_out

SplitMlp = Callable[..., Any]
Tensors = tuple[torch.Tensor, ...]

_PLAN = ((3,), (2, 1))
_WIDTH, _HIDDEN = 5, 12
_ROOM = 1.25  # times its share of the multiplications, for a rank that prepares something by a product
_NAMES = ("x", "A", "a", "B", "b")
_ADVICE = "Name the values: which are whole on every rank, which are slices, which are terms of a sum?"


class Seen(NamedTuple):
    """What one call left on a rank: the output, all gradients, and what the forward sent and did."""

    output: Any
    grads: tuple[torch.Tensor | None, ...]
    num_forward: int
    num_products: int  # multiplications in matrix products


@case("forward equals the plain layers on every rank, in worlds of 3, 2 and 1")
def forward_equal(split_mlp: SplitMlp) -> None:
    for size in (3, 2, 1):
        for rank, seen in enumerate(_seen(split_mlp, size)):
            _judge_output(seen.output, rank, size)


@case("the gradient of x is whole on every rank")
def gradient_of_x(split_mlp: SplitMlp) -> None:
    for size in (3, 2, 1):
        right = _plain()[1][0]
        for rank, seen in enumerate(_seen(split_mlp, size)):
            _judge_x(seen.grads[0], right, rank, _seen(split_mlp, size))


@case("each rank learns its own share of A, a and B, and all shares together are the plain gradients")
def shares(split_mlp: SplitMlp) -> None:
    for size in (3, 2, 1):
        _judge_shares(_seen(split_mlp, size), size)


@case("a rank's forward multiplies no more numbers than its share")
def share_of_work(split_mlp: SplitMlp) -> None:
    for size in (3, 2):
        for rank, seen in enumerate(_seen(split_mlp, size)):
            _judge_work(seen.num_products, rank, size)


@case("the bias b counts once, and has its whole gradient on every rank")
def bias_once(split_mlp: SplitMlp) -> None:
    for size in (3, 2, 1):
        for rank, seen in enumerate(_seen(split_mlp, size)):
            _judge_bias(seen.grads[4], rank, size)


@case("one all-reduce forward and one backward, and no other message")
def two_messages(split_mlp: SplitMlp) -> None:
    for size in (3, 2):
        for rank, one in enumerate(_attempts(split_mlp, size)):
            _judge_messages(one, rank, size)


def call_on_ranks(watch: Watch, rank: int, world_size: int, split_mlp: SplitMlp) -> Attempt:
    """On every rank: one forward and one backward of the learner's function, with fresh weights."""

    def forward_and_backward() -> Seen:
        leaves = _leaves()
        with comm.record_messages() as ledger:
            with FlopCounterMode(display=False) as counter:
                output = split_mlp(*leaves, rank, world_size, copy_in, reduce_out)
            num_forward = ledger.count()
            if isinstance(output, torch.Tensor) and output.requires_grad:
                output.backward(_weights(output.shape))
        value = output.detach().clone() if isinstance(output, torch.Tensor) else repr(output)[:60]
        return Seen(value, tuple(leaf.grad for leaf in leaves), num_forward, counter.get_total_flops() // 2)

    return watch.attempt(forward_and_backward)


def _leaves() -> Tensors:
    draw = torch.Generator().manual_seed(12)
    shapes = ((2, 3, _WIDTH), (_WIDTH, _HIDDEN), (_HIDDEN,), (_HIDDEN, _WIDTH), (_WIDTH,))
    return tuple(torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes)


def _weights(shape: Sequence[int]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(13), dtype=torch.float64)


def _plain() -> tuple[torch.Tensor, Tensors]:
    x, up, up_bias, down, down_bias = leaves = _leaves()
    output = functional.gelu(x @ up + up_bias) @ down + down_bias
    return output.detach(), torch.autograd.grad(output, leaves, _weights(output.shape))


def _attempts(split_mlp: SplitMlp, size: int) -> list[Attempt]:
    attempts = seen_in_world(call_on_ranks, split_mlp, _PLAN, size)
    refuse_failures(attempts, f"In a world of {size}")
    return list(attempts)


def _seen(split_mlp: SplitMlp, size: int) -> list[Seen]:
    seen = [one.value for one in _attempts(split_mlp, size)]
    for rank, one in enumerate(seen):
        if not isinstance(one.output, torch.Tensor):
            raise Wrong("no_tensor", f"Rank {rank} returned {one.output}; return the output, a tensor like x.")
    return seen


def _close(got: torch.Tensor | None, right: torch.Tensor) -> bool:
    return got is not None and got.shape == right.shape and torch.allclose(got, right, rtol=1e-9, atol=1e-9)


def _judge_output(got: torch.Tensor, rank: int, size: int) -> None:
    right = _plain()[0]
    if _close(got, right):
        return
    where = f"In a world of {size}, on rank {rank},"
    if got.shape != right.shape:
        raise Wrong("shape", f"{where} the output has shape {list(got.shape)}, and x has {list(right.shape)}.")
    bias = _leaves()[4].detach()
    if size > 1 and _close(got - right, (size - 1) * bias.expand_as(right)):
        raise Wrong("bias_times", f"{where} b was added {size} times: every rank added it before the sum.")
    if _close(right - got, bias.expand_as(right)):
        raise Wrong("no_bias", f"{where} b is missing.")
    if _close(got, size * right) and size > 1:
        raise Wrong("whole_weight", f"{where} the output is {size} times too large: every rank computed all of it.")
    if size == 1:
        raise Wrong("alone", "With one rank the output is not that of the plain layers, so it is no matter of ranks.")
    if _close(got, _one_slice(rank, size)) or _close(got, _one_slice(rank, size) + bias):
        raise Wrong("term", f"{where} you returned this rank's own term: the terms of all ranks have to be added up.")
    raise Wrong("other_output", f"{where} the output is not that of the plain layers. {_ADVICE}")


def _one_slice(rank: int, size: int) -> torch.Tensor:
    """The term of a rank with the columns in order."""
    x, up, up_bias, down, _ = (leaf.detach() for leaf in _leaves())
    mine = slice(rank * _HIDDEN // size, (rank + 1) * _HIDDEN // size)
    return functional.gelu(x @ up[:, mine] + up_bias[mine]) @ down[mine]


def _judge_x(got: torch.Tensor | None, right: torch.Tensor, rank: int, all_seen: Sequence[Seen]) -> None:
    size, where = len(all_seen), f"In a world of {len(all_seen)}, on rank {rank},"
    if _close(got, right):
        return
    if got is None:
        raise Wrong("no_gradient", f"{where} x got no gradient: something cut the graph, such as detach or no_grad.")
    terms = [seen.grads[0] for seen in all_seen]
    total = torch.stack([term for term in terms if term is not None]).sum(0)
    if _close(total, right):
        raise Wrong(
            "partial_gradient",
            f"{where} the gradient of x is this rank's term of it, though the output is right: the all-reduce of the "
            "backward is missing, and the layers below would learn another gradient on each rank.",
        )
    if _close(got, size * right):
        raise Wrong("gradient_times", f"{where} the gradient of x is {size} times too large: it was summed once more.")
    raise Wrong("other_gradient", f"{where} the gradient of x is not that of the plain layers. {_ADVICE}")


def _judge_shares(all_seen: Sequence[Seen], size: int) -> None:
    where, plain = f"In a world of {size},", _plain()[1]
    for number, dim in ((1, 1), (2, 0), (3, 0)):
        name, found = _NAMES[number], [seen.grads[number] for seen in all_seen]
        grads = [grad for grad in found if grad is not None]
        if len(grads) < size:
            raise Wrong("no_gradient", f"{where} {name} got no gradient on rank {found.index(None)}.")
        used = [_used(grad, dim) for grad in grads]
        if size > 1 and max(used) == _HIDDEN:
            raise Wrong(
                "whole_weight",
                f"{where} rank {used.index(_HIDDEN)} used all {_HIDDEN} hidden features of {name}; a rank computes "
                f"with its {_HIDDEN // size} alone, else nothing is saved.",
            )
        if set(used) != {_HIDDEN // size}:
            raise Wrong("unequal", f"{where} the ranks used {used} hidden features of {name}; share them equally.")
        if not _close(torch.stack(grads).sum(0), plain[number]):
            raise Wrong("other_gradient", f"{where} the shares of {name} add up to another gradient. {_ADVICE}")


def _used(grad: torch.Tensor, dim: int) -> int:
    """How many hidden features a gradient reaches."""
    rest = [other for other in range(grad.dim()) if other != dim]
    return int((grad.abs().sum(rest) if rest else grad.abs()).count_nonzero())


def _judge_work(num_products: int, rank: int, size: int) -> None:
    x, up, _, down, _ = _leaves()
    share = x.shape[:-1].numel() * (up.numel() + down.numel()) // size
    if num_products > _ROOM * share:
        raise Wrong(
            "all_the_work",
            f"In a world of {size}, rank {rank} multiplied {num_products} numbers in its forward, and its share is "
            f"{share}: it computed hidden features that it threw away. Cut the weights, not what they make.",
        )


def _judge_bias(got: torch.Tensor | None, rank: int, size: int) -> None:
    where, right = f"In a world of {size}, on rank {rank},", _plain()[1][4]
    if _close(got, right):
        return
    if got is None or not got.any():
        raise Wrong(
            "bias_of_one_rank",
            f"{where} b got no gradient: only another rank added it. Every rank has a copy of b, and copies that do "
            "not learn the same drift apart.",
        )
    if _close(size * got, right):
        raise Wrong(
            "bias_divided",
            f"{where} the gradient of b is {size} times too small: each rank added a part of b before the sum. Add "
            "the whole b after it.",
        )
    raise Wrong("bias_gradient", f"{where} the gradient of b is not that of the plain layers.")


def _judge_messages(one: Attempt, rank: int, size: int) -> None:
    where = f"In a world of {size}, rank {rank}"
    if others := [message.name for message in one.messages if message.name != "all_reduce"]:
        raise Wrong("other_message", f"{where} called {others[0]}; the two steps given send all that is needed.")
    forward = one.value.num_forward
    if (forward, len(one.messages) - forward) != (1, 1):
        raise Wrong(
            "more_messages",
            f"{where} sent {forward} all-reduces forward and {len(one.messages) - forward} backward; one of each is "
            "enough, because between the two layers nothing has to be sent.",
        )
