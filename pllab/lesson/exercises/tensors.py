"""Tensors as answers: the same to the bit, or but for rounding, and in words where two differ most."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong
from pllab.lesson.mistakes import Mistake, compare

NO_GRADIENT = Mistake(
    "no_gradient",
    "There is no gradient: something cut the graph, such as detach or no_grad.",
    when=lambda answer, *_: answer is None,
)


def close(got: Any, right: Any, rtol: float = 1e-5, atol: float = 1e-5) -> bool:
    """Whether both are None, or tensors of one shape with the same numbers but for rounding; dtypes do not matter."""
    if not isinstance(got, torch.Tensor) or not isinstance(right, torch.Tensor):
        return got is None and right is None
    return got.shape == right.shape and torch.allclose(got.double(), right.double(), rtol=rtol, atol=atol)


def alike(got: Any, right: torch.Tensor) -> bool:
    """Whether an answer is this tensor but for the rounding of its dtype."""
    return close(got, right, *((1e-4, 1e-6) if right.dtype == torch.float32 else (1e-7, 1e-7)))


def told(got: Any, right: Any) -> str:
    """The largest difference: `told(tensor([1.0, 2.5]), tensor([1.0, 2.0]))` is "2.5 at [1]; right is 2".

    Where the numbers are the same but for rounding, it is the dtypes that differ.
    """
    if not isinstance(got, torch.Tensor) or not isinstance(right, torch.Tensor) or got.shape != right.shape:
        return f"{_in_words(got)}; right is {_in_words(right)}"
    if got.dtype != right.dtype and close(got, right):
        return f"a tensor of {got.dtype}; right is {right.dtype}"
    difference = (got.double() - right.double()).abs().nan_to_num(torch.inf)
    place = torch.unravel_index(difference.argmax(), got.shape)
    mine, wanted = got[place].item(), right[place].item()
    digits = next((each for each in (4, 7, 10) if f"{mine:.{each}g}" != f"{wanted:.{each}g}"), 17)
    at = f" at {[int(index) for index in place]}" if got.dim() else ""
    return f"{mine:.{digits}g}{at}; right is {wanted:.{digits}g}"


def _in_words(value: Any) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else f"{value!r:.60}"


def detached(value: Any) -> Any:
    """What a function returned as it travels from a rank to the judge: a tensor without its graph."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def numbers_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """All parameters and buffers of a model by name, as they are now."""
    return {name: detached(tensor) for name, tensor in chain(model.named_parameters(), model.named_buffers())}


def sgd_step(parameters: Iterable[nn.Parameter], rate: float) -> None:
    """Plain SGD; the first step of torch.optim would import torch._dynamo, which takes seconds."""
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=rate)


compare_tensors = partial(compare, same=alike, tell=told)
"""`compare` for answers that are tensors."""


def difference(got: Any, right: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> str:
    """What an answer has instead of this tensor, where dtype and every digit count; empty when it is the same.

    Example: `difference(torch.tensor([1, 3]), torch.tensor([1, 2]))` is "there is 3 at [1]; right is 2".
    """
    has_kind = isinstance(got, torch.Tensor) and got.dtype == right.dtype
    is_same = has_kind and (close(got, right, rtol, atol) if rtol or atol else torch.equal(got, right))
    return "" if is_same else f"there is {told(got, right)}"


def identical(got: Any, right: torch.Tensor) -> bool:
    """Whether an answer is this tensor, to its dtype and last digit."""
    return not difference(got, right)


def refuse_differences(where: str, held: Sequence[Sequence[str]]) -> None:
    """Refuse a call that leaves other numbers than the right ones in the tensor that each rank gave to it.

    held: for each rank what differs, as `difference` says it: in the memory of its tensor, in the tensor itself, and in
        what the call returned.

    Raises:
        Wrong: a rank's tensor, or the memory that it had before the call, holds other numbers.
    """
    for rank, (memory, tensor, returned) in enumerate(held):
        if memory and not (tensor and returned):
            told = f"{where}, rank {rank} has the right numbers in another tensor, but in its own memory {memory}"
            raise Wrong("not_in_place", f"{told}. Write them into the tensor itself.")
        if memory or tensor:
            raise Wrong("wrong", f"{where}, on rank {rank} {tensor or memory}.")
