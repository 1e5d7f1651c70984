"""How a GPT-2 is divided among devices: cut into stages, split over tp, replicated or sharded over dp.

The classes around the model decide what is sent in a backward, and when:

    --implementation    custom                               pytorch
    --dp 2              DataParallel                         DistributedDataParallel
    --zero 1            FullyShardedDataParallel(zero=1)     -
    --zero 2, 3         FullyShardedDataParallel(zero=...)   fully_shard, without and with reshard_after_forward
    --tp 2              models.tensor_parallel               -
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pllab import comm, models
from pllab.comm.devices import fork_rng
from pllab.data import IGNORED
from pllab.models.new_gpt2 import initialise, made_real
from pllab.parallel import DataParallel, FullyShardedDataParallel
from pllab.pipeline import balance, calibrate
from pllab.schedule import FAMILIES, Action, Kind, Schedule, zero_bubble
from pllab.train.config import TrainConfig


def stage_sizes(model: "models.GPT2LMHeadModelParallel", config: TrainConfig) -> list[int]:
    """Layers of each stage, including embedding and head, so that the slowest stage is as fast as possible."""
    return balance(models.layer_costs(model.config, config.max_length), config.num_stages)


def schedule_of(
    stages: Sequence[nn.Sequential],
    config: TrainConfig,
    vocab_size: int,
    devices: Sequence[torch.device],
    mesh: comm.Mesh | None,
) -> Schedule:
    """The order of work of a configuration; `zero_bubble` is searched for what the stages cost on this machine.

    Model parallel on two devices, naive: `0F0 0B0 0F1 0B1` beside `1F0 1B0 1F1 1B1`, for two parts of accumulation.

    Args:
        stages: all of them, whose costs are measured with random tokens.
        config: names the schedule.
        vocab_size: entries of the vocabulary.
        devices: the lanes, or the device of this rank.
        mesh: the ranks, all of which call it and run all stages in turn to measure them; none for lanes.
    """
    rows = config.batch_size // config.dp
    if config.mode == "model_parallel":
        in_turn = [(kind, part) for part in range(min(config.accumulation, rows)) for kind in (Kind.F, Kind.B)]
        of_stages = (tuple(Action(stage, kind, part) for kind, part in in_turn) for stage in range(config.pp))
        return Schedule(tuple(of_stages), "stages in turn")
    num_parts = config.num_microbatches or min(2 * config.pp, rows)
    family = FAMILIES.get(config.schedule)
    if family is not None:
        return family.make(config.pp, num_parts)
    measured = max(num_parts, 2 * config.pp)
    options: Any = {"num_microbatches": measured, "repeats": 2, "timeout_s": config.timeout_s, "devices": devices}
    # Of ranks, copies, which go with the calibration: on a GPU the stages of others would stay there.
    chain = stages if mesh is None else [stage.to(devices[0]) for stage in deepcopy(list(stages))]
    with fork_rng(devices[0]):
        ids = torch.randint(vocab_size, (measured * max(1, rows // num_parts), config.max_length))
        costs = calibrate(chain, (ids, ids), ids, mean_loss, num_ranks=len(devices), **options)
    limit = float(config.pp) if config.memory_limit is None else config.memory_limit
    of_rank_0 = comm.all_gather_object(costs)[0]  # all pipelines take the same schedule
    return zero_bubble(config.pp, num_parts, of_rank_0, limit)


def mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A pipeline's loss: the mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / (labels[:, 1:] != IGNORED).sum().clamp(min=1)  # counted where it is: nothing waits for a GPU


def packet_of(config: TrainConfig, num_microbatches: int) -> torch.Tensor:
    """The tensor that passes between stages for a micro-batch, without values: hidden states (rows, time, width)."""
    rows = -(-config.batch_size // config.dp // num_microbatches)
    shape = rows, config.max_length, config.n_embd
    return torch.empty(shape, dtype=getattr(torch, config.dtype), device="meta")


def replica_of(
    model: "models.GPT2LMHeadModelParallel", config: TrainConfig, device: torch.device, mesh: comm.Mesh | None
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

    With `is_held` the weights stay whole meanwhile, for the forwards and backwards of a schedule.
    """
    switch: Any = getattr(replica, "set_requires_gradient_sync", None)  # of PyTorch's fully_shard
    if switch is not None:
        switch(False)
        try:
            yield
        finally:
            switch(True)
        return
    is_held &= isinstance(replica, FullyShardedDataParallel)
    block: Any = getattr(replica, "held" if is_held else "no_sync", nullcontext)
    with block():
        yield


def _shared_by_pytorch(
    model: "models.GPT2LMHeadModelParallel", config: TrainConfig, device: torch.device, mesh: comm.Mesh
) -> nn.Module:
    if not config.zero:
        return DistributedDataParallel(model, process_group=comm.group_of(mesh, "dp"))
    # Half a second of imports, which no other run needs.
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.experimental import implicit_replication

    for layer in (*model.transformer.h, model):
        fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=config.zero == 3)
    if config.deferred_init:
        with implicit_replication():  # each rank makes a value whole, and its DTensor keeps a part
            made_real(model, config.seed, device)
    return model
