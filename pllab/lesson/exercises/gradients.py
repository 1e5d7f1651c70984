"""Gradients and weights that ranks came back with: whether they are right but for rounding, and what differs."""

from typing import Any

import torch


def close(got: Any, right: Any, rtol: float = 1e-5, atol: float = 1e-5) -> bool:
    """Whether both are None, or tensors of one shape with the same numbers but for rounding."""
    if not isinstance(got, torch.Tensor) or not isinstance(right, torch.Tensor):
        return got is None and right is None
    return got.shape == right.shape and torch.allclose(got.double(), right.double(), rtol=rtol, atol=atol)


def told(got: Any, right: Any) -> str:
    """The largest difference in words: "0.5 at [0, 2]; right is 0.25"."""
    if not isinstance(got, torch.Tensor) or not isinstance(right, torch.Tensor) or got.shape != right.shape:
        return f"{_in_words(got)}; right is {_in_words(right)}"
    difference = (got.double() - right.double()).abs().nan_to_num(torch.inf)
    place = torch.unravel_index(difference.argmax(), got.shape)
    at = f" at {[int(index) for index in place]}" if got.dim() else ""
    return f"{_number(got[place])}{at}; right is {_number(right[place])}"


def _in_words(value: Any) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def _number(one: torch.Tensor) -> str:
    if not one.is_floating_point():
        return str(one.item())
    return f"{one.item():.12g}" if one.dtype == torch.float64 else f"{one.item():.5g}"
