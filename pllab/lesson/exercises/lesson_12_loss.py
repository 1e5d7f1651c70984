"""The cases of exercise 12.4: `vocab_loss(logits, targets, first)`, the cross-entropy of logits split over the words.

PyTorch's own cross-entropy of the whole logits is the oracle, in the process of the check. The words are many more than
the numbers that a message may carry, so a gather of logits cannot hide in one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.failures import refuse_failures, seen_in_world
from pllab.lesson.exercises.ranks import Attempt, Watch
from pllab.parallel.tensor import bounds

VocabLoss = Callable[[torch.Tensor, torch.Tensor, int], Any]

_PLAN = ((3,), (2, 1))
_SIZES = (3, 2, 1)
_WORDS = 50  # 17, 17 and 16 over three ranks
_MOST = 2  # numbers for each token that a message may carry


class Seen(NamedTuple):
    """One call on a rank."""

    losses: Any
    grad: torch.Tensor | None
    intact: bool


@case("the losses are those of the whole logits, on every rank, in worlds of 3, 2 and 1")
def losses_equal(vocab_loss: VocabLoss) -> None:
    for size in _SIZES:
        for rank in range(size):
            _judge_losses(_seen(vocab_loss, size, 0)[rank].losses, rank, size)


@case("logits near 1000 and -1000 give finite losses, the same as the whole")
def stable(vocab_loss: VocabLoss) -> None:
    for size in _SIZES:
        for rank, seen in enumerate(_seen(vocab_loss, size, 1)):
            _judge_large(seen.losses, rank, size)


@case("the gradient of a rank's logits is its slice of the whole gradient")
def gradients_equal(vocab_loss: VocabLoss) -> None:
    for size in _SIZES:
        for number in range(2):
            for rank, seen in enumerate(_seen(vocab_loss, size, number)):
                _judge_grad(seen, rank, size, number)


@case("only all-reduces are sent, of at most two numbers a token each; the logits stay as they were")
def few_bytes(vocab_loss: VocabLoss) -> None:
    for size in _SIZES:
        for number in range(2):
            for rank, one in enumerate(_attempts(vocab_loss, size, number)):
                _judge_messages(one, rank, size)


def call_on_ranks(watch: Watch, rank: int, world_size: int, vocab_loss: VocabLoss) -> list[Attempt]:
    """On every rank: ordinary logits, then large ones; the first failure is the last call."""
    seen = []
    for number in range(2):
        logits, targets, weights = _batch(number)
        start, length = bounds(_WORDS, rank, world_size)
        mine = logits[..., start : start + length].clone()
        seen.append(watch.attempt(_call, vocab_loss, mine, targets, start, weights))
        if seen[-1].error:
            break
    return seen


def _call(
    vocab_loss: VocabLoss, logits: torch.Tensor, targets: torch.Tensor, first: int, weights: torch.Tensor
) -> Seen:
    before = logits.clone()
    losses = vocab_loss(logits.requires_grad_(), targets, first)
    if isinstance(losses, torch.Tensor) and losses.requires_grad and losses.shape == weights.shape:
        losses.backward(weights)
    value = losses.detach().clone() if isinstance(losses, torch.Tensor) else repr(losses)[:60]
    return Seen(value, logits.grad, torch.equal(logits.detach(), before))


def _batch(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits (rows, tokens, words), targets on all ranks and at the ends of slices, and a weight for each loss."""
    draw = torch.Generator().manual_seed(number)
    logits = torch.randn(2, 6, _WORDS, generator=draw, dtype=torch.float64)
    targets = torch.tensor([[0, 16, 17, 24, 25, 33], [34, 49, 1, 48, 20, 40]])
    if number:  # large words on the first rank, on the last, and everywhere
        logits[0, :, :10] += 1000.0
        logits[1, :3, 40:] += 1000.0
        logits[1, 3:] -= 1000.0
    return logits, targets, torch.rand(2, 6, generator=draw, dtype=torch.float64) + 0.5


def _whole(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    logits, targets, weights = _batch(number)
    logits.requires_grad_()
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(2, 6)
    return losses.detach(), torch.autograd.grad(losses, logits, weights)[0]


def _attempts(vocab_loss: VocabLoss, size: int, number: int) -> list[Attempt]:
    seen = seen_in_world(call_on_ranks, vocab_loss, _PLAN, size)
    for earlier in range(number + 1):
        attempts = [one[earlier] for one in seen if earlier < len(one)]
        for rank, one in enumerate(attempts):
            if one.kind in ("IndexError", "RuntimeError") and (
                "out of bounds" in one.error or "out of range" in one.error
            ):
                raise Wrong(
                    "target_elsewhere",
                    f"In a world of {size}, rank {rank} raised {one.error}. Targets are words of the whole vocabulary, "
                    "and most of them are on other ranks: count from first, and look up only what is here.",
                )
        refuse_failures(attempts, f"In a world of {size}")
    return [one[number] for one in seen]


def _seen(vocab_loss: VocabLoss, size: int, number: int) -> list[Seen]:
    seen = [one.value for one in _attempts(vocab_loss, size, number)]
    for rank, one in enumerate(seen):
        if not isinstance(one.losses, torch.Tensor):
            raise Wrong("no_tensor", f"Rank {rank} returned {one.losses}; return a loss for each token, like targets.")
        if one.losses.shape != (2, 6):
            raise Wrong(
                "shape",
                f"Rank {rank} returned losses of shape {list(one.losses.shape)} for targets of shape [2, 6]; each "
                "token has a loss.",
            )
    return seen


def _close(got: torch.Tensor | None, right: torch.Tensor) -> bool:
    return got is not None and got.shape == right.shape and torch.allclose(got, right, rtol=1e-7, atol=1e-7)


def _judge_losses(got: torch.Tensor, rank: int, size: int) -> None:
    right, where = _whole(0)[0], f"In a world of {size}, on rank {rank},"
    if _close(got, right):
        return
    logits, targets, _ = _batch(0)
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    logs = right + chosen  # the logarithm of the sum over all words
    if size == 1:
        raise Wrong("alone", "With one rank the losses are not those of cross_entropy, so it is no matter of ranks.")
    start, length = bounds(_WORDS, rank, size)
    mine = logits[..., start : start + length].exp().sum(-1).log()
    is_here = (targets >= start) & (targets < start + length)
    if _close(got, mine - chosen) or _close(got[is_here], (mine - chosen)[is_here]):
        raise Wrong("own_words", f"{where} the sum of exponentials runs over the words of this rank alone.")
    _judge_slices(got, logits, targets, where, size)
    if _close(got[is_here], right[is_here]) and not _close(got, right):
        raise Wrong(
            "target_not_sent",
            f"{where} only the targets of this rank's own words have the right loss: the rank that has a target's "
            "logit must tell the others.",
        )
    if _close(got, -right):
        raise Wrong("sign", f"{where} the losses have the wrong sign.")
    if bool((got <= logs + 1e-9).all()) and not bool((got - right).abs().min() < 1e-9):
        raise Wrong(
            "target_summed",
            f"{where} no loss is right: a rank without the target adds 0, and it has to add it after the highest was "
            "taken off, not before.",
        )
    raise Wrong("other_losses", f"{where} the losses are not those of cross_entropy on the whole logits.")


def _judge_slices(got: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor, where: str, size: int) -> None:
    """Refuse what does not fit together from rank to rank."""
    if _close(got, _with_own_highest(logits, targets, size)):
        raise Wrong(
            "own_highest",
            f"{where} each rank took off the highest of its own words, so the sums do not fit together: all must take "
            "off the same number, the highest of all ranks.",
        )
    if _close(got, _with_equal_slices(logits, targets, size)):
        raise Wrong(
            "first",
            f"{where} the losses are those of slices that begin at rank times length. Slices may differ in length by "
            "one, so your rank's words begin at first.",
        )


def _with_own_highest(logits: torch.Tensor, targets: torch.Tensor, size: int) -> torch.Tensor:
    """The losses where every rank takes off its own highest."""
    slices = [logits[..., start : start + length] for start, length in (bounds(_WORDS, r, size) for r in range(size))]
    shifted = torch.cat([one - one.amax(-1, keepdim=True) for one in slices], -1)
    return shifted.exp().sum(-1).log() - shifted.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _with_equal_slices(logits: torch.Tensor, targets: torch.Tensor, size: int) -> torch.Tensor:
    """The losses where every rank takes its number times its length for its first word."""
    shifted, chosen = logits - logits.amax(-1, keepdim=True), torch.zeros(targets.shape, dtype=logits.dtype)
    for rank in range(size):
        start, length = bounds(_WORDS, rank, size)
        index = targets - rank * length
        is_here = (index >= 0) & (index < length)
        chosen += shifted.gather(-1, torch.where(is_here, index + start, 0).unsqueeze(-1)).squeeze(-1) * is_here
    return shifted.exp().sum(-1).log() - chosen


def _judge_large(got: torch.Tensor, rank: int, size: int) -> None:
    right, where = _whole(1)[0], f"In a world of {size}, on rank {rank}, with logits near 1000 and -1000,"
    if _close(got, right):
        return
    if bool((got == torch.inf).any()) and _close(got.where(got != torch.inf, right), right):
        raise Wrong(
            "underflow",
            f"{where} a loss is inf and the others are right: the exponential of a small target is 0. The log of exp / "
            "sum loses small targets: subtract logits, the target's from the log of the sum.",
        )
    if not bool(got.isfinite().all()):
        raise Wrong(
            "overflow",
            f"{where} a loss is {got[~got.isfinite()][0].item()}. exp(1000) is infinite and exp(-1000) is 0: take "
            "the highest logit of all ranks off first.",
        )
    raise Wrong(
        "not_stable",
        f"{where} the losses are off by up to {float((got - right).abs().max()):.3g}: take the highest logit of all "
        "ranks off before exp, from every logit of the token and from its target.",
    )


def _judge_grad(seen: Seen, rank: int, size: int, number: int) -> None:
    where = f"In a world of {size}, on rank {rank},"
    start, length = bounds(_WORDS, rank, size)
    right = _whole(number)[1][..., start : start + length]
    if seen.grad is None:
        raise Wrong("no_gradient", f"{where} the logits got no gradient: something cut the graph.")
    if _close(seen.grad, right):
        return
    if _close(seen.grad, size * right):
        raise Wrong(
            "gradient_times",
            f"{where} the gradient is {size} times too large: behind a sum over the ranks all have the same gradient, "
            "and it is passed back as it is.",
        )
    raise Wrong(
        "other_gradient",
        f"{where} the gradient of the logits is not its slice of the whole one, which is softmax, less 1 at the "
        "target. Does the sum over the ranks have a backward, and does none go through the highest?",
    )


def _judge_messages(one: Attempt, rank: int, size: int) -> None:
    where = f"In a world of {size}, rank {rank}"
    if others := [message for message in one.messages if message.name != "all_reduce"]:
        raise Wrong("gathers", f"{where} called {others[0].name}; all-reduces of a few numbers a token are enough.")
    most = _MOST * 12 * 8
    if large := [message for message in one.messages if message.num_bytes > most]:
        raise Wrong(
            "large_message",
            f"{where} sent {large[0].num_bytes} bytes in one all-reduce for 12 tokens, and {most} are enough: reduce "
            "over this rank's words first, then over the ranks.",
        )
    if not one.value.intact:
        raise Wrong("logits_changed", f"{where} changed the logits; others may hold them, work on a copy.")
