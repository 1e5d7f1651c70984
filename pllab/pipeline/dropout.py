"""Dropout that draws the same masks whatever the threads do.

Torch has one random generator per device. CPU lanes are threads of one process, so they share it, and which lane
draws first changes from run to run. Here every pair (stage, micro-batch) has a generator of its own, seeded from
the batch's seed: the masks depend on nothing but the seed, and recomputing a stage draws them again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_MASKED = (functional.dropout,)
_REFUSED = (
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
)


class SeededDropout(TorchFunctionMode):
    """Inside this context, on this thread only, dropout draws from a generator with the given seed.

    Example: two calls of `with SeededDropout(7, device): block(x)` give the same result.

    Raises:
        ValueError: a kernel with dropout inside is called (fused attention), because it takes no generator.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        super().__init__()
        self._generator = torch.Generator(device=device.type if device.type == "cpu" else device)
        self._generator.manual_seed(seed)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],  # noqa: ARG002 - torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace dropout by one that draws from the generator; let everything else through."""
        kwargs = dict(kwargs or {})
        if func in _MASKED:
            return self._dropout(*args, **kwargs)
        if func in _REFUSED or _has_dropout(func, args, kwargs):
            raise ValueError(
                f"{func.__name__} draws its dropout inside the kernel, which takes no generator, so its masks would "
                "depend on thread timing; use attn_implementation='eager' or set that dropout to 0"
            )
        return func(*args, **kwargs)

    def _dropout(self, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if not training or p == 0.0:
            return x
        keep = torch.empty_like(x, requires_grad=False).bernoulli_(1.0 - p, generator=self._generator)
        scaled = keep.div_(1.0 - p) if p < 1.0 else keep
        return x.mul_(scaled) if inplace else x * scaled


def has_dropout(module: nn.Module) -> bool:
    """Whether the module would drop anything if it ran now."""
    return any(
        isinstance(part, nn.modules.dropout._DropoutNd) and part.training and part.p > 0 for part in module.modules()
    )


def seed_of(batch_seed: int, stage: int, micro_batch: int) -> int:
    """A seed of its own for every stage and micro-batch: Python's hash of three integers, the same in every run."""
    return hash((batch_seed, stage, micro_batch)) & 0x7FFF_FFFF_FFFF_FFFF


def _has_dropout(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if func is not functional.scaled_dot_product_attention:
        return False
    return (kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0) or 0.0) > 0.0
