"""The cases of exercise 05.3: `token_weighted(loss_sum, num_tokens)` when the ranks have unequal numbers of targets."""

from functools import partial
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Function, Wrong, case
from pllab.lesson.exercises.failures import seen_in_call
from pllab.lesson.exercises.ranks import Calls, Watch, until_one_fails
from pllab.lesson.exercises.tensors import close, compare_tensors
from pllab.lesson.mistakes import Mistake

Counts = tuple[int, ...]

_PLAN = ((3, 1),)
# Targets of rank 0, 1 and 2, and of one that is alone; no total can be divided by 3, so a whole-number division shows.
_UNEQUAL, _EMPTY, _LARGE, _ALONE = (10, 100, 41), (10, 0, 6), (3001, 9, 0), (7,)
_TROUBLES = {
    "no_loss": "return the loss as one number in a tensor.",
    "not_finite": "the loss is not a finite number. A rank may have 0 targets.",
    "cut_off": "backward from this loss does not reach the model. Scale loss_sum itself, even where it is 0.",
}


@until_one_fails
def weigh_on_ranks(watch: Watch, rank: int, world_size: int, token_weighted: Function) -> Calls:
    """On every rank: steps with unequal shares; the value is the gradient of the student's loss, or its trouble."""
    for counts in (_UNEQUAL, _EMPTY, _LARGE, _ALONE):
        if len(counts) != world_size:
            continue
        weight, loss_sum = _loss(counts, rank)
        attempt = watch.attempt(token_weighted, loss_sum, counts[rank])
        gradient = None if attempt.failed else _gradient(weight, attempt.value)
        yield _in_words(counts), attempt.holding(gradient)
        if isinstance(gradient, str):
            return


def _in_words(counts: Counts) -> str:
    return f"{', '.join(map(str, counts))} targets"


def _loss(counts: Counts, *ranks: int) -> tuple[nn.Parameter, torch.Tensor]:
    """A weight, and the sum of its losses over the rows of these ranks in a data set that all know."""
    generator = torch.Generator().manual_seed(9)
    x = torch.randn(3010, 4, generator=generator)
    targets = torch.randint(3, (3010,), generator=generator)
    weight = nn.Parameter(torch.randn(4, 3, generator=generator))
    rows = torch.cat([torch.arange(counts[rank]) + sum(counts[:rank]) for rank in ranks])
    return weight, nn.functional.cross_entropy((x @ weight)[rows], targets[rows], reduction="sum")


def _gradient(weight: nn.Parameter, loss: Any) -> torch.Tensor | str:
    """The gradient of a loss before any averaging, or what is wrong with the loss."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        return "no_loss"
    if loss.requires_grad and not bool(loss.isfinite().all()):
        return "not_finite"
    gradients = torch.autograd.grad(loss.sum(), weight, allow_unused=True) if loss.requires_grad else (None,)
    return "cut_off" if gradients[0] is None else gradients[0]


def _judge(token_weighted: Function, counts: Counts) -> None:
    size, total = len(counts), sum(counts)
    seen = seen_in_call(weigh_on_ranks, token_weighted, _PLAN, size, _in_words(counts))
    for rank, each in enumerate(seen):
        if isinstance(each.value, str):
            raise Wrong(each.value, f"With {_in_words(counts)}, on rank {rank}, {_TROUBLES[each.value]}")
    sums = [torch.autograd.grad(*_loss(counts, rank)[::-1])[0] for rank in range(size)]
    mean = torch.stack(sums).sum(0) / total  # of one process with all the targets
    mistakes = [
        Mistake(
            "mean_of_means",
            "That is a mean of means: every rank counts the same. Divide by the targets of all ranks.",
            like=lambda _: sum(one / max(1, count) for one, count in zip(sums, counts, strict=True)) / size,
        ),
        Mistake(
            "averaged_away",
            f"That is {size} times too small: the averaging after you divides by the {size} ranks.",
            like=lambda _: mean / size,
        ),
        Mistake(
            "literal_world_size",
            "On three ranks the numbers are right: a 3 stands in your code. Ask the group for the number of ranks.",
            like=lambda _: mean * 3 / size,
        ),
        Mistake(
            "digits_lost",
            "That is nearly right: the number of targets lost digits on its way, or an empty rank counted one target.",
            when=lambda got, _: close(got, mean, rtol=5e-3, atol=1e-6),
        ),
    ]
    compare_tensors(
        lambda _: torch.stack([each.value for each in seen]).mean(0),
        [(_in_words(counts),)],
        lambda _: mean,
        mistakes,
        asked="{}, after averaging the gradients,",
        same=partial(close, rtol=1e-4, atol=1e-6),
    )


@case("10, 100 and 41 targets: the averaged gradient is that of one process with 151")
def unequal(token_weighted: Function) -> None:
    """And a world of one rank shows a number of ranks that stands in the code."""
    _judge(token_weighted, _UNEQUAL)
    _judge(token_weighted, _ALONE)


@case("a rank without a single target takes part and adds nothing")
def one_empty(token_weighted: Function) -> None:
    """With few targets, and with more than a small data type can count."""
    _judge(token_weighted, _EMPTY)
    _judge(token_weighted, _LARGE)
