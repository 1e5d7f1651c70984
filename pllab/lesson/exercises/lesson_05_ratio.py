"""Name the class of a wrong average from its ratio to the right one: the fingerprint of a gradient."""

from collections.abc import Sequence

import torch

from pllab.lesson.exercise import Wrong

Gradients = dict[str, torch.Tensor | None]


def judge_gradients(local: Sequence[Gradients], after: Sequence[Gradients], num_calls: int) -> None:
    """Compare every rank's gradients after the call with the mean of what the ranks had before it.

    Raises:
        Wrong: they differ; the hint says how.
    """
    names = [name for name, gradient in local[0].items() if gradient is not None]
    stacks = {name: torch.stack([_tensor(each[name]) for each in local]) for name in names}
    for name in names:
        if any(each[name] is None for each in after):
            raise Wrong(
                "none_returned",
                f"After your function {name}.grad is None. all_reduce works in place and returns None: "
                "do not store what it returns.",
            )
    got = [torch.cat([_tensor(each[name]).flatten() for name in names]) for each in after]
    parts = torch.cat([stacks[name].flatten(1) for name in names], dim=1)
    mean = parts.mean(0)
    if all(_close(each, mean) for each in got):
        return
    _judge_ranks(got, parts, mean, num_calls)
    _judge_factor(got, mean)
    wrong = [name for name in names if not all(_close(_tensor(each[name]), stacks[name].mean(0)) for each in after)]
    if len(wrong) < len(names):
        raise Wrong(
            "not_all_parameters",
            f"{', '.join(wrong)} is not the mean over the ranks, the other gradients are; treat every parameter.",
        )
    raise Wrong("wrong_gradient", "The gradients are neither the mean over the ranks nor a multiple of it.")


def _judge_ranks(got: list[torch.Tensor], parts: torch.Tensor, mean: torch.Tensor, num_calls: int) -> None:
    """Bugs in which some rank has something of its own."""
    own = [_close(each, part) for each, part in zip(got, parts, strict=True)]
    if all(own):
        if num_calls:
            raise Wrong(
                "not_stored",
                "Messages were sent, and every rank still has its own gradient: the result went into another tensor.",
            )
        raise Wrong("nothing_averaged", "Every rank still has the gradient of its own share, and nothing was sent.")
    for source, part in enumerate(parts):
        if all(_close(each, part) for each in got):
            raise Wrong(
                "one_rank_kept",
                f"Every rank now has the gradient of rank {source}: equal on all ranks, and the work of the "
                "others is thrown away.",
            )
    if all(_close(each, part / len(parts)) for each, part in zip(got, parts, strict=True)):
        raise Wrong("local_division", "Every rank divided its own gradient, and none knows that of another.")
    right = [_close(each, mean) for each in got]
    if any(right):
        raise Wrong(
            "only_some_ranks",
            f"Only rank {right.index(True)} has the mean; the others need it too, or their models part.",
        )


def _judge_factor(got: list[torch.Tensor], mean: torch.Tensor) -> None:
    """A constant factor: Adam would hide it, SGD does not."""
    num_ranks, factor = len(got), float(got[0] @ mean / (mean @ mean))
    if not all(_close(each, factor * mean) for each in got):
        return
    if abs(factor - num_ranks) < 1e-3:
        raise Wrong(
            "sum_not_mean",
            f"Every gradient is {num_ranks} times the mean: all_reduce sums over the {num_ranks} ranks, "
            "and nobody divided.",
        )
    if abs(factor - 1 / num_ranks) < 1e-3:
        raise Wrong("divided_twice", f"Every gradient is the mean divided by {num_ranks} once more.")
    raise Wrong("wrong_factor", f"With {num_ranks} ranks every gradient is {factor:.3g} times the mean.")


def _close(got: torch.Tensor, right: torch.Tensor) -> bool:
    return got.shape == right.shape and torch.allclose(got, right, rtol=1e-4, atol=1e-6)


def _tensor(gradient: torch.Tensor | None) -> torch.Tensor:
    assert gradient is not None, "asked for the gradient of a parameter that has none"
    return gradient
