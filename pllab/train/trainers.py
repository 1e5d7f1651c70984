"""How a GPT-2 takes a step on any axes, on the same batches and from the same weights.

`Plain` is a model that autograd runs: on one device, with its layers on several in turn, or shared by ranks over dp and
tp (`replica.py`). `Pipelined` is a schedule that an executor runs, on lanes of this process or on the ranks of a group,
whose stages may be shared over dp and tp too. The loss of a step is the sum over the target tokens of the whole batch,
divided by their number. In a mean of the ranks' means, the weight of a token would depend on the number of tokens on
its rank.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import nn

from pllab import comm
from pllab.comm.devices import fork_rng
from pllab.models import GPT2LMHeadModelParallel, tensor_parallel
from pllab.parallel import (
    clip_grad_norm,
    global_sum,
    num_target_tokens,
    token_weighted,
)
from pllab.pipeline import LaneExecutor, calibrate, tied_weights
from pllab.pipeline.engine import Record
from pllab.pipeline.split import scatter_evenly
from pllab.schedule import FAMILIES, Action, Kind, Schedule, zero_bubble
from pllab.simulate import Costs
from pllab.train.config import TrainConfig
from pllab.train.counted_pipeline import CountedPipeline
from pllab.train.joining import whole_weights
from pllab.train.metrics import DeviceTime
from pllab.train.placing import build_model, devices_of
from pllab.train.replica import Replica
from pllab.train.stages import Weightless, first_mean, mean_loss, owned, packet_of, shared, stages_of, unsent
from pllab.train.torch_pipeline import TorchPipeline
from pllab.train.updates import Updates

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class StepRecord:
    """The loss of one share of a step; the GPU may still be computing it."""

    loss_sum: torch.Tensor
    """Sum of the losses of this share's target tokens, a scalar on the device."""
    num_targets: int
    """Target tokens of this share."""
    learning_rate: float
    gradient_norm: float | torch.Tensor | None
    """Norm over all parameters before clipping, if the configuration asks for it."""
    device_time: tuple[DeviceTime, ...] = ()
    """The time of the devices of a split model, for each part of the batch."""
    record: Record | None = None
    """When this rank's actions of a pipeline between ranks ran; its devices' time is told by those of all ranks."""

    @property
    def mean_loss(self) -> float:
        """Loss per target token of this share; waits for the device."""
        return self.loss_sum.item() / max(1, self.num_targets)


class Trainer(Protocol):
    """The interface of a mode for the loop."""

    model: GPT2LMHeadModelParallel
    updates: Updates
    """The optimizers of this process."""
    device: torch.device
    """The device that the loop waits for, and that makes the translations."""
    mesh: comm.Mesh | None
    """How the ranks share the model; none in one process."""
    reason: str
    """How work and messages are shared, in a sentence; empty for one device."""

    @property
    def schedule(self) -> Schedule | None:
        """What the devices of a split model do; none for one device."""

    def step(self, batch: Batch) -> StepRecord:
        """Train on a batch of `input_ids` and `labels`, both (rows, time) int64."""

    def loss_sum(self, batch: Batch) -> float:
        """Cross-entropy summed over the target tokens of a batch, in nats, without training."""

    def device_time(self, records: Sequence[StepRecord]) -> list[DeviceTime]:
        """The time of the devices of a split model in some steps; all ranks call it."""

    def gather(self) -> GPT2LMHeadModelParallel:
        """A whole model with the newest weights of all ranks; all ranks call it."""

    def close(self) -> None:
        """End all workers."""


def make_trainer(
    config: TrainConfig, vocab_size: int, model: GPT2LMHeadModelParallel | None = None, mesh: comm.Mesh | None = None
) -> "Plain | Pipelined":
    """The trainer for a configuration, with a model of its own or this one; in a group every rank makes its own.

    Raises:
        ValueError: a device is not there.
    """
    model = build_model(config, vocab_size) if model is None else model
    if mesh is None and comm.backend_name() is not None:
        mesh = comm.make_mesh(config.dp, config.tp, config.pp)
    return Pipelined(model, config, mesh) if config.is_pipelined else Plain(model, config, mesh)


class Plain:
    """A model that autograd runs: on one device, with its layers in turn on several, or shared over dp and tp."""

    def __init__(self, model: GPT2LMHeadModelParallel, config: TrainConfig, mesh: comm.Mesh | None = None) -> None:
        devices = devices_of(config)
        self.model, self.device, self.mesh, self._config = model, devices[0], mesh, config
        self._replica = Replica(model, config, self.device, mesh)
        if config.mode == "model_parallel":
            model.parallelize(devices, time=config.max_length)
            assert model.pipe is not None
            model.pipe.timeout_s = config.timeout_s
        if config.compile:
            model.compile()
        self.reason = self._replica.reason
        self.updates = Updates(model, [[name for name, _ in model.named_parameters()]], config)

    @property
    def schedule(self) -> Schedule | None:
        """That of the model's pipe, which has one micro-batch."""
        return self.model.pipe.schedule if self.model.pipe else None

    @property
    def shared(self) -> nn.Module:
        """The model in the class that shares it."""
        return self._replica.module

    def step(self, batch: Batch) -> StepRecord:
        """Forward, token-weighted loss and backward of each part of the batch, then clip and update."""
        num_targets = num_target_tokens(batch["labels"])
        total = global_sum(num_targets)  # before the forward is queued, so that a GPU is not waited for
        _check_targets(total, self._config)
        sums, times, pipe = list[torch.Tensor](), list[DeviceTime](), self.model.pipe
        parts = scatter_evenly((batch["input_ids"], batch["labels"]), self._config.accumulation)
        for part in parts:
            with nullcontext() if part is parts[-1] else self._replica.unsent():
                loss_sum = self._replica.loss_sum(*part)
                self._replica.backward(token_weighted(loss_sum, num_targets, total=total))
            sums.append(loss_sum.detach())
            times += [DeviceTime.of(pipe.last_timeline)] if pipe else []
        norm = None if (most := self._config.norm_limit) is None else self._replica.clip(most)
        rate = self.updates.step()
        return StepRecord(torch.stack(sums).sum(), num_targets, rate, norm, tuple(times))

    def loss_sum(self, batch: Batch) -> float:
        """Forward without gradients, so without messages about them."""
        with torch.no_grad():
            return float(self._replica.loss_sum(batch["input_ids"], batch["labels"]))

    def device_time(self, records: Sequence[StepRecord]) -> list[DeviceTime]:
        """That of each part of a batch."""
        return [each for record in records for each in record.device_time]

    def gather(self) -> GPT2LMHeadModelParallel:
        """The model, where this rank has all of it, or another with the weights of all ranks."""
        return _whole(self, self._config) if self._config.zero or self._config.tp > 1 else self.model

    def close(self) -> None:
        """End the workers of the model's pipe."""
        self.model.close()


@dataclass
class Pipelined:
    """A schedule that an executor runs: on lanes, or on the ranks of a group if there is one.

    In a group every rank has all weights (or its slices of them) and trains those of its stages; `gather` collects the
    trained ones. Over dp each pipeline has its rows, and then gradients are averaged.
    """

    model: GPT2LMHeadModelParallel
    config: TrainConfig
    mesh: comm.Mesh | None = None
    reason: str = field(init=False)

    def __post_init__(self) -> None:
        devices = devices_of(self.config)
        self.device = devices[0]
        self._on_ranks = self.mesh is not None
        self._group = comm.group_of(self.mesh, "pp")
        if self.config.tp > 1:
            tensor_parallel(self.model, mesh=self.mesh, loss_parallel=self.config.loss_parallel)
        family, count = FAMILIES.get(self.config.schedule), self.config.num_stages
        self._stages = stages_of(self.model, self.config)
        self.schedule = self._searched() if family is None else family.make(self.config.pp, self._num_parts)
        mine = self.schedule.stages_of_rank(comm.rank(self._group)) if self._on_ranks else range(count)
        self._mine = {stage: self._stages[stage] for stage in mine}
        self._tied = tied_weights(self._stages) if self._on_ranks else ()
        self._executor = self._make_executor(devices)
        self._own = nn.ModuleList(self._mine.values())
        self._replica = shared(self._own, self.config, self.mesh) if self.config.dp > 1 else None
        self.updates = Updates(self.model, self._shares(), self.config)
        where = "ranks" if self._on_ranks else "lanes"
        whose = " of torch.distributed.pipelining" if self._on_ranks else ""
        self.reason = f"{self.schedule.name} on {self.config.pp} {where}, {self._num_parts} micro-batches{whose}"

    def step(self, batch: Batch) -> StepRecord:
        """One step of the executor, average over dp, clip, update."""
        num_targets = num_target_tokens(batch["labels"])
        total = global_sum(num_targets) * self.config.dp / comm.world_size() if self._replica else num_targets
        _check_targets(total, self.config)
        with unsent(self._replica):
            # A mean over no targets is no number.
            loss, times, record = self._run(batch, num_targets) if num_targets else (0.0, (), None)
            self._weigh(self.config.dp * num_targets / total)
        if self._replica is not None:
            self._replica.average_now()
        norm = None if (most := self.config.norm_limit) is None else clip_grad_norm(self._own, most, self.mesh)
        rate = self.updates.step(self._executor.on_each_lane if isinstance(self._executor, LaneExecutor) else None)
        loss_sum = torch.tensor(loss * num_targets, dtype=torch.float64, device=comm.readable_device())
        return StepRecord(loss_sum, num_targets, rate, norm, times, record)

    def loss_sum(self, batch: Batch) -> float:
        """Run the forwards of the schedule; 0 if there is nothing to predict."""
        num_targets = num_target_tokens(batch["labels"])
        inputs, labels = batch["input_ids"], batch["labels"]
        with unsent(self._replica):
            if not num_targets:
                return 0.0
            if isinstance(self._executor, TorchPipeline):
                return self._executor.evaluate(inputs, labels, num_targets) * num_targets
            assert isinstance(self._executor, LaneExecutor), "counting evaluates nothing"
            return self._executor.evaluate((inputs, labels), labels).loss * num_targets

    def device_time(self, records: Sequence[StepRecord]) -> list[DeviceTime]:
        """That of each batch."""
        if not isinstance(self._executor, TorchPipeline):
            return [each for record in records for each in record.device_time]
        mine = [record.record for record in records if record.record is not None]
        return [DeviceTime.of(timeline) for timeline in self._executor.timelines(mine)]

    def gather(self) -> GPT2LMHeadModelParallel:
        """The model on lanes, or on ranks another with the weights of all."""
        return _whole(self, self.config) if self._on_ranks else self.model

    def close(self) -> None:
        """End the lanes."""
        if isinstance(self._executor, LaneExecutor):
            self._executor.close()

    @property
    def shared(self) -> nn.Module:
        """This rank's stages, in the class that shares them."""
        return self._replica or self._own

    def running(self) -> Action | None:
        """The action that this rank runs now, if ranks run the schedule."""
        return None if isinstance(self._executor, LaneExecutor) else self._executor.running()

    @property
    def _num_parts(self) -> int:
        """Micro-batches of a step."""
        rows = self.config.batch_size // self.config.dp
        if self.config.split_size is not None:
            return -(-rows // self.config.split_size)
        return self.config.num_microbatches or min(2 * self.config.pp, rows)

    def _make_executor(self, devices: list[torch.device]) -> LaneExecutor | TorchPipeline | CountedPipeline:
        recompute, timeout_s = self.config.recompute, self.config.timeout_s
        if not self._on_ranks:
            options: Any = {"mean_over": num_target_tokens, "recompute": recompute, "timeout_s": timeout_s}
            return LaneExecutor(self.schedule, self._stages, mean_loss, devices=devices, **options)
        mine = {number: stage.to(self.device) for number, stage in self._mine.items()}
        if self.device.type == "meta":
            return CountedPipeline(
                self.schedule, mine, self._tied, self._group, packet_of(self.config, self._num_parts)
            )
        return TorchPipeline(self.schedule, mine, self._tied, self._group, recompute=recompute)

    def _searched(self) -> Schedule:
        """`zero_bubble` for the costs of the stages on this machine, measured with random tokens."""
        ranks, parts = self.config.pp, max(self._num_parts, 2 * self.config.pp)
        rows = parts * max(1, self.config.batch_size // self.config.dp // self._num_parts)
        options: Any = {"num_microbatches": parts, "repeats": 2, "timeout_s": self.config.timeout_s}
        with fork_rng(self.device):
            ids = torch.randint(self.model.config.vocab_size, (rows, self.config.max_length))
            if self._on_ranks:
                costs = self._costs_of_ranks(ids, options)
            else:
                devices = devices_of(self.config)
                costs = calibrate(self._stages, (ids, ids), ids, mean_loss, devices=devices, num_ranks=ranks, **options)
        limit = float(ranks) if self.config.memory_limit is None else self.config.memory_limit
        return zero_bubble(ranks, self._num_parts, costs, limit)

    def _costs_of_ranks(self, ids: torch.Tensor, options: dict[str, Any]) -> Costs:
        """Each rank times its own stage alone, behind a layer that asks for the gradient of its input."""
        own = comm.rank(self._group)
        stage, hidden = self._stages[own].to(self.device), torch.randn(*ids.shape, self.config.n_embd)
        stages = [stage] if own == 0 else [Weightless(), stage]
        value = ids if own == 0 else hidden.to(getattr(torch, self.config.dtype))
        loss = mean_loss if own == self.config.pp - 1 else first_mean
        costs = calibrate(stages, (value, ids), ids, loss, num_ranks=1, devices=[self.device], **options)
        kinds = (Kind.F, Kind.I, Kind.W, Kind.B)
        mine = [costs.duration(len(stages) - 1, kind) for kind in kinds]
        forward, backward_input, backward_weight, backward = zip(
            *comm.all_gather_object(mine, self._group), strict=True
        )
        of_all = Costs(forward, backward_input, backward_weight, backward=backward)
        return comm.all_gather_object(of_all)[0]  # all pipelines take the same schedule

    def _shares(self) -> list[list[str]]:
        """The names of the parameters that each optimizer of this process updates: one of each lane, or this rank's."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        if self._on_ranks:
            return [[names[id(p)] for p in self._own.parameters()]]
        shares: list[list[str]] = [[] for _ in self.schedule.rows]
        for number, parameter in owned(self._stages):
            shares[self.schedule.rank_of_stage[number]].append(names[id(parameter)])
        return shares

    def _run(self, batch: Batch, num_targets: int) -> tuple[float, tuple[DeviceTime, ...], Record | None]:
        """Forward and backward of the schedule: the mean loss of this pipeline's rows, and where its time went."""
        inputs, labels = batch["input_ids"], batch["labels"]
        if isinstance(self._executor, CountedPipeline):  # other ranks are not there, and have no times
            return self._executor.step(inputs, labels), (), None
        if isinstance(self._executor, TorchPipeline):
            loss, record = self._executor.step(inputs, labels, num_targets)
            return loss, (), record
        loss, timeline = self._executor.step((inputs, labels), labels)
        return loss, (DeviceTime.of(timeline),), None

    def _weigh(self, weight: float) -> None:
        """Prepare the average over dp, in which a pipeline whose rows have more targets weighs more."""
        for parameter in self._own.parameters() if self._replica else ():
            if parameter.grad is not None:
                parameter.grad.mul_(weight)


def _whole(trainer: Trainer, config: TrainConfig) -> GPT2LMHeadModelParallel:
    """A model with the newest weights of all ranks, on this rank's device."""
    whole = build_model(replace(config, deferred_init=False), trainer.model.config.vocab_size)
    weights = whole_weights(trainer.updates, trainer.mesh)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            parameter.copy_(weights[name])
    return nn.Module.to(whole, trainer.device)


def _check_targets(total: float, config: TrainConfig) -> None:
    if not total:
        raise ValueError(
            f"max_length {config.max_length} cuts off every target of a batch, so there is nothing to learn; "
            "give a larger max_length"
        )
