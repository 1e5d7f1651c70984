"""The first difference between what a rank holds and what is right, in words, where every digit counts."""

from collections.abc import Sequence
from typing import Any

import torch

from pllab.lesson.exercise import Wrong


def first_difference(got: Any, right: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> str:
    """What an answer has instead of this tensor; empty when it is the same.

    Example: `first_difference(torch.tensor([1, 3]), torch.tensor([1, 2]))` is "number 1 of 2 is 3; right is 2".
    """
    if not isinstance(got, torch.Tensor):
        return f"there is {got!r:.60}; right is a tensor"
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"there is {kind_of(got)}; right is {kind_of(right)}"
    mine, wanted = got.flatten(), right.flatten()
    others = [] if torch.equal(got, right) else (~torch.isclose(mine, wanted, rtol, atol)).nonzero().flatten().tolist()
    if not others:
        return ""
    return f"number {others[0]} of {len(mine)} is {mine[others[0]].item()}; right is {wanted[others[0]].item()}"


def kind_of(tensor: torch.Tensor) -> str:
    """Its dtype and shape: `torch.int64 of shape (2, 3)`."""
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def refuse_differences(where: str, held: Sequence[Sequence[str]]) -> None:
    """Refuse a call that leaves other numbers than the right ones in the tensor that each rank gave to it.

    held: for each rank what differs, as `first_difference` says it: in the memory of its tensor, in the tensor itself,
        and in what the call returned.

    Raises:
        Wrong: a rank's tensor, or the memory that it had before the call, holds other numbers.
    """
    for rank, (memory, tensor, returned) in enumerate(held):
        if memory and not (tensor and returned):
            raise Wrong(
                "not_in_place",
                f"{where}, rank {rank} has the right numbers in another tensor, but in the memory of its own {memory}. "
                "Write them into the tensor itself.",
            )
        if memory or tensor:
            raise Wrong("wrong", f"{where}, on rank {rank} {tensor or memory}.")
