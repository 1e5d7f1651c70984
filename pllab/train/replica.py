"""The model of one rank when ranks share it: split over tp, then replicated or sharded over dp, ours or PyTorch's.

What is sent in a backward, and when, is in the classes around the model:

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


def replica_of(
    model: GPT2LMHeadModelParallel, config: TrainConfig, device: torch.device, mesh: comm.Mesh | None
) -> nn.Module:
    """A GPT-2 of which this rank has its part, called and trained like the whole one.

    Example: after `replica(input_ids=ids, labels=labels).loss.backward()` gradients are means over dp.

    Args:
        model: the whole model, on the meta device if `config.deferred_init`.
        config: its axes and implementation.
        device: where this rank computes.
        mesh: the ranks; none for a process alone.
    """
    if not config.deferred_init:
        nn.Module.to(model, device)
    if config.tp > 1:
        tensor_parallel(model, mesh=mesh, loss_parallel=config.loss_parallel)
    if config.dp > 1 and config.implementation == "pytorch":
        assert mesh is not None
        return _shared_by_pytorch(model, config, device, mesh)
    return shared_over_dp(model, config, mesh, initialise=initialise(model, config.seed))


def shared_over_dp(module: nn.Module, config: TrainConfig, mesh: comm.Mesh | None, **sharding: Any) -> nn.Module:
    """A model, or the stages of a rank, replicated over dp or sharded with these options; itself where dp is 1."""
    if config.dp == 1:
        return module
    if not config.zero:
        return DataParallel(module, mesh=mesh)
    return FullyShardedDataParallel(module, zero=config.zero, mesh=mesh, **sharding)


@contextmanager
def unsent(replica: nn.Module, *, is_held: bool = False) -> Iterator[None]:
    """Backwards inside the block send nothing over dp; the next one outside sends the sum.

    With `is_held` weights stay whole as long, for the forwards and backwards of a schedule.
    """
    if isinstance(replica, FSDPModule):
        replica.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            replica.set_requires_gradient_sync(True)
        return
    is_held &= isinstance(replica, FullyShardedDataParallel)
    block: Any = getattr(replica, "held" if is_held else "no_sync", nullcontext)
    with block():
        yield


def _shared_by_pytorch(
    model: GPT2LMHeadModelParallel, config: TrainConfig, device: torch.device, mesh: comm.Mesh
) -> nn.Module:
    if not config.zero:
        return DistributedDataParallel(model, process_group=comm.group_of(mesh, "dp"))
    for layer in (*model.transformer.h, model):
        fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=config.zero == 3)
    if config.deferred_init:
        _make_real(model, config.seed, device)
    return model


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
