"""A pipeline's step on torch.distributed.pipelining, with the loss and the tied weights of ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pllab import comm
from pllab.data import IGNORED
from pllab.pipeline.tied import Place, Tied
from pllab.pipeline.torch_schedule import to_torch
from pllab.schedule import Schedule


class TorchPipeline:
    """PyTorch's executor of a schedule on this rank's stages of a GPT-2.

    Example: `TorchPipeline(schedule, mine, tied, group).step(input_ids, labels, num_targets)` adds to the gradients and
    returns the mean loss over the targets, on every rank. Micro-batches must have equally many rows.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Sequential],
        tied: Sequence[Sequence[Place]],
        group: comm.Group | None,
    ) -> None:
        self._schedule, self._stages, self._group = schedule, stages, group
        self._tied = Tied(tied, schedule, stages, group)
        self._runtimes: dict[torch.Size, Any] = {}
        self._num_targets = 1

    def step(self, input_ids: torch.Tensor, labels: torch.Tensor, num_targets: int) -> float:
        """Forward and backward of a batch, (rows, time) both.

        Raises:
            ValueError: the micro-batches do not divide the rows.
        """
        count = self._schedule.num_microbatches
        if len(input_ids) % count:
            raise ValueError(
                f"{len(input_ids)} rows are not divisible into {count} micro-batches, and torch.distributed.pipelining "
                "needs equal ones; give a batch_size that is a multiple, or implementation custom"
            )
        self._num_targets = num_targets
        last, losses = self._schedule.num_stages - 1, list[torch.Tensor]()
        runtime = self._runtime(input_ids.shape)
        input_ids, labels = input_ids.to(comm.own_device()), labels.to(comm.own_device())
        args = (input_ids,) if 0 in self._stages else ()
        with self._tied.summed():
            if last in self._stages:
                runtime.step(*args, target=labels, losses=losses)
            else:
                runtime.step(*args)
        zero = torch.zeros((), dtype=torch.float64, device=comm.own_device())
        total = torch.stack(losses).sum().detach().double() if losses else zero
        comm.all_reduce(total, self._group)
        return float(total)

    def _runtime(self, shape: torch.Size) -> Any:
        """PyTorch fixes the shapes of packets at the first step, so each shape has its own."""
        if shape not in self._runtimes:
            self._runtimes[shape] = to_torch(self._schedule, self._stages, self._loss, group=self._group)
        return self._runtimes[shape]

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """A micro-batch's part of the batch's mean; PyTorch divides by the number of micro-batches."""
        targets = labels[:, 1:].reshape(-1)
        total = functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), targets, ignore_index=IGNORED, reduction="sum"
        )
        return total * self._schedule.num_microbatches / self._num_targets
