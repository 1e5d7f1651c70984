"""All gradients in one message: the version to read after `average_gradients`.

A message has a fixed cost, its latency. Gradients laid side by side in one flat tensor pay it once. The copies
there and back are what `buckets.py` saves later, where gradients live in the message.
"""

import torch
from torch import nn

from pllab import comm


def average_flat(model: nn.Module) -> None:
    """Replace every gradient by its mean over the ranks, in one message per data type.

    Drawn, for a weight of 2 x 3 and a bias of 2:

        gradients   (2, 3)          (2,)
        flat        | w w w w w w | b b |      one message
        gradients   (2, 3)          (2,)       the mean, each in its own place again

    A parameter without a gradient is skipped; every rank must skip the same ones. One message per data type,
    because a flat tensor has one type, and digits that were cut off do not come back.

    Source: `_flatten_dense_tensors` in torch, used by the first versions of DistributedDataParallel.
    """
    by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
    for parameter in model.parameters():
        if parameter.grad is not None:
            by_dtype.setdefault(parameter.grad.dtype, []).append(parameter.grad)
    for gradients in by_dtype.values():
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        comm.all_reduce(flat)
        flat /= comm.world_size()
        pieces = flat.split([gradient.numel() for gradient in gradients])
        for gradient, piece in zip(gradients, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))
