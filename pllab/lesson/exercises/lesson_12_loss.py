"""The cases of exercise 12.4: `vocab_loss(logits, targets, first)`, the cross-entropy of logits split over the words.

PyTorch's own cross-entropy of the whole logits is the oracle, in the process of the check. The words are many more than
the numbers that a message may carry, so a gather of logits cannot hide in one.
"""

from typing import Any, NamedTuple

import torch
from torch.nn import functional

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import RANKS, UP_TO_3, Attempt, Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import NO_GRADIENT, compare_tensors, detached
from pllab.lesson.mistakes import Mistake
from pllab.parallel.tensor import bounds

_SMALL, _LARGE = "ordinary logits", "logits near 1000 and -1000"
_WORDS = 50  # 17, 17 and 16 over three ranks
_MOST = 2 * 12 * 8  # bytes that a message may carry: two numbers for each of twelve tokens


class Seen(NamedTuple):
    """One call on a rank."""

    losses: Any
    grad: torch.Tensor | None
    intact: bool


@case("the losses are those of the whole logits, on every rank, in worlds of 1, 2 and 3")
def losses_equal(vocab_loss: Function) -> None:
    _compare_losses(
        vocab_loss,
        _SMALL,
        Mistake("own_words", "The sum of exponentials runs only over the words of this rank.", like=_sum_of_own_words),
        Mistake(
            "own_highest",
            "Each rank subtracted the highest logit of its own words: all must subtract the highest of all ranks.",
            like=_each_its_own_highest,
        ),
        Mistake(
            "target_not_sent",
            "Only targets among this rank's words are right: the rank that has the logit must tell the others.",
            like=_target_here_alone,
        ),
    )


@case("logits near 1000 and -1000 give finite losses, the same as the whole")
def stable(vocab_loss: Function) -> None:
    told = (
        "exp(1000) is infinite and exp(-1000) is 0. Before exp subtract the token's highest logit over all ranks, "
        "a maximum and no sum, and take the logarithm of the sum alone: the target's exponential may still be 0."
    )
    _compare_losses(vocab_loss, _LARGE, Mistake("overflow", told, when=lambda losses, *_: not losses.isfinite().all()))


@case("the gradient of a rank's logits is its slice of the whole gradient")
def gradients_equal(vocab_loss: Function) -> None:
    times = "After a sum over the ranks all ranks have the same gradient; pass it back unchanged: you summed it."

    def right(kind: str, size: int, rank: int) -> torch.Tensor:
        return _slice(_whole(kind)[1], size, rank)

    compare_tensors(
        lambda *question: _attempt(vocab_loss, *question).value.grad,
        [(kind, *place) for kind in (_SMALL, _LARGE) for place in RANKS],
        right,
        [
            NO_GRADIENT,
            Mistake("gradient_times", times, like=lambda kind, size, rank: size * right(kind, size, rank)),
        ],
        asked="the gradient of {} in a world of {} on rank {}",
    )


@case("only all-reduces are sent, of at most two numbers a token each; the logits stay as they were")
def few_bytes(vocab_loss: Function) -> None:
    for kind in (_SMALL, _LARGE):
        for size, rank in RANKS:
            one, where = _attempt(vocab_loss, kind, size, rank), f"In a world of {size}, rank {rank}"
            for message in one.messages:
                if message.name != "all_reduce" or message.num_bytes > _MOST:
                    told = f"{where} sent {message.name} of {message.num_bytes} bytes"
                    why = "Reduce over this rank's words first, then over the ranks."
                    raise Wrong("messages", f"{told}; right is an all_reduce of at most {_MOST} bytes. {why}")
            if not one.value.intact:
                raise Wrong("logits_changed", f"{where} changed the logits; others may hold them, work on a copy.")


@until_one_fails
def call_on_ranks(watch: Watch, rank: int, world_size: int, vocab_loss: Function) -> Calls:
    """On every rank: ordinary logits, then large ones."""
    for kind in (_SMALL, _LARGE):
        logits, targets, weights = _batch(kind)
        mine = _slice(logits, world_size, rank).clone()
        yield kind, watch.attempt(_call, vocab_loss, mine, targets, bounds(_WORDS, rank, world_size)[0], weights)


def _call(vocab_loss: Function, logits: torch.Tensor, targets: torch.Tensor, first: int, weights: torch.Tensor) -> Seen:
    before = logits.clone()
    losses = vocab_loss(logits.requires_grad_(), targets, first)
    if isinstance(losses, torch.Tensor) and losses.requires_grad and losses.shape == weights.shape:
        losses.backward(weights)
    return Seen(detached(losses), logits.grad, torch.equal(logits.detach(), before))


def _batch(kind: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits (rows, tokens, words), targets on all ranks and at the ends of slices, and a weight for each loss."""
    draw = torch.Generator().manual_seed(len(kind))
    logits = torch.randn(2, 6, _WORDS, generator=draw, dtype=torch.float64)
    targets = torch.tensor([[0, 16, 17, 24, 25, 33], [34, 49, 1, 48, 20, 40]])
    if kind == _LARGE:  # large words on the first rank, on the last, and everywhere
        logits[0, :, :10] += 1000.0
        logits[1, :3, 40:] += 1000.0
        logits[1, 3:] -= 1000.0
    return logits, targets, torch.rand(2, 6, generator=draw, dtype=torch.float64) + 0.5


def _slice(whole: torch.Tensor, size: int, rank: int) -> torch.Tensor:
    """What a rank has of a tensor (rows, tokens, words)."""
    return whole.narrow(-1, *bounds(_WORDS, rank, size))


def _whole(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses, and the gradient of all logits."""
    logits, targets, weights = _batch(kind)
    logits.requires_grad_()
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(2, 6)
    return losses.detach(), torch.autograd.grad(losses, logits, weights)[0]


def _chosen(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _sum_of_own_words(kind: str, size: int, rank: int) -> torch.Tensor:
    logits, targets = _batch(kind)[:2]
    return _slice(logits, size, rank).logsumexp(-1) - _chosen(logits, targets)


def _each_its_own_highest(kind: str, size: int, _: int) -> torch.Tensor:
    logits, targets = _batch(kind)[:2]
    slices = [_slice(logits, size, rank) for rank in range(size)]
    shifted = torch.cat([one - one.amax(-1, keepdim=True) for one in slices], -1)
    return shifted.logsumexp(-1) - _chosen(shifted, targets)


def _target_here_alone(kind: str, size: int, rank: int) -> torch.Tensor:
    logits, targets = _batch(kind)[:2]
    shifted, (first, length) = logits - logits.amax(-1, keepdim=True), bounds(_WORDS, rank, size)
    return shifted.logsumexp(-1) - _chosen(shifted, targets) * ((targets >= first) & (targets < first + length))


def _attempt(vocab_loss: Function, kind: str, size: int, rank: int) -> Attempt:
    attempts: list[Attempt] = seen_in_call(call_on_ranks, vocab_loss, UP_TO_3, size, kind)
    return attempts[rank]


def _compare_losses(vocab_loss: Function, kind: str, *mistakes: Mistake) -> None:
    compare_tensors(
        lambda *question: _attempt(vocab_loss, *question).value.losses,
        [(kind, *place) for place in RANKS],
        lambda *_: _whole(kind)[0],
        mistakes,
        asked="{} in a world of {} on rank {}",
    )
