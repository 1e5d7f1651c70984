"""Tensors as answers: whether two are the same but for rounding, and where they differ first, in words."""

from functools import partial
from typing import Any

import torch

from pllab.lesson.mistakes import Mistake, compare

NO_GRADIENT = Mistake(
    "no_gradient",
    "There is no gradient: something cut the graph, such as detach or no_grad.",
    when=lambda answer, *_: answer is None,
)


def alike(got: Any, right: torch.Tensor) -> bool:
    """Whether an answer is this tensor but for rounding; its dtype does not matter."""
    if not isinstance(got, torch.Tensor) or got.shape != right.shape:
        return False
    return bool(_is_close(got, right).all())


def told(got: Any, right: torch.Tensor) -> str:
    """The first difference: `told(tensor([1.0, 2.5]), tensor([1.0, 2.0]))` is "2.5 at [1]; right is 2"."""
    if not isinstance(got, torch.Tensor):
        return f"{got!r:.60}; right is a tensor of shape {list(right.shape)}"
    if got.shape != right.shape:
        return f"a tensor of shape {list(got.shape)}; right is the shape {list(right.shape)}"
    places = (~_is_close(got, right)).nonzero().tolist()
    if not places:
        return f"a tensor of {got.dtype}; right is {right.dtype}"
    mine, wanted = got[tuple(places[0])].item(), right[tuple(places[0])].item()
    digits = next((each for each in (4, 7, 10) if f"{mine:.{each}g}" != f"{wanted:.{each}g}"), 17)
    at = f" at {places[0]}" if places[0] else ""
    return f"{mine:.{digits}g}{at}; right is {wanted:.{digits}g}"


def detached(value: Any) -> Any:
    """What a function returned as it travels from a rank to the judge: a tensor without its graph."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _is_close(got: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    relative, absolute = (1e-4, 1e-6) if right.dtype == torch.float32 else (1e-7, 1e-7)
    return torch.isclose(got.double(), right.double(), relative, absolute)


compare_tensors = partial(compare, same=alike, tell=told)
"""`compare` for answers that are tensors."""
