"""The validation loss: ranks deal out the examples among them, and a token counts the same wherever it is."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from pllab import comm
from pllab.data import Example
from pllab.parallel import global_sum, num_target_tokens
from pllab.train.step import Batch, sum_of_losses


@torch.no_grad()
def validation_loss(
    model: nn.Module,
    examples: Sequence[Example],
    collate: Callable[[list[Example]], Batch],
    batch_size: int,
    device: torch.device,
) -> float:
    """Mean loss per target token over all examples and ranks; nan when there is no target.

    Args:
        model: the model without its data-parallel wrapper, as no gradient is to be averaged.
        examples: the same on every rank.
        collate: makes `input_ids` and `labels` of a list of examples.
        batch_size: rows at a time, on this rank.
        device: takes the batch.
    """
    was_training = model.training
    model.eval()
    loss_sum, num_targets = 0.0, 0
    for rows in batches(examples[comm.rank() :: comm.world_size()], batch_size):
        batch = collate(rows)
        loss_sum += sum_of_losses(model, batch, device).item()
        num_targets += num_target_tokens(batch["labels"])
    model.train(was_training)
    everywhere = global_sum(num_targets)
    total = global_sum(loss_sum)
    return total / everywhere if everywhere else float("nan")


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Cut a sequence into lists of `size`, the last one shorter: 5 items by 2 -> 2, 2, 1."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
