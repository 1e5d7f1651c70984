"""The loss over the validation examples, in which every target token has the same weight on any axes."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pllab.data import Collate, Example, Row
from pllab.parallel import global_sum, num_target_tokens
from pllab.train.trainers import Trainer


def validation_loss(
    trainer: Trainer,
    examples: Sequence[Example | Row],
    collate: Collate,
    batch_size: int,
    share: tuple[int, int] = (0, 1),
) -> float:
    """Mean loss per target token over all examples; every token has the same weight. NaN without targets.

    Args:
        trainer: computes the losses, with dropout off.
        examples: all examples, the same on every rank; each rank takes its share.
        collate: makes `input_ids` and `labels` from a list of examples.
        batch_size: rows at a time, on this rank.
        share: the number of this rank's share of the data, and the count of shares.
    """
    number, count = share
    loss_sum, num_targets = 0.0, 0
    trainer.model.eval()
    with torch.random.fork_rng(devices=[]):  # a pipeline draws a seed for every batch, and training goes on after this
        for rows in batches(examples[number::count], batch_size):
            batch = collate(rows)
            loss_sum += trainer.loss_sum(batch)
            num_targets += num_target_tokens(batch["labels"])
        if _num_batches(examples[number::count], batch_size) < _num_batches(examples[::count], batch_size):
            trainer.loss_sum(collate(list(examples[:1])))  # ranks that share a model run forward equally often
    trainer.model.train()
    if count > 1:
        loss_sum, num_targets = global_sum(loss_sum), int(global_sum(num_targets))
    return loss_sum / num_targets if num_targets else float("nan")


def _num_batches(items: Sequence[Any], size: int) -> int:
    return -(-len(items) // size)


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Cut a sequence into lists of `size`, the last one shorter: 5 items by 2 -> 2, 2, 1."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
