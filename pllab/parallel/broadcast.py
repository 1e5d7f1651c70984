"""Every rank starts from the same numbers: rank 0's.

Averaged gradients keep equal models equal; they never make different models equal. So data parallelism
begins with one broadcast per parameter and per buffer.
"""

from itertools import chain

import torch
from torch import nn

from pllab import comm


def broadcast_parameters(model: nn.Module) -> None:
    """Overwrite this rank's parameters and buffers with those of rank 0.

    Example, one weight, before and after:

        rank 0   [1., 2.]        [1., 2.]
        rank 1   [7., 9.]   ->   [1., 2.]

    A tied parameter is sent once. Source: `torch.nn.parallel.DistributedDataParallel`, which does the same
    when it is constructed.
    """
    with torch.no_grad():
        for tensor in chain(model.parameters(), model.buffers()):
            broadcast_tensor(tensor.detach())


def check_same_model(model: nn.Module) -> None:
    """Refuse a model that has other parameters here than on rank 0, before the first message hangs on it.

    Example: rank 0 built `Linear(4, 2)` and rank 1 `Linear(4, 3)`; every rank raises
    "rank 1 has parameter weight float32[3, 4], rank 0 has float32[2, 4]; build the same model on every rank".

    Raises:
        ValueError: names, shapes, types or frozen parameters differ between ranks; raised on every rank.
    """
    descriptions = comm.all_gather_object(_describe(model))
    for rank, theirs in enumerate(descriptions):
        if theirs != descriptions[0]:
            raise ValueError(_difference(rank, theirs, descriptions[0]))


def broadcast_tensor(tensor: torch.Tensor) -> None:
    """Send one tensor; a message needs contiguous memory, so a transposed tensor goes through a copy."""
    message = tensor.contiguous()
    comm.broadcast(message, source=0)
    if message is not tensor:
        tensor.copy_(message)


def _describe(model: nn.Module) -> dict[str, str]:
    """The name of each parameter and what a message needs to know of it."""
    return {
        name: f"{str(parameter.dtype).removeprefix('torch.')}{list(parameter.shape)}"
        + ("" if parameter.requires_grad else " frozen")
        for name, parameter in model.named_parameters()
    }


def _difference(rank: int, theirs: dict[str, str], ours: dict[str, str]) -> str:
    """The sentence about the first parameter in which two ranks differ."""
    names = [name for name in (ours | theirs) if ours.get(name) != theirs.get(name)]
    if not names:
        return f"rank {rank} has the parameters of rank 0 in another order; build the same model on every rank"
    name = names[0]
    return (
        f"rank {rank} has parameter {name} {theirs.get(name, 'missing')}, "
        f"rank 0 has {ours.get(name, 'none')}; build the same model on every rank"
    )
