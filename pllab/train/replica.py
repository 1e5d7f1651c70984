"""The model of one rank when ranks share it: split over tp, then replicated or sharded over dp, ours or PyTorch's.

A step asks a replica for the loss of its rows; what is sent in its backward, and when, is in the classes around the
model:

    --implementation    custom                               pytorch
    --dp 2              DataParallel                         DistributedDataParallel
    --zero 1            FullyShardedDataParallel(zero=1)     -
    --zero 2, 3         FullyShardedDataParallel(zero=...)   fully_shard, without and with reshard_after_forward
    --tp 2              models.tensor_parallel               -
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from pllab import comm
from pllab.models import GPT2LMHeadModelParallel, tensor_parallel
from pllab.models.gpt2 import initial_value, initialise
from pllab.parallel import DataParallel, FullyShardedDataParallel
from pllab.train.config import TrainConfig


class Replica:
    """A GPT-2 of which this rank has its part, called and trained like the whole one.

    Example: `replica.loss_sum(ids, labels).backward()` on this rank's rows; gradients are means over dp afterwards.

    Args:
        model: the whole model, on the meta device if `config.deferred_init`.
        config: its axes and implementation.
        device: where this rank computes.
        mesh: the ranks; none for a process alone.
    """

    def __init__(
        self, model: GPT2LMHeadModelParallel, config: TrainConfig, device: torch.device, mesh: comm.Mesh | None
    ) -> None:
        self._config, self._mesh, self.device = config, mesh, device
        if not config.deferred_init:
            nn.Module.to(model, device)
        if config.tp > 1:
            assert mesh is not None
            tensor_parallel(model, mesh=mesh, loss_parallel=config.loss_parallel)
        self.model = model
        self.module: nn.Module = model
        if config.dp > 1 or config.zero:
            self.module = self._shared() if config.implementation == "custom" else self._shared_by_pytorch()

    @property
    def reason(self) -> str:
        """How the ranks share the model, in a sentence."""
        return str(getattr(self.module, "reason", ""))

    def loss_sum(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Cross-entropy summed over the target tokens of this rank's rows, in nats."""
        ids, targets = (tensor.to(self.device, non_blocking=True) for tensor in (input_ids, labels))
        mask = ids.new_empty(1, 1, *ids.shape[1:] * 2, dtype=torch.bool) if ids.is_meta else None
        # Without a mask transformers reads the positions to make one, and the meta device has none to read.
        return self.module(input_ids=ids, labels=targets, num_items_in_batch=1, attention_mask=mask).loss

    @contextmanager
    def unsent(self) -> Iterator[None]:
        """Backwards inside the block send nothing; the next one outside sends the sum."""
        if isinstance(self.module, FSDPModule):
            self.module.set_requires_gradient_sync(False)
            yield
            self.module.set_requires_gradient_sync(True)
            return
        no_sync: Any = getattr(self.module, "no_sync", nullcontext)
        with no_sync():
            yield

    def _shared(self) -> nn.Module:
        if not self._config.zero:
            return DataParallel(self.model, mesh=self._mesh)
        init = initialise(self.model, self._config.seed)
        return FullyShardedDataParallel(self.model, zero=self._config.zero, mesh=self._mesh, initialise=init)

    def _shared_by_pytorch(self) -> nn.Module:
        assert self._mesh is not None
        if not self._config.zero:
            return DistributedDataParallel(self.model, process_group=comm.group_of(self._mesh, "dp"))
        mesh, frees = self._mesh["dp"], self._config.zero == 3
        for layer in (*self.model.transformer.h, self.model):
            fully_shard(layer, mesh=mesh, reshard_after_forward=frees)
        if self._config.deferred_init:
            _make_real(self.model, self._config.seed, self.device)
        return self.model


def _make_real(model: GPT2LMHeadModelParallel, seed: int, device: torch.device) -> None:
    """Give the DTensors of a model on the meta device memory and values; `to_empty` unties the embedding."""
    model.to_empty(device=device)
    model.lm_head.weight = model.transformer.wte.weight
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor)
        value = initial_value(name, parameter.shape, model.config, seed).to(device)
        mine = distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
        with torch.no_grad():
            parameter.to_local().copy_(mine.to_local())
