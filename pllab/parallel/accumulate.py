"""Several backwards, one set of messages: a large batch in small pieces.

Gradients add up on each rank by themselves. A sum over the ranks in between would send the same numbers again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pllab.parallel.flat import average_flat


def accumulate_gradients(
    model: nn.Module, loss_of: Callable[[Any], torch.Tensor], micro_batches: Sequence[Any]
) -> None:
    """Leave the gradient of the mean loss over the micro-batches of all ranks, with one set of messages.

    Drawn, for three micro-batches:

        rank 0   F0 B0  F1 B1  F2 B2 | average | step
        rank 1   F0 B0  F1 B1  F2 B2 | average | step

    `loss_of(micro_batch)` is a mean, and all micro-batches of all ranks have equally many targets; where they
    have not, `token_weighted` mends the loss. `DataParallel.no_sync` does the same around an ordinary loop.
    """
    for micro_batch in micro_batches:
        (loss_of(micro_batch) / len(micro_batches)).backward()
    average_flat(model)
