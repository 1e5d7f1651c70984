"""How a GPT-2 is divided among devices and takes a step on any axes, with the same batches and from the same weights.

`Plain` is a model that autograd runs: on one device, or shared by ranks over dp and tp. `Pipelined` is a schedule that
an executor runs, on lanes of this process or on the ranks of a group, whose stages may be shared over dp and tp too;
with its stages in turn it is naive model parallel. The loss of a step is the sum over the target tokens of the whole
batch, divided by their number. In a mean of the ranks' means, the weight of a token would depend on the number of
tokens on its rank. The classes around the model decide what is sent in a backward, and when:

    --implementation    custom                               pytorch
    --dp 2              DataParallel                         DistributedDataParallel
    --zero 1            FullyShardedDataParallel(zero=1)     -
    --zero 2, 3         FullyShardedDataParallel(zero=...)   fully_shard, without and with reshard_after_forward
    --tp 2              models.tensor_parallel               -
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pllab import comm, models
from pllab.data import IGNORED
from pllab.models.new_gpt2 import initialise, made_real
from pllab.parallel import (
    DataParallel,
    FullyShardedDataParallel,
    clip_grad_norm,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from pllab.pipeline import LaneExecutor, balance, calibrate, tied_weights
from pllab.pipeline.batches import scatter_evenly
from pllab.pipeline.engine import ActionTimes
from pllab.schedule import FAMILIES, Action, Kind, Schedule, zero_bubble
from pllab.simulate import Costs
from pllab.timeline import Timeline
from pllab.train.config import TrainConfig
from pllab.train.inputs import Updates, build_model, devices_of
from pllab.train.torch_pipeline import CountedPipeline, TorchPipeline, filled_up

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class StepRecord:
    """The loss of one share of a step; the GPU may still be computing it."""

    loss_sum: torch.Tensor
    """Sum of the losses of this share's target tokens, a scalar on the device."""
    num_targets: int
    """Target tokens of this share."""
    learning_rate: float
    gradient_norm: float | None
    """Norm over all parameters before clipping, if the configuration asks for it."""
    timing: Timeline | ActionTimes | None = None
    """When the devices of a split model worked, None if there was no target; the trainer's `timelines` reads it."""


def losses_of_all(records: Sequence[StepRecord], num_shares: int) -> tuple[list[float], float]:
    """Loss per target token over all shares, for every step and for all of them, with one message in all; NaN of none.

    Example: `losses_of_all([trainer.step(batch) for batch in batches], config.dp)`, on every rank.
    """
    sums = torch.stack([record.loss_sum.double() for record in records])
    counts = torch.tensor([record.num_targets for record in records], dtype=torch.float64, device=sums.device)
    table = torch.stack([sums, counts])
    if num_shares > 1:
        comm.all_reduce(table)
    sums, counts = table.cpu()
    return (sums / counts).tolist(), float(sums.sum() / counts.sum())


def make_trainer(
    config: TrainConfig, vocab_size: int, model: "models.GPT2LMHeadModelParallel | None" = None
) -> "Plain | Pipelined":
    """The trainer for a configuration, with a model of its own or this one; in a group every rank makes its own.

    Raises:
        ValueError: a device is not there.
    """
    model = build_model(config, vocab_size) if model is None else model
    mesh = None if comm.backend_name() is None else comm.make_mesh(config.dp, config.tp, config.pp)
    if config.tp > 1:
        models.tensor_parallel(model, mesh=mesh, loss_parallel=config.loss_parallel)
    return Pipelined(model, config, mesh) if config.is_split else Plain(model, config, mesh)


class Plain:
    """A model that autograd runs: on one device, or shared over dp and tp.

    `reason` says in a sentence how work and messages are shared; `shared` is the model in the class that shares it.
    """

    schedule: Schedule | None = None

    def __init__(self, model: "models.GPT2LMHeadModelParallel", config: TrainConfig, mesh: comm.Mesh | None) -> None:
        (self.device,) = devices_of(config)
        self.model, self.mesh, self.config = model, mesh, config
        if not config.deferred_init:
            nn.Module.to(model, self.device)
        if mesh is not None and config.dp > 1 and config.implementation == "pytorch":
            self.shared = _shared_by_pytorch(model, config, self.device, mesh)
        else:
            self.shared = shared_over_dp(model, config, mesh, initialise=initialise(model, config.seed))
        self.reason = str(getattr(self.shared, "reason", ""))
        if config.compile:
            model.compile()
        self.updates = Updates(dict(model.named_parameters()), config)

    def step(self, batch: Batch) -> StepRecord:
        """Forward, token-weighted loss and backward of each part of the batch, then clip and update."""
        num_targets = num_target_tokens(batch["labels"])
        # Asked before the forward is queued, so that a GPU has little left to do.
        total = num_targets if self.mesh is None else global_sum(num_targets)
        sums = [torch.zeros((), device=self.device)]
        parts = scatter_evenly((batch["input_ids"], batch["labels"]), self.config.accumulation) if total else []
        for part in parts:
            with nullcontext() if part is parts[-1] else unsent(self.shared):
                loss_sum = self._loss_sum(*part)
                token_weighted(loss_sum, num_targets, total=total).backward()
            sums.append(loss_sum.detach())
        return _updated(self, torch.stack(sums).sum(), num_targets)

    def loss_sum(self, batch: Batch) -> float:
        """Cross-entropy summed over the target tokens of a batch, in nats, without training."""
        with torch.no_grad():
            return float(self._loss_sum(batch["input_ids"], batch["labels"]))

    def close(self) -> None:
        """Nothing to close: whatever a rank runs ends with it."""

    def _loss_sum(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ids, targets = (tensor.to(self.device, non_blocking=True) for tensor in (input_ids, labels))
        mask = ids.new_empty(1, 1, *ids.shape[1:] * 2, dtype=torch.bool) if ids.is_meta else None
        # Without a mask transformers reads the positions to make one, and the meta device has none to read.
        return self.shared(input_ids=ids, labels=targets, num_items_in_batch=1, attention_mask=mask).loss


class Pipelined:
    """A schedule that an executor runs: on lanes, or on the ranks of a group. It offers what `Plain` does, and more.

    In a group every rank has all weights (or its slices of them) and trains those of its stages. Over dp each pipeline
    has its rows, and then gradients are averaged.
    """

    def __init__(self, model: "models.GPT2LMHeadModelParallel", config: TrainConfig, mesh: comm.Mesh | None) -> None:
        devices, group = devices_of(config), comm.group_of(mesh, "pp")
        stages = models.cut(models.layers_of(model), stage_sizes(model, config))
        schedule = schedule_of(stages, config, model.config.vocab_size, devices, mesh)
        if mesh is None:
            mine = dict(enumerate(stages))
            options: Any = {"recompute": config.recompute, "devices": devices, "timeout_s": config.timeout_s}
            lanes = LaneExecutor(schedule, stages, mean_loss, mean_over=num_target_tokens, **options)
            self._executor: LaneExecutor | TorchPipeline = lanes
        else:
            mine = {number: stages[number].to(devices[0]) for number in schedule.stages_of_rank(comm.rank(group))}
            parts = schedule, mine, tied_weights(stages), group
            if devices[0].type == "meta":
                self._executor = CountedPipeline(*parts, packet=packet_of(config, schedule.num_microbatches))
            else:
                self._executor = TorchPipeline(*parts, recompute=config.recompute)
        where = "lanes" if mesh is None else "ranks of torch.distributed.pipelining"
        self.reason = f"{schedule.name} on {config.pp} {where}, {schedule.num_microbatches} micro-batches"
        modules = nn.ModuleList(mine.values())
        layers = {type(layer): None for stage in mine.values() for layer in stage}
        self.shared: Any = shared_over_dp(modules, config, mesh, units=list(layers))
        trained = set(modules.parameters())
        self.updates = Updates({name: p for name, p in model.named_parameters() if p in trained}, config)
        self.model, self.device, self.mesh, self.schedule, self.config = model, devices[0], mesh, schedule, config

    def step(self, batch: Batch) -> StepRecord:
        """One step of the executor, average over dp, clip, update."""
        ids, labels, is_shared = batch["input_ids"], batch["labels"], self.config.dp > 1
        num_targets = num_target_tokens(labels)
        total = global_sum(num_targets) if is_shared else num_targets
        loss: float | torch.Tensor = 0.0
        timing: Timeline | ActionTimes | None = None
        if (missing := self.schedule.num_microbatches - len(ids)) > 0:  # the last batch of an epoch
            ids, labels = filled_up(ids, labels, missing)
        with unsent(self.shared, is_held=True):
            if num_targets:  # a mean over no targets is no number
                loss, timing = self._executor.step((ids, labels), labels)
            for parameter in self.shared.parameters() if is_shared else ():
                if parameter.grad is not None:  # the more targets its rows have, the more a pipeline weighs
                    parameter.grad.mul_(comm.world_size() * num_targets / total)
        if is_shared and total:
            self.shared.average_now()
        loss_sum = torch.as_tensor(loss * num_targets, dtype=torch.float64, device=comm.readable_device())
        return _updated(self, loss_sum, num_targets, timing)

    def loss_sum(self, batch: Batch) -> float:
        """Run the forwards of the schedule; 0 if there is nothing to predict."""
        ids, labels = batch["input_ids"], batch["labels"]
        num_targets = num_target_tokens(labels)
        with unsent(self.shared, is_held=True):  # which all replicas enter, whether or not they have targets
            return self._executor.evaluate((ids, labels), labels)[0] * num_targets if num_targets else 0.0

    def timelines(self, records: Sequence[StepRecord]) -> list[Timeline]:
        """The timelines of all devices in some steps; all ranks call it."""
        timings: list[Any] = [record.timing for record in records if record.timing is not None]
        return timings if isinstance(self._executor, LaneExecutor) else self._executor.timelines(timings)

    def close(self) -> None:
        """End the lanes."""
        if isinstance(self._executor, LaneExecutor):
            self._executor.close()

    def running(self) -> Action | None:
        """The action that this rank runs now, if ranks run the schedule."""
        return self._executor.running() if isinstance(self._executor, TorchPipeline) else None


Trainer = Plain | Pipelined


def _updated(trainer: Trainer, loss_sum: torch.Tensor, num_targets: int, timing: Any = None) -> StepRecord:
    """Clip and update. If no rank had a target there are no gradients, and an optimizer changes nothing."""
    most = trainer.config.gradient_clipping
    if most is None and trainer.config.tensorboard:
        most = math.inf  # which clips nothing, and the norm is recorded
    norm = None if most is None else clip_grad_norm(trainer.shared, most, trainer.mesh)
    return StepRecord(loss_sum, num_targets, trainer.updates.step(), norm, timing)


def stage_sizes(model: "models.GPT2LMHeadModelParallel", config: TrainConfig) -> list[int]:
    """Layers of each stage, including embedding and head, so that the slowest stage is as fast as possible."""
    family = FAMILIES.get(config.schedule)  # zero_bubble is none: it is searched, with a stage for each rank
    num_stages = config.pp * (family.stages_per_rank if family else 1)
    return balance(models.layer_costs(model.config, config.max_length), num_stages)


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
        mesh: the ranks, all of which call it; none for lanes.
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
    ids = torch.randint(vocab_size, (measured * max(1, rows // num_parts), config.max_length))
    if mesh is None:
        costs = calibrate(stages, (ids, ids), ids, mean_loss, num_ranks=config.pp, **options)
    else:
        costs = _costs_of_ranks(stages, ids, options, comm.group_of(mesh, "pp"))
    limit = float(config.pp) if config.memory_limit is None else config.memory_limit
    return zero_bubble(config.pp, num_parts, costs, limit)


def _costs_of_ranks(
    stages: Sequence[nn.Sequential], ids: torch.Tensor, options: dict[str, Any], group: comm.Group | None
) -> Costs:
    """Each rank times its own stage, after the embedding and before the head, which make its input and its loss."""
    own, last = comm.rank(group), len(stages) - 1
    # Copies, which go with the calibration: on a GPU the rank's own would stay there.
    before = [deepcopy(stages[0][:1])] if own > 0 else []
    after = [deepcopy(stages[last][-1:])] if own < last else []
    chain = [stage.to(options["devices"][0]) for stage in (*before, stages[own], *after)]
    costs = calibrate(chain, (ids, ids), ids, mean_loss, num_ranks=1, **options)
    mine = [costs.duration(len(before), kind) for kind in (Kind.F, Kind.I, Kind.W)]  # the search splits every B
    forward, backward_input, backward_weight = zip(*comm.all_gather_object(mine, group), strict=True)
    of_ranks = Costs(forward, backward_input, backward_weight)
    return comm.all_gather_object(of_ranks)[0]  # all pipelines take the same schedule


def mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A pipeline's loss: the mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / (labels[:, 1:] != IGNORED).sum().clamp(min=1)  # counted where it is: nothing waits for a GPU


def packet_of(config: TrainConfig, num_microbatches: int) -> torch.Tensor:
    """The tensor that passes between stages for a micro-batch, without values: hidden states (rows, time, width)."""
    rows = -(-config.batch_size // config.dp // num_microbatches)
    shape = rows, config.max_length, config.n_embd
    return torch.empty(shape, dtype=getattr(torch, config.dtype), device="meta")


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
