"""Data-parallel training, complete and in the fewest lines: the version to read first.

`train` does the same with everything that a real run needs: validation, checkpoints, other optimizers, other
ways to share the model.
"""

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pllab.data import ShareLoader, partition_dataset
from pllab.data.loader import Indexable
from pllab.parallel import average_gradients, broadcast_parameters, global_sum


def train_data_parallel(
    rank: int,
    world_size: int,
    model: nn.Module,
    dataset: Indexable[tuple[torch.Tensor, torch.Tensor]],
    num_steps: int,
    batch_size: int,
    lr: float,
) -> list[float]:
    """Train this rank's copy of a model inside a ready group; return the mean loss of every step's global batch.

    Example: `launch(train_data_parallel, 2, model, dataset, 20, 8, 0.3)` returns the same 20 losses from both ranks,
    and they are those of one process that takes all 8 samples of each step.

    All ranks start from the weights of rank 0. The steps go on into as many epochs as needed, each in a
    new order; each leaves out the few samples that the ranks cannot share equally.

    Args:
        rank: this process's number.
        world_size: the number of ranks.
        model: `model(x)` gives logits (batch, ..., classes) for x (batch, ...).
        dataset: `dataset[i]` is `(x, y)`, y with a class for each prediction, int64.
        num_steps: steps of SGD.
        batch_size: samples of a step on all ranks together.
        lr: the learning rate.

    Raises:
        ValueError: the ranks cannot share the batch equally, or not even one sample each.
    """
    broadcast_parameters(model)
    loader = partition_dataset(rank, world_size, dataset, batch_size, remainder="drop")
    if not len(loader):
        raise ValueError(f"a data set of {len(dataset)} cannot be shared by {world_size} ranks; give each a sample")
    optimizer = torch.optim.SGD(model.parameters(), lr)
    losses = []
    for x, y in islice(_epochs(loader), num_steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        average_gradients(model)
        optimizer.step()
        losses.append(global_sum(loss.item()) / world_size)
    return losses


def _epochs(loader: ShareLoader) -> Iterator[Any]:
    """The batches of epoch 0, then those of epoch 1, without end."""
    for epoch in count():
        loader.set_epoch(epoch)
        yield from loader
