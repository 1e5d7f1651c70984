"""The bytes that a rank really holds of a training state, by kind: storages of its tensors, each counted once.

    parameters   what the optimizer steps on: the whole model, or this rank's pieces
    gathered     room for whole parameters that other ranks keep; nothing while it is freed
    gradients    of pieces and of whole parameters, and the flat tensors that they lie in
    optimizer    its state, for Adam two numbers for each parameter that it steps on
    messages     buffers of messages under way

Activations are not counted, nor is memory that the allocator keeps for later.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from pllab.parallel.data_parallel import DataParallel
from pllab.parallel.sharded import FullyShardedDataParallel

KINDS = ("parameters", "gathered", "gradients", "optimizer", "messages")


def held_bytes(
    shared: nn.Module, parameters: Sequence[torch.Tensor], optimizers: Iterable[torch.optim.Optimizer]
) -> dict[str, int]:
    """The bytes that this rank holds now, by kind.

    Example: a plain model of 1,000 numbers in float32 after a backward and a step of Adam holds 4,000 bytes of
    parameters, 4,000 of gradients and 8,000 of optimizer state, besides 4 for the number of steps of each parameter.

    Args:
        shared: the model as it is called: plain, `DataParallel` or `FullyShardedDataParallel`.
        parameters: what the optimizers step on.
        optimizers: those of this rank.
    """
    held = {kind: list[torch.Tensor]() for kind in KINDS}
    states = (state for optimizer in optimizers for state in optimizer.state.values())
    held["parameters"] = list(parameters)
    held["optimizer"] = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    held["gradients"] = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if isinstance(shared, DataParallel):
        held["gradients"] += [bucket.flat for bucket in shared.buckets]
    if isinstance(shared, FullyShardedDataParallel):
        for kind, tensors in shared.temporary().items():
            held[kind] = held[kind] + tensors
    seen: set[int] = set()
    return {kind: _bytes_of(tensors, seen) for kind, tensors in held.items()}


def _bytes_of(tensors: Sequence[torch.Tensor], seen: set[int]) -> int:
    """Bytes of the storages that were not seen before."""
    storages = {storage._cdata: storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    mine = {key: size for key, size in storages.items() if key not in seen}
    seen |= mine.keys()
    return sum(mine.values())
