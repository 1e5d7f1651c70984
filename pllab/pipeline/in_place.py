"""Stages that overwrite what they are given: others still need it.

The sender's graph may have kept it, the caller's batch is the caller's, and a recomputation begins from it again.
Autograd refuses too: the input of a stage is the leaf its graph begins with, and no leaf may be overwritten.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from pllab.pipeline.split import WithDevice


def overwrites_input(stage: nn.Module) -> bool:
    """Whether a layer works in place on what the stage is given; a layer with parameters ends that, by a new tensor.

    Example: True for `ReLU(inplace=True), Linear` and for `Flatten, ReLU(inplace=True)`, False for `Linear,
    ReLU(inplace=True)`.
    """
    for layer in _in_order([stage]):
        if any(part.__dict__.get("inplace") is True for part in layer.modules()):
            return True
        if next(layer.parameters(), None) is not None:
            return False
    return False


@contextmanager
def unchanged(tensors: Sequence[torch.Tensor], where: str) -> Iterator[None]:
    """Refuse a block that overwrites one of the tensors.

    Raises:
        ValueError: naming who did.
    """
    before = [_version(tensor) for tensor in tensors]
    yield
    if before != [_version(tensor) for tensor in tensors]:
        raise ValueError(
            f"{where} overwrites its input, from which it is to be computed again; "
            "give its first layer inplace=False, or write x = x + y for x += y"
        )


def _in_order(layers: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for layer in layers:
        if isinstance(layer, nn.Sequential | WithDevice):
            yield from _in_order(layer.children())
        else:
            yield layer


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
