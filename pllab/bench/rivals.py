"""Ours against what a user would pick instead: PyTorch's class for the same job, all ways alternating in one run.

    data-parallel   DataParallel               torch DDP, and no communication at all
    fsdp            FullyShardedDataParallel   torch FSDP2
    tensor          tensor_parallel            torch DTensor, and the whole model on every rank
    pipeline        Pipe                       torch GPipe, and what the machine allows (pipeline_steps.py)

Two ways are compared only if both computed the same loss or the same gradients.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor import parallel as by_torch
from torch.nn.parallel import DistributedDataParallel
from transformers.pytorch_utils import Conv1D

from pllab import comm
from pllab.bench.measure import Comparison, Run, check_rounds, check_same_losses, compare
from pllab.bench.workloads import Workload
from pllab.comm.devices import is_gpu
from pllab.models import GPT2LMHeadModelParallel, tensor_parallel
from pllab.parallel import DataParallel, FullyShardedDataParallel, average_gradients
from pllab.show.theme import count_of

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

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`: the seconds of every round, from which the ratios follow."""
        return asdict(self)

    def table(self) -> str:
        """The result as text: what was measured, times and ratios, then the ratio that counts."""
        ratio = self.comparison.ratio(self.ours, self.theirs)
        return f"{self.about}\n{self.comparison.table()}\n{self.ours} to {self.theirs}: {ratio.text(3)}"


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
        RankError: a check of the comparison failed, the ways did not train the same model, or it took too long.
    """
    return _alternating(DATA_PARALLEL, workload, rounds)


def bench_fsdp(workload: Workload = _GRADIENTS, rounds: Rounds = _ROUNDS) -> Rivals:
    """Measure one step of GPT-2 with parameters, gradients and optimizer sharded over the ranks, against FSDP2.

    Example: `print(bench_fsdp().table())` takes about half a minute on two cores.

    Raises:
        RankError: as for `bench_data_parallel`.
    """
    return _alternating(FULLY_SHARDED, workload, rounds)


def bench_tensor(workload: Workload = _SPLIT, rounds: Rounds = _SPLIT_ROUNDS) -> Rivals:
    """Measure forward and backward of a GPT-2 whose layers are split over the ranks, with the loss on split logits.

    Example: `print(bench_tensor().table())` takes about half a minute on two cores. All ranks see the same batch.
    Updates are left out of the time: they work on slices without a message.

    Raises:
        RankError: as for `bench_data_parallel`.
    """
    return _alternating(TENSOR_PARALLEL, workload, rounds, is_split=True)


Way = Callable[[GPT2LMHeadModelParallel], nn.Module]


def _not_shared(model: GPT2LMHeadModelParallel) -> nn.Module:
    return model


def _sharded_by_torch(model: GPT2LMHeadModelParallel) -> nn.Module:
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
    return model


def _split(model: GPT2LMHeadModelParallel) -> nn.Module:
    return tensor_parallel(model, mesh=comm.make_mesh(tp=comm.world_size()), loss_parallel=True)


def _alternating(ways: dict[str, Way], workload: Workload, rounds: Rounds, *, is_split: bool = False) -> Rivals:
    given = (ways, workload, rounds, is_split)
    return comm.launch(_alternate, rounds.world_size, *given, timeout_s=rounds.timeout_s)[0]


def _alternate(
    rank: int, world_size: int, ways: dict[str, Way], workload: Workload, rounds: Rounds, is_split: bool
) -> Rivals:
    """Time all ways in turn, in step with the other ranks.

    Ranks that split the layers see one batch, and their updates are not timed.
    """
    ours, theirs, *_ = ways
    if is_gpu(comm.own_device()):
        ways = {name: make for name, make in ways.items() if not name.endswith("over sockets")}
    made = {name: _RivalTrainer(name, make, workload, seed=0 if is_split else rank) for name, make in ways.items()}
    steps: dict[str, Run] = {name: each.both if is_split else each.step for name, each in made.items()}
    before: dict[str, Run] = {name: each.update for name, each in made.items()} if is_split else {}
    tokens = workload.tokens * (1 if is_split else world_size)
    about: Any = {"baseline": theirs, "tokens": tokens, "before": before, "in_step": True}
    comparison = compare(steps, rounds.repeats, rounds.warmup, **about)
    check_same_work({name: each.loss.item() for name, each in made.items()}, theirs)
    reason = getattr(made[ours].model, "reason", "")
    what, whose = ("forward and backward", "on all") if is_split else ("one training step", "each")
    said = (
        f"{what} of GPT-2 ({workload.num_layers} layers, width {workload.width}) on {count_of(world_size, 'rank')}, "
        f"{workload.batch_size} x {workload.num_tokens} tokens {whose}{'; ' if reason else ''}{reason}."
    )
    return Rivals(said, workload, ours, theirs, comparison)


class _RivalTrainer:
    """A GPT-2 in one way; every way starts from the same weights and sees the same batch."""

    loss: torch.Tensor

    def __init__(self, name: str, make: Way, workload: Workload, seed: int) -> None:
        device = comm.own_device()
        self._name, self._inner = name, workload.model()
        nn.Module.to(self._inner, device)
        self.model = make(self._inner)
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
        with by_torch.loss_parallel():  # for the DTensors of a loss; other backwards do not notice
            self.loss.backward()
        if self._name == "one all-reduce per parameter":
            average_gradients(self._inner)

    def update(self) -> None:
        """A step of the optimizer; before the first backward nothing changes."""
        self._optimizer.step()


def check_same_work(losses: Mapping[str, float], reference: str) -> None:
    """Refuse losses that differ from the reference by more than a hundredth: ways to train one model agree.

    Raises:
        Implausible: a way with communication has another loss than the reference after as many steps.
    """
    right = losses[reference]
    told = {way: [loss] for way, loss in losses.items() if way != "no communication"}
    check_same_losses({reference: [right], **told}, 0.01 * abs(right))


def tensor_parallel_by_pytorch(model: GPT2LMHeadModelParallel) -> nn.Module:
    """Split a GPT-2 over all ranks with PyTorch's own classes, and its loss too; in place, and called like ours.

    Example; backward has to be inside PyTorch's context:

        loss = tensor_parallel_by_pytorch(model)(input_ids, labels=labels).loss
        with torch.distributed.tensor.parallel.loss_parallel():
            loss.backward()

    Parameters are DTensors. PyTorch splits `nn.Linear` alone, so every `Conv1D` becomes one, with its weight
    transposed, and `c_attn` becomes three, `c_attn.q`, `.k` and `.v`. Ranks that are seeded equally draw equal masks
    for their heads, so give attention no dropout.

    Source: torch.distributed.tensor.parallel.
    """
    body: Any = model.transformer
    plan: dict[str, by_torch.ParallelStyle] = {
        "transformer.wte": by_torch.RowwiseParallel(input_layouts=Replicate()),
        # It becomes one DTensor, so that the gradients of q, k and v are added up in one message.
        "transformer.h.*.attn.c_attn": by_torch.PrepareModuleInput(
            input_layouts=Replicate(), desired_input_layouts=Replicate()
        ),
        "transformer.h.*.attn.c_attn.*": by_torch.ColwiseParallel(),
        "transformer.h.*.attn.c_proj": by_torch.RowwiseParallel(),
        "transformer.h.*.mlp.c_fc": by_torch.ColwiseParallel(),
        "transformer.h.*.mlp.c_proj": by_torch.RowwiseParallel(),
        "lm_head": by_torch.ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    for block in body.h:
        _use_linears(block)
    by_torch.parallelize_module(model, comm.make_mesh(tp=comm.world_size())["tp"], plan)
    model.lm_head.weight = body.wte.weight  # tied again
    model.loss_function = partial(_sharded_loss, model.loss_function)
    return model


class _QueryKeyValue(nn.Module):
    """The three linear layers in a `c_attn`, whose outputs lie side by side."""

    def __init__(self, whole: Conv1D) -> None:
        super().__init__()
        parts = zip(whole.weight.chunk(3, 1), whole.bias.chunk(3), strict=True)
        self.q, self.k, self.v = (_linear(weight, bias) for weight, bias in parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.q(x), self.k(x), self.v(x)], -1)


def _use_linears(block: Any) -> None:
    attention, mlp = block.attn, block.mlp
    attention.c_attn = _QueryKeyValue(attention.c_attn)
    attention.c_proj, mlp.c_fc, mlp.c_proj = (
        _linear(whole.weight, whole.bias) for whole in (attention.c_proj, mlp.c_fc, mlp.c_proj)
    )
    attention.num_heads //= comm.world_size()
    attention.split_size //= comm.world_size()


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    """A linear layer with the weight of a `Conv1D`, which is (in, out)."""
    linear = nn.Linear(weight.shape[0], weight.shape[1], device="meta")
    linear.weight = nn.Parameter(weight.detach().t().contiguous(), requires_grad=weight.requires_grad)
    linear.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return linear


def _sharded_loss(loss: Callable[..., Any], logits: torch.Tensor, labels: torch.Tensor, **options: Any) -> torch.Tensor:
    """The model's own loss, from logits that are a DTensor split over the vocabulary."""
    with by_torch.loss_parallel():
        return loss(logits, labels, **options).to_local()


# In each table the first way is ours and the second PyTorch's.
DATA_PARALLEL: dict[str, Way] = {
    "DataParallel": DataParallel,
    "torch DDP": DistributedDataParallel,
    "no communication": _not_shared,
    "DataParallel over sockets": partial(DataParallel, strategy="flat"),
    "one all-reduce per parameter": _not_shared,
}
FULLY_SHARDED: dict[str, Way] = {
    "FullyShardedDataParallel": FullyShardedDataParallel,
    "torch FSDP2": _sharded_by_torch,
    "no communication": _not_shared,
    "FullyShardedDataParallel over sockets": partial(FullyShardedDataParallel, share_memory=False),
}
TENSOR_PARALLEL: dict[str, Way] = {
    "tensor_parallel": _split,
    "torch DTensor": tensor_parallel_by_pytorch,
    "whole model on every rank": _not_shared,
}
