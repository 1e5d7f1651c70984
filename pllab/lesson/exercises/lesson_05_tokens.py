"""The cases of exercise 05.3: `token_weighted(loss_sum, num_tokens)` when the ranks have unequal numbers of targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_05_watch import LITERAL, Attempt, attempt, listed, log_of, run

Weighted = Callable[[torch.Tensor, int], Any]

# Targets of rank 0, 1 and 2; neither total can be divided by 3, so a whole-number division shows.
_COUNTS = {"unequal": (10, 100, 41), "empty": (10, 0, 6), "large": (3001, 9, 0), "alone": (7,)}


@dataclass(frozen=True)
class Seen:
    """One rank: what is wrong with its loss, or the gradient of it before any averaging."""

    attempt: Attempt
    trouble: str = ""
    gradient: torch.Tensor | None = None


def weigh_on_ranks(rank: int, world_size: int, token_weighted: Weighted, folder: str) -> dict[str, Seen]:
    """Inside a rank: steps with unequal shares, and the gradient that the student's loss has."""
    results: dict[str, Seen] = {}
    for name, counts in _COUNTS.items():
        if len(counts) != world_size:
            continue
        weight, loss_sum = _loss(_rows_of(counts, rank))
        loss, attempted = attempt(log_of(folder, rank), token_weighted, loss_sum, counts[rank])
        results[name] = _learn(weight, loss, attempted)
        if attempted.error or results[name].trouble:
            return results
    return results


def _loss(rows: slice) -> tuple[nn.Parameter, torch.Tensor]:
    """A weight, and the sum of its losses over these rows of a data set that all ranks know."""
    generator = torch.Generator().manual_seed(9)
    x = torch.randn(3010, 4, generator=generator)
    targets = torch.randint(3, (3010,), generator=generator)
    weight = nn.Parameter(torch.randn(4, 3, generator=generator))
    return weight, nn.functional.cross_entropy((x @ weight)[rows], targets[rows], reduction="sum")


def _learn(weight: nn.Parameter, loss: Any, attempted: Attempt) -> Seen:
    """Backward of the student's loss; the mean over the ranks is taken after the run."""
    if attempted.error:
        return Seen(attempted)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        return Seen(attempted, trouble="no_loss")
    if not loss.requires_grad:
        return Seen(attempted, trouble="no_gradient")
    if not bool(loss.isfinite().all()):
        return Seen(attempted, trouble="not_finite")
    (gradient,) = torch.autograd.grad(loss.sum(), weight, allow_unused=True)
    if gradient is None:
        return Seen(attempted, trouble="cut_off")
    return Seen(attempted, gradient=gradient)


def _judge(*steps: str, token_weighted: Weighted) -> None:
    for step in steps:
        _judge_step(step, run(weigh_on_ranks, token_weighted, len(_COUNTS[step])).of(step))


def _judge_step(step: str, seen: list[Seen]) -> None:
    counts = _COUNTS[step]
    for rank, each in enumerate(seen):
        if each.trouble == "cut_off":
            raise Wrong(
                "cut_off",
                f"With {listed(counts)} targets the loss of rank {rank} does not depend on loss_sum, so backward "
                "reaches nothing of its model. Scale loss_sum itself, also where it is 0.",
            )
        if each.trouble == "no_loss":
            raise Wrong("no_loss", "Return the loss as one tensor; backward starts from it.")
        if each.trouble == "no_gradient":
            raise Wrong(
                "no_gradient",
                "Backward cannot start from what you returned: it is cut off from the model. "
                "Scale loss_sum itself, not a copy or its number.",
            )
        if each.trouble == "not_finite":
            raise Wrong(
                "not_finite",
                f"With {listed(counts)} targets a rank's loss is not a finite number: it divided by its own 0 targets.",
            )
    got = torch.stack([each.gradient for each in seen if each.gradient is not None]).mean(0)
    right = _gradient(slice(0, sum(counts))) / sum(counts)  # of one process with all the targets: the mean
    if torch.allclose(got, right, rtol=1e-4, atol=1e-6):
        return
    if step == "alone":
        raise Wrong(*LITERAL)
    raise _named(got, right, counts)


def _named(got: torch.Tensor, right: torch.Tensor, counts: tuple[int, ...]) -> Wrong:
    """What the gradient is instead."""
    num_ranks, total = len(counts), sum(counts)
    shares = [_gradient(_rows_of(counts, rank)) for rank in range(num_ranks)]
    of_means = torch.stack([share / max(1, count) for share, count in zip(shares, counts, strict=True)]).mean(0)
    if _close(got, of_means):
        return Wrong(
            "mean_of_means",
            f"That is a mean of means: the ranks have {listed(counts)} targets, and each counts the same. "
            "Divide by the targets of all ranks.",
        )
    twice = torch.stack([share * count for share, count in zip(shares, counts, strict=True)]).sum(0) / total**2
    if _close(got, twice) or _close(got, twice / num_ranks):
        return Wrong("weighted_twice", "A sum already weighs each rank by its targets, and you weigh it once more.")
    factor = float((got * right).sum() / (right * right).sum())
    if not _close(got, factor * right):
        return Wrong("wrong_weights", f"With {listed(counts)} targets the ranks do not count by their targets.")
    if abs(factor * num_ranks - 1) < 1e-3:
        return Wrong(
            "averaged_away",
            f"Every gradient is {num_ranks} times too small: averaging divides by the {num_ranks} ranks after you, "
            "so the loss has to be as many times larger.",
        )
    if abs(factor / (total / num_ranks) - 1) < 1e-3:
        return Wrong("not_divided", f"The gradient is a sum over targets; divide by the {total} targets of all ranks.")
    if abs(factor - 1) < 5e-3 and max(counts) > 1000:
        return Wrong(
            "digits_lost",
            f"With {listed(counts)} targets the gradient is {factor:.5g} times that of one process: the number of "
            "targets lost digits on its way, or a rank without a target counted one.",
        )
    return Wrong(
        "wrong_factor", f"With {listed(counts)} targets the gradient is {factor:.3g} times that of one process."
    )


def _rows_of(counts: Sequence[int], rank: int) -> slice:
    return slice(sum(counts[:rank]), sum(counts[: rank + 1]))


def _gradient(rows: slice) -> torch.Tensor:
    """The gradient of the summed loss over these rows."""
    weight, loss_sum = _loss(rows)
    (gradient,) = torch.autograd.grad(loss_sum, weight)
    return gradient


def _close(got: torch.Tensor, right: Any) -> bool:
    return torch.allclose(got, right, rtol=1e-3, atol=1e-6)


@case("10, 100 and 41 targets: the averaged gradient is that of one process with 151")
def unequal(token_weighted: Weighted) -> None:
    """And a world of one rank shows a number of ranks that stands in the code."""
    _judge("unequal", "alone", token_weighted=token_weighted)


@case("a rank without a single target takes part and adds nothing")
def one_empty(token_weighted: Weighted) -> None:
    """With few targets, and with more than a small data type can count."""
    _judge("empty", "large", token_weighted=token_weighted)
