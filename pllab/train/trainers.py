"""How a GPT-2 takes a step under each mode, on the same batches and from the same weights.

`Plain` is a model that autograd runs: on one device, with its layers on several in turn, or replicated on every rank of
a group. `Pipelined` is a schedule that an executor runs, on lanes of this process or on the ranks of a group. The loss
of a step is the sum over the target tokens of the whole batch, divided by their number. In a mean of the ranks' means,
the weight of a token would depend on the number of tokens on its rank.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from pllab import comm
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.parallel import DataParallel, global_sum, num_target_tokens, token_weighted
from pllab.pipeline import LaneExecutor, RankExecutor, balance, calibrate, calibrate_ranks, tied_weights
from pllab.pipeline.microbatches import scatter_evenly
from pllab.schedule import FAMILIES, Schedule, zero_bubble
from pllab.train.config import TrainConfig
from pllab.train.spending import Inside, Stopwatch
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
    inside: tuple[Inside, ...] = ()
    """The time of the devices of a split model, for each part of the batch."""

    @property
    def mean_loss(self) -> float:
        """Loss per target token of this share; waits for the device."""
        return self.loss_sum.item() / max(1, self.num_targets)


class Trainer(Protocol):
    """The interface of a mode for the loop."""

    model: GPT2LMHeadModelParallel
    updates: Updates
    """The optimizers of this process."""
    watch: Stopwatch
    """Counts what the steps spend their time on."""
    device: torch.device
    """The device that the loop waits for, and that makes the translations."""
    reason: str
    """How work and messages are shared, in a sentence; empty for one device."""

    @property
    def schedule(self) -> Schedule | None:
        """What the devices of a split model do; none for one device."""

    def step(self, batch: Batch) -> StepRecord:
        """Train on a batch of `input_ids` and `labels`, both (rows, time) int64."""

    def loss_sum(self, batch: Batch) -> float:
        """Cross-entropy summed over the target tokens of a batch, in nats, without training."""

    def gather(self) -> None:
        """Bring the weights up to date on rank 0, if other ranks train some of them."""

    def state_of_optimizer(self) -> dict[str, Any]:
        """The optimizer's state of all ranks, by parameter name."""

    def close(self) -> None:
        """End all workers."""


def make_trainer(config: TrainConfig, vocab_size: int) -> Trainer:
    """The model and its trainer for a configuration; in a group of ranks every rank makes its own.

    Raises:
        ValueError: a device is not there.
    """
    model = build_model(config, vocab_size)
    return Pipelined(model, config) if config.mode == "pipeline" else Plain(model, config)


def build_model(config: TrainConfig, vocab_size: int) -> GPT2LMHeadModelParallel:
    """Make a randomly initialised GPT-2, the same in every rank and mode for the same seed."""
    torch.manual_seed(config.seed)
    sizes = {"n_layer": config.n_layer, "n_embd": config.n_embd, "n_head": config.n_head}
    # No dropout in attention: the fused kernel of a GPU takes no generator, so its masks could not be repeated.
    dropout = {"embd_pdrop": config.dropout, "resid_pdrop": config.dropout}
    settings = gpt2_config("tiny", vocab_size, n_positions=config.max_length, use_cache=False, **sizes, **dropout)
    return GPT2LMHeadModelParallel(settings).to(getattr(torch, config.dtype))


def devices_of(config: TrainConfig) -> list[torch.device]:
    """The devices of this process: one, or one per stage or lane; these share GPUs if there are too few.

    Example: two lanes without a GPU -> `[cpu:0, cpu:1]`, with one GPU -> `[cuda:0, cuda:0]`.

    Raises:
        ValueError: device is cuda and there is no GPU.
    """
    num_gpus = torch.cuda.device_count()
    if config.device == "cuda" and not num_gpus:
        raise ValueError("device is 'cuda' and this machine has no CUDA GPU; use 'cpu' or 'auto'")
    on_cpu = config.device == "cpu" or not num_gpus
    if comm.backend_name() is not None:  # a rank computes where its group carries messages
        on_cpu = comm.backend_name() != "nccl"
        return [torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())]
    if config.is_split:
        kind, number = ("cpu", config.world_size) if on_cpu else ("cuda", num_gpus)
        return [torch.device(kind, stage % number) for stage in range(config.world_size)]
    return [torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())]


class Plain:
    """A model that autograd runs: single, model_parallel and data_parallel."""

    def __init__(self, model: GPT2LMHeadModelParallel, config: TrainConfig) -> None:
        devices = devices_of(config)
        self.model, self.device, self._config = model, devices[0], config
        if config.mode == "model_parallel":
            model.parallelize(devices, time=config.max_length)
        else:
            nn.Module.to(model, self.device)
        self._replica = DataParallel(model) if config.mode == "data_parallel" else model
        if config.compile:
            model.compile()
        self.reason = str(getattr(self._replica, "reason", ""))
        self.updates = Updates(model, [[name for name, _ in model.named_parameters()]], config)
        self.watch = Stopwatch(self.device)
        if isinstance(self._replica, DataParallel):  # what comes after the last gradient are its messages
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(lambda _: self.watch.lap("work"))

    @property
    def schedule(self) -> Schedule | None:
        """That of the model's pipe, which has one micro-batch."""
        return self.model.pipe.schedule if self.model.pipe else None

    def step(self, batch: Batch) -> StepRecord:
        """Forward, token-weighted loss and backward of each part of the batch, then clip and update."""
        num_targets = num_target_tokens(batch["labels"])
        total = global_sum(num_targets)  # before the forward is queued, so that a GPU is not waited for
        self.watch.lap("messages")
        _check_targets(total, self._config)
        sums, inside = [], list[Inside]()
        parts = scatter_evenly((batch["input_ids"], batch["labels"]), self._config.accumulation)
        for part in parts:
            with nullcontext() if part is parts[-1] else self._unsent():
                loss_sum = self._sum(self._replica, *part)
                token_weighted(loss_sum, num_targets, total=total).backward()
            sums.append(loss_sum.detach())
            inside += [Inside.of(self.model.pipe.schedule, self.model.pipe.last_timeline)] if self.model.pipe else []
        self.watch.lap("messages" if isinstance(self._replica, DataParallel) else "work")
        norm = limit_norm(self.model, self._config)
        rate = self.updates.step()
        self.watch.lap("optimizer")
        return StepRecord(torch.stack(sums).sum(), num_targets, rate, norm, tuple(inside))

    def loss_sum(self, batch: Batch) -> float:
        """Use the model without its data-parallel wrapper, as there are no gradients to average."""
        with torch.no_grad():
            return float(self._sum(self.model, batch["input_ids"], batch["labels"]))

    def gather(self) -> None:
        """Every rank has all weights."""

    def state_of_optimizer(self) -> dict[str, Any]:
        """Every rank has the same."""
        return self.updates.states()

    def close(self) -> None:
        """End the workers of the model's pipe."""
        self.model.close()

    def _unsent(self) -> AbstractContextManager[None]:
        """For the parts of a batch before its last: ranks send the sum of their gradients once."""
        return self._replica.no_sync() if isinstance(self._replica, DataParallel) else nullcontext()

    def _sum(self, model: nn.Module, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ids, targets = (tensor.to(self.device, non_blocking=True) for tensor in (input_ids, labels))
        return model(input_ids=ids, labels=targets, num_items_in_batch=1).loss


@dataclass
class Pipelined:
    """A schedule that an executor runs: on lanes, or on the ranks of a group if there is one.

    In a group every rank has all weights and trains those of its stages; `gather` collects the trained ones.
    """

    model: GPT2LMHeadModelParallel
    config: TrainConfig
    reason: str = field(init=False)

    def __post_init__(self) -> None:
        devices = devices_of(self.config)
        self.device = devices[0]
        self._on_ranks = comm.backend_name() is not None
        family, count = FAMILIES.get(self.config.schedule), self.config.num_stages
        layers = layers_of(self.model)
        self._stages = cut(layers, balance(layer_costs(self.model.config, self.config.max_length), count))
        self.schedule = self._searched() if family is None else family.make(self.config.world_size, self._num_parts)
        mine = self.schedule.stages_of_rank(comm.rank()) if self._on_ranks else range(count)
        self._mine = {stage: self._stages[stage] for stage in mine}
        self._tied = tied_weights(self._stages) if self._on_ranks else ()
        self._executor = self._make_executor(devices)
        self.updates = Updates(self.model, self._shares(), self.config)
        self.watch = Stopwatch(self.device)
        where = "ranks" if self._on_ranks else "lanes"
        self.reason = f"{self.schedule.name} on {self.config.world_size} {where}, {self._num_parts} micro-batches"

    def step(self, batch: Batch) -> StepRecord:
        """One step of the executor, clip, update."""
        num_targets = num_target_tokens(batch["labels"])
        _check_targets(num_targets, self.config)
        inputs, labels = (batch["input_ids"], batch["labels"]), batch["labels"]
        loss, timeline = self._executor.step(inputs, labels)
        self.watch.lap("work")
        norm = self._limit_norm() if self._on_ranks else limit_norm(self.model, self.config)
        rate = self.updates.step(self._executor.on_each_lane if isinstance(self._executor, LaneExecutor) else None)
        self.watch.lap("optimizer")
        inside = Inside.of(self.schedule, timeline)
        return StepRecord(torch.tensor(loss * num_targets, dtype=torch.float64), num_targets, rate, norm, (inside,))

    def loss_sum(self, batch: Batch) -> float:
        """Run the forwards of the schedule; 0 if there is nothing to predict."""
        num_targets = num_target_tokens(batch["labels"])
        inputs, labels = (batch["input_ids"], batch["labels"]), batch["labels"]
        return self._executor.evaluate(inputs, labels).loss * num_targets if num_targets else 0.0

    def gather(self) -> None:
        """Send every parameter from the rank of its first stage to all others."""
        if not self._on_ranks:
            return
        with torch.no_grad():
            for number, parameter in self._owners():
                parameter.data = parameter.data.to(self.device)
                comm.broadcast(parameter.data, source=self.schedule.rank_of_stage[number])

    def state_of_optimizer(self) -> dict[str, Any]:
        """The states of all ranks together."""
        return {name: state for part in comm.all_gather_object(self.updates.states()) for name, state in part.items()}

    def close(self) -> None:
        """End the lanes."""
        if isinstance(self._executor, LaneExecutor):
            self._executor.close()

    @property
    def _num_parts(self) -> int:
        """Micro-batches of a step."""
        if self.config.split_size is not None:
            return -(-self.config.batch_size // self.config.split_size)
        return self.config.num_microbatches or min(2 * self.config.world_size, self.config.batch_size)

    def _make_executor(self, devices: list[torch.device]) -> LaneExecutor | RankExecutor:
        options: Any = {"mean_over": num_target_tokens, "recompute": self.config.recompute}
        if self._on_ranks:
            mine = {number: stage.to(self.device) for number, stage in self._mine.items()}
            return RankExecutor(self.schedule, mine, _mean_loss, tied=self._tied, **options)
        return LaneExecutor(self.schedule, self._stages, _mean_loss, devices=devices, **options)

    def _searched(self) -> Schedule:
        """`zero_bubble` for the costs of the stages on this machine, measured with random tokens."""
        ranks, parts = self.config.world_size, max(self._num_parts, 2 * self.config.world_size)
        rows = parts * max(1, self.config.batch_size // self._num_parts)
        options: Any = {"num_microbatches": parts, "num_ranks": ranks, "repeats": 2}
        with torch.random.fork_rng():
            ids = torch.randint(self.model.config.vocab_size, (rows, self.config.max_length))
            if self._on_ranks:
                mine = {comm.rank(): self._stages[comm.rank()].to(self.device)}
                costs = calibrate_ranks(mine, ranks, (ids, ids), ids, _mean_loss, **options)
            else:
                devices = devices_of(self.config)
                costs = calibrate(self._stages, (ids, ids), ids, _mean_loss, devices=devices, **options)
        limit = float(ranks) if self.config.memory_limit is None else self.config.memory_limit
        return zero_bubble(ranks, self._num_parts, costs, limit)

    def _shares(self) -> list[list[str]]:
        """The names of the parameters that each optimizer of this process updates: one of each lane, or this rank's."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        if self._on_ranks:
            return [[names[id(p)] for p in nn.ModuleList(self._mine.values()).parameters()]]
        shares: list[list[str]] = [[] for _ in self.schedule.rows]
        for number, parameter in self._owners():
            shares[self.schedule.rank_of_stage[number]].append(names[id(parameter)])
        return shares

    def _limit_norm(self) -> float | None:
        """Scale the gradients of all ranks' stages together, each parameter counted once, and return their norm."""
        if (most := self.config.norm_limit) is None:
            return None
        owned = [parameter for number, parameter in self._owners() if number in self._mine]
        squares = [float(p.grad.float().square().sum()) for p in owned if p.grad is not None]
        norm = global_sum(sum(squares)) ** 0.5
        if norm > most:
            for parameter in nn.ModuleList(self._mine.values()).parameters():
                if parameter.grad is not None:
                    parameter.grad *= most / (norm + 1e-6)
        return norm

    def _owners(self) -> Iterator[tuple[int, nn.Parameter]]:
        """Each parameter once, with the first stage that has it."""
        counted: set[int] = set()
        for number, stage in enumerate(self._stages):
            for parameter in stage.parameters():
                if id(parameter) not in counted:
                    counted.add(id(parameter))
                    yield number, parameter


def limit_norm(model: nn.Module, config: TrainConfig) -> torch.Tensor | None:
    """Clip the gradients of a model as configured and return their norm before; none if nobody asks for it."""
    most = config.norm_limit
    return None if most is None else nn.utils.clip_grad_norm_(model.parameters(), most)


def _check_targets(total: float, config: TrainConfig) -> None:
    if not total:
        raise ValueError(
            f"max_length {config.max_length} cuts off every target of a batch, so there is nothing to learn; "
            "give a larger max_length"
        )


def _mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / max(1, num_target_tokens(labels))
