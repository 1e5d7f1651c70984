"""How a GPT-2 takes a step under each mode, on the same batches and from the same weights.

`Plain` is a model that autograd runs: on one device, with its layers on several in turn, or replicated on every rank of
a group. `Pipelined` is a schedule that an executor runs, on lanes of this process or on the ranks of a group. The loss
of a step is the sum over the target tokens of the whole batch, divided by their number. In a mean of the ranks' means,
the weight of a token would depend on the number of tokens on its rank.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from pllab import comm
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.parallel import DataParallel, global_sum, num_target_tokens, token_weighted
from pllab.pipeline import LaneExecutor, RankExecutor, balance, calibrate, calibrate_ranks, tied_weights
from pllab.schedule import FAMILIES, Schedule, zero_bubble
from pllab.train.config import TrainConfig

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class StepRecord:
    """The loss of one share of a step; the GPU may still be computing it."""

    loss_sum: torch.Tensor
    """Sum of the losses of this share's target tokens, a scalar on the device."""
    num_targets: int
    """Target tokens of this share."""

    @property
    def mean_loss(self) -> float:
        """Loss per target token of this share; waits for the device."""
        return self.loss_sum.item() / max(1, self.num_targets)


class Trainer(Protocol):
    """The interface of a mode for the loop."""

    model: GPT2LMHeadModelParallel
    optimizer: torch.optim.Optimizer
    names: list[str]
    """Names of the parameters of this process's optimizer, in its order."""
    device: torch.device
    """The device that the loop waits for, and that makes the translations."""
    reason: str
    """How work and messages are shared, in a sentence; empty for one device."""

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
        self.reason = str(getattr(self._replica, "reason", ""))
        self.names = sorted(name for name, _ in model.named_parameters())
        self.optimizer = make_optimizer(model, self.names, config)

    def step(self, batch: Batch) -> StepRecord:
        """Forward, token-weighted loss, backward, clip, update."""
        num_targets = num_target_tokens(batch["labels"])
        total = global_sum(num_targets)  # before the forward is queued, so that a GPU is not waited for
        _check_targets(total, self._config)
        loss_sum = self._sum(self._replica, batch)
        token_weighted(loss_sum, num_targets, total=total).backward()
        if self._config.gradient_clipping is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self._config.gradient_clipping)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return StepRecord(loss_sum.detach(), num_targets)

    def loss_sum(self, batch: Batch) -> float:
        """Use the model without its data-parallel wrapper, as there are no gradients to average."""
        with torch.no_grad():
            return float(self._sum(self.model, batch))

    def gather(self) -> None:
        """Every rank has all weights."""

    def state_of_optimizer(self) -> dict[str, Any]:
        """Every rank has the same."""
        return state_by_name(self.optimizer, self.names)

    def close(self) -> None:
        """End the workers of the model's pipe."""
        self.model.close()

    def _sum(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs = {name: batch[name].to(self.device, non_blocking=True) for name in ("input_ids", "labels")}
        return model(**inputs, num_items_in_batch=1).loss


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
        mine_ids = {id(parameter) for stage in self._mine.values() for parameter in stage.parameters()}
        self.names = sorted(name for name, parameter in self.model.named_parameters() if id(parameter) in mine_ids)
        self.optimizer = make_optimizer(self.model, self.names, self.config)
        where = "ranks" if self._on_ranks else "lanes"
        self.reason = f"{self.schedule.name} on {self.config.world_size} {where}, {self._num_parts} micro-batches"

    def step(self, batch: Batch) -> StepRecord:
        """One step of the executor, clip, update."""
        num_targets = num_target_tokens(batch["labels"])
        _check_targets(num_targets, self.config)
        inputs, labels = (batch["input_ids"], batch["labels"]), batch["labels"]
        loss = self._executor.step(inputs, labels).loss
        if self.config.gradient_clipping is not None:
            self._clip(self.config.gradient_clipping)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return StepRecord(torch.tensor(loss * num_targets, dtype=torch.float64), num_targets)

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
        mine = state_by_name(self.optimizer, self.names)
        return {name: state for part in comm.all_gather_object(mine) for name, state in part.items()}

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

    def _clip(self, most: float) -> None:
        """Scale the gradients of all stages together, each parameter counted once."""
        if not self._on_ranks:
            nn.utils.clip_grad_norm_(self.model.parameters(), most)
            return
        owned = [parameter for number, parameter in self._owners() if number in self._mine]
        squares = [float(p.grad.float().square().sum()) for p in owned if p.grad is not None]
        norm = global_sum(sum(squares)) ** 0.5
        if norm > most:
            for parameter in self.optimizer.param_groups[0]["params"]:
                if parameter.grad is not None:
                    parameter.grad *= most / (norm + 1e-6)

    def _owners(self) -> Iterator[tuple[int, nn.Parameter]]:
        """Each parameter once, with the first stage that has it."""
        counted: set[int] = set()
        for number, stage in enumerate(self._stages):
            for parameter in stage.parameters():
                if id(parameter) not in counted:
                    counted.add(id(parameter))
                    yield number, parameter


def make_optimizer(model: nn.Module, names: Iterable[str], config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimizer for the named parameters, in the order of the names, which is the same in every mode."""
    parameters = dict(model.named_parameters())
    chosen = [parameters[name] for name in names]
    if config.optimizer == "sgd":
        return torch.optim.SGD(chosen, lr=config.learning_rate)
    return torch.optim.AdamW(chosen, lr=config.learning_rate, weight_decay=0.0)


def state_by_name(optimizer: torch.optim.Optimizer, names: Iterable[str]) -> dict[str, Any]:
    """The state of each parameter under its name instead of its number."""
    states = optimizer.state_dict()["state"]
    return {name: states[number] for number, name in enumerate(names) if number in states}


def _check_targets(total: float, config: TrainConfig) -> None:
    if not total:
        raise ValueError(
            f"max_length {config.max_length} cuts off every target of a batch, so there is nothing to learn; "
            "give a larger max_length"
        )


def _mean_loss(sums: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over targets of the losses that the last layer has summed per row."""
    return sums.sum() / max(1, num_target_tokens(labels))
