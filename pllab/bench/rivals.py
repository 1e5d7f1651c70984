"""Ours against what a user would pick instead: PyTorch's class for the same job, all ways alternating in one run.

    data-parallel   DataParallel               torch DDP, and no communication at all
    fsdp            FullyShardedDataParallel   torch FSDP2
    tensor          tensor_parallel            torch DTensor, and the whole model on every rank
    pipeline        Pipe                       torch GPipe, and what the machine allows (pipeline_steps.py)

Before the ratio of two ways is believed, both must have computed the same loss or the same gradients.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import loss_parallel as sharded_loss
from torch.nn.parallel import DistributedDataParallel

from pllab import comm
from pllab.accelerator import Backend
from pllab.bench.dtensor import tensor_parallel_by_pytorch
from pllab.bench.measure import Comparison, Spread, check_rounds, check_same_losses, compare
from pllab.bench.workloads import Step, Workload
from pllab.comm.devices import is_gpu
from pllab.models import GPT2LMHeadModelParallel, tensor_parallel
from pllab.parallel import DataParallel, FullyShardedDataParallel, average_gradients, broadcast_parameters

NO_COMMUNICATION = "no communication"
OURS = "DataParallel"
DDP = "torch DDP"
SOCKETS = "DataParallel over sockets"
PER_PARAMETER = "one all-reduce per parameter"
SHARDED = "FullyShardedDataParallel"
FSDP2 = "torch FSDP2"
SHARDED_SOCKETS = "FullyShardedDataParallel over sockets"
SPLIT = "tensor_parallel"
DTENSOR = "torch DTensor"
WHOLE = "whole model on every rank"

_GRADIENTS = Workload()
_SPLIT = Workload(batch_size=4, num_tokens=128)


@dataclass(frozen=True)
class Rivals:
    """The seconds of all ways, and the ratio that counts: ours to theirs, round by round."""

    about: str
    """What was measured, in a sentence, and what else follows from the seconds."""
    workload: Workload
    ours: str
    theirs: str
    comparison: Comparison

    @property
    def ratio(self) -> Spread:
        """Time of our way over theirs; below 1 ours is faster."""
        return self.comparison.ratio(self.ours, self.theirs)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`: the seconds of every round, from which the ratios follow."""
        return asdict(self)

    def table(self) -> str:
        """The result as text: what was measured, times and ratios, then the ratio that counts."""
        return f"{self.about}\n{self.comparison.table()}\n{self.ours} to {self.theirs}: {self.ratio.text(3)}"


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """On how many ranks the ways take turns, and how often.

    Raises:
        ValueError: there are no rounds.
    """

    world_size: int = 2
    """Ranks, each with one thread on a CPU or one GPU."""
    repeats: int = 9
    """Rounds that count."""
    warmup: int = 1
    """Rounds before."""
    backend: Backend | None = None
    """gloo or nccl; by default planned from ranks and GPUs."""
    timeout_s: float = 600.0
    """The most seconds that the measurement may take."""

    def __post_init__(self) -> None:
        check_rounds(self.repeats, self.warmup)


_ROUNDS, _SPLIT_ROUNDS = Rounds(), Rounds(warmup=2)


def bench_data_parallel(workload: Workload = _GRADIENTS, rounds: Rounds = _ROUNDS) -> Rivals:
    """Measure one step (forward, backward, average, AdamW) of GPT-2 by ways to average gradients.

    Example: `print(bench_data_parallel().table())` takes about half a minute on two cores.

    Args:
        workload: the model and the batch per rank; by default 6 layers of 256, 1 x 192 tokens, which is
            little to compute for 21 MB of gradients, so that sending them shows.
        rounds: ranks and repetitions.

    Raises:
        Implausible: a check of the comparison failed, or the ways did not train the same model.
    """
    return _alternating((OURS, DDP, NO_COMMUNICATION, SOCKETS, PER_PARAMETER), workload, rounds)


def bench_fsdp(workload: Workload = _GRADIENTS, rounds: Rounds = _ROUNDS) -> Rivals:
    """Measure one step of GPT-2 with parameters, gradients and optimizer sharded over the ranks, against FSDP2.

    Example: `print(bench_fsdp().table())` takes about half a minute on two cores.

    Raises:
        Implausible: as for `bench_data_parallel`.
    """
    return _alternating((SHARDED, FSDP2, NO_COMMUNICATION, SHARDED_SOCKETS), workload, rounds)


def bench_tensor(workload: Workload = _SPLIT, rounds: Rounds = _SPLIT_ROUNDS) -> Rivals:
    """Measure forward and backward of a GPT-2 whose layers are split over the ranks, with the loss on split logits.

    Example: `print(bench_tensor().table())` takes about half a minute on two cores. All ranks see the same batch.
    Updates are left out of the time: they work on slices without a message.

    Raises:
        Implausible: as for `bench_data_parallel`.
    """
    return _alternating((SPLIT, DTENSOR, WHOLE), workload, rounds)


def _alternating(ways: tuple[str, ...], workload: Workload, rounds: Rounds) -> Rivals:
    """The first way is ours, the second PyTorch's."""
    given, size = (ways, workload, rounds), rounds.world_size
    by_rank = comm.launch(_alternate, size, *given, backend=rounds.backend, timeout_s=rounds.timeout_s)
    comparison, reason = by_rank[0]
    what, whose = ("forward and backward", "on all") if SPLIT in ways else ("one training step", "each")
    about = (
        f"{what} of GPT-2 ({workload.num_layers} layers, width {workload.width}) on {size} ranks, "
        f"{workload.batch_size} x {workload.num_tokens} tokens {whose}{reason}."
    )
    return Rivals(about, workload, ways[0], ways[1], comparison)


def _alternate(
    rank: int, world_size: int, ways: tuple[str, ...], workload: Workload, rounds: Rounds
) -> tuple[Comparison, str]:
    """Time all ways in turn, in step with the other ranks; and why ours goes the way it goes."""
    (ours, theirs), is_split = ways[:2], SPLIT in ways
    if is_gpu(comm.own_device()):
        ways = tuple(way for way in ways if way not in (SOCKETS, SHARDED_SOCKETS))
    made = {way: _Way(way, workload, seed=0 if is_split else rank) for way in ways}
    steps: dict[str, Step] = {name: way.both if is_split else way.step for name, way in made.items()}
    before: dict[str, Step] = {name: way.update for name, way in made.items()} if is_split else {}
    tokens = workload.tokens * (1 if is_split else world_size)
    about: Any = {"baseline": theirs, "tokens": tokens, "before": before, "in_step": True}
    comparison = compare(steps, rounds.repeats, rounds.warmup, **about)
    check_same_work({name: way.loss.item() for name, way in made.items()}, theirs)
    reason = getattr(made[ours].model, "reason", "")
    return comparison, f"; {reason}" if reason else ""


class _Way:
    """A GPT-2 in one way; every way starts from the same weights and sees the same batch."""

    loss: torch.Tensor

    def __init__(self, way: str, workload: Workload, *, seed: int) -> None:
        device = comm.own_device().type
        self._inner, self._way = workload.model(device), way
        self.model: Any = _MAKE.get(way, lambda model: model)(self._inner)
        self._optimizer = torch.optim.AdamW(self._inner.parameters(), lr=1e-4)
        self._tokens = workload.ids(seed).to(device)

    def step(self) -> None:
        """Forward, backward and update."""
        self.both()
        self.update()

    def both(self) -> None:
        """Forward and backward."""
        self._inner.zero_grad()
        self.loss = self.model(input_ids=self._tokens, labels=self._tokens).loss
        with sharded_loss() if self._way == DTENSOR else nullcontext():
            self.loss.backward()
        if self._way == PER_PARAMETER:
            average_gradients(self._inner)

    def update(self) -> None:
        """A step of the optimizer; before the first backward nothing changes."""
        self._optimizer.step()


def _one_by_one(model: GPT2LMHeadModelParallel) -> nn.Module:
    broadcast_parameters(model)
    return model


def _sharded_by_torch(model: GPT2LMHeadModelParallel) -> nn.Module:
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
    return model


def _split_by(split: Callable[..., nn.Module], model: GPT2LMHeadModelParallel) -> nn.Module:
    return split(model, mesh=comm.make_mesh(tp=comm.world_size()), loss_parallel=True)


_MAKE: dict[str, Callable[[GPT2LMHeadModelParallel], nn.Module]] = {
    OURS: DataParallel,
    SOCKETS: partial(DataParallel, strategy="flat"),
    DDP: DistributedDataParallel,
    PER_PARAMETER: _one_by_one,
    SHARDED: FullyShardedDataParallel,
    SHARDED_SOCKETS: partial(FullyShardedDataParallel, share_memory=False),
    FSDP2: _sharded_by_torch,
    SPLIT: partial(_split_by, tensor_parallel),
    DTENSOR: partial(_split_by, tensor_parallel_by_pytorch),
}


def check_same_work(losses: Mapping[str, float], reference: str, tolerance: float = 0.01) -> None:
    """Refuse losses that differ by more than a part of the reference's: ways to train one model agree.

    Raises:
        Implausible: a way with communication has another loss than the reference after as many steps.
    """
    right = losses[reference]
    told = {way: [loss] for way, loss in losses.items() if way != NO_COMMUNICATION}
    check_same_losses({reference: [right], **told}, tolerance * abs(right))
