"""Losses that stay right when the ranks predict unequal numbers of tokens.

A mean over one's own targets, averaged over ranks, is a mean of means: a rank with 10 targets counts as much
as one with 100. Dividing every rank's *sum* by the targets of *all* ranks gives the one-process gradient.
"""

import torch

from pllab import comm
from pllab.data import IGNORED


def num_target_tokens(labels: torch.Tensor) -> int:
    """Count the targets of a batch: the labels that are not -100, without the first column.

    Nothing predicts the first token of a row, because the model shifts labels by one.

    Example: `[[5, 6, -100], [7, 8, 9]]` -> 3.

    Args:
        labels: (batch, time) int64, -100 where nothing is to be predicted.
    """
    return int((labels[:, 1:] != IGNORED).sum())


def global_sum(number: float) -> float:
    """Sum a number over the ranks: rank 0 has 10, rank 1 has 100, both get 110.0.

    It costs one message of 8 bytes.
    """
    device = "cuda" if comm.backend_name() == "nccl" else "cpu"
    total = torch.tensor([number], dtype=torch.float64, device=device)
    comm.all_reduce(total)
    return float(total)


def token_weighted(loss_sum: torch.Tensor, num_tokens: int, *, total: float | None = None) -> torch.Tensor:
    """Scale a summed loss so that gradients averaged over ranks are those of one process with all the data.

    Example, one target with loss 1.0 on rank 0 and three with loss 2.0 each on rank 1:

        one process                    (1 + 6) / 4             = 1.75
        mean of means, the usual bug   (1/1 + 6/3) / 2         = 1.5
        token_weighted, then mean      (1 * 2/4 + 6 * 2/4) / 2 = 1.75

    Args:
        loss_sum: scalar, the sum of this rank's losses over its targets (`reduction="sum"`).
        num_tokens: this rank's targets.
        total: the targets of the whole step on all ranks; needed when a step is several backwards
            (`no_sync`), where a sum over one micro-batch is not enough; saves the message when it is known.

    Raises:
        ValueError: there is no target on any rank.

    Source: the same correction as `num_items_in_batch` in transformers 4.46 and later.
    """
    everywhere = global_sum(num_tokens) if total is None else total
    if everywhere <= 0:
        raise ValueError(
            f"this step has {everywhere:g} target tokens on all ranks together; "
            "skip the batch, or keep some labels other than -100"
        )
    return loss_sum * (comm.world_size() / everywhere)
