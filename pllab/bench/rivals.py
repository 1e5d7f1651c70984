"""Ours against what a user would pick instead: PyTorch's class for the same job, all ways alternating in one run.

    data-parallel   DataParallel               torch DDP, and no communication at all
    fsdp            FullyShardedDataParallel   torch FSDP2
    tensor          tensor_parallel            torch DTensor, and the whole model on every rank
    pipeline        Pipe                       torch GPipe, one lane, all cores, and what the machine allows

Two ways are compared only if both computed the same loss or the same gradients.

All ways of a pipeline alternate on two ranks, because PyTorch's needs two; while rank 0 measures a way that runs in one
process, rank 1 waits. The yardstick is what the machine allows: both lanes run their halves at the same time without
waiting, and the time is multiplied by (m + p - 1) / m for the clock's bubble.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor import parallel as by_torch
from torch.nn.parallel import DistributedDataParallel
from transformers.pytorch_utils import Conv1D

from pllab import comm
from pllab.bench.measure import Comparison, Run, check_same_losses, compare
from pllab.bench.workloads import Layers, PipelineWorkload, Workload, row_loss
from pllab.comm.devices import compute_threads, is_gpu, num_cores
from pllab.models import GPT2LMHeadModelParallel, tensor_parallel
from pllab.parallel import DataParallel, FullyShardedDataParallel, average_gradients
from pllab.pipeline import Pipe

SEQUENTIAL = "sequential micro-batches, one device"
PIPE = "Pipe"
FREE = "both stages, nobody waits"
PLAIN = "plain model, all cores"
TORCH = "torch GPipe, 2 ranks"

_NUM_RANKS = 2
_DEADLINE_S = 1800.0  # of a whole bench
_GRADIENTS, _SPLIT, _PIPELINE = Workload(), Workload(batch_size=4, num_tokens=128), PipelineWorkload()


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


def bench_data_parallel(workload: Workload = _GRADIENTS, repeats: int = 9, warmup: int = 1) -> Rivals:
    """Measure one step (forward, backward, average, AdamW) of GPT-2 by ways to average gradients, on two ranks.

    Example: `print(bench_data_parallel().table())` takes about half a minute on two cores.

    Args:
        workload: the model and the batch per rank; by default 6 layers of 256, 1 x 192 tokens, which is
            little to compute for 21 MB of gradients, so that sending them shows.
        repeats: rounds that count.
        warmup: rounds before.

    Raises:
        RankError: a check of the comparison failed, the ways did not train the same model, or it took over 30 minutes.
    """
    return _alternating(DATA_PARALLEL, workload, repeats, warmup)


def bench_fsdp(workload: Workload = _GRADIENTS, repeats: int = 9, warmup: int = 1) -> Rivals:
    """Measure one step of GPT-2 with parameters, gradients and optimizer sharded over two ranks, against FSDP2.

    Example: `print(bench_fsdp().table())` takes about half a minute on two cores.

    Args:
        workload: the model and the batch per rank.
        repeats: rounds that count.
        warmup: rounds before.

    Raises:
        RankError: as for `bench_data_parallel`.
    """
    return _alternating(FULLY_SHARDED, workload, repeats, warmup)


def bench_tensor(workload: Workload = _SPLIT, repeats: int = 9, warmup: int = 2) -> Rivals:
    """Measure forward and backward of a GPT-2 whose layers are split over two ranks, with the loss on split logits.

    Example: `print(bench_tensor().table())` takes about half a minute on two cores. All ranks see the same batch.
    Updates are left out of the time: they work on slices without a message.

    Args:
        workload: the model and its batch.
        repeats: rounds that count.
        warmup: rounds before.

    Raises:
        RankError: as for `bench_data_parallel`.
    """
    return _alternating(TENSOR_PARALLEL, workload, repeats, warmup, is_split=True)


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


def _alternating(
    ways: dict[str, Way], workload: Workload, repeats: int, warmup: int, *, is_split: bool = False
) -> Rivals:
    given = (ways, workload, repeats, warmup, is_split)
    return comm.launch(_alternate, _NUM_RANKS, *given, timeout_s=_DEADLINE_S)[0]


def _alternate(
    rank: int, world_size: int, ways: dict[str, Way], workload: Workload, repeats: int, warmup: int, is_split: bool
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
    comparison = compare(steps, repeats, warmup, baseline=theirs, tokens=tokens, before=before, in_step=True)
    check_same_work({name: each.loss.item() for name, each in made.items()}, theirs)
    reason = getattr(made[ours].model, "reason", "")
    what, whose = ("forward and backward", "on all") if is_split else ("one training step", "each")
    said = (
        f"{what} of GPT-2 ({workload.num_layers} layers, width {workload.width}) on {world_size} ranks, "
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


def bench_pipeline(workload: PipelineWorkload = _PIPELINE, repeats: int = 9) -> Rivals:
    """Measure one forward and backward of the layers in every way.

    Example: `print(bench_pipeline().table())` takes about a minute on two cores.

    Args:
        workload: layers and batch; by default 8 blocks of 256, 16 x 128 tokens in 8 micro-batches.
        repeats: rounds that count.

    Raises:
        RankError: a check of the comparison failed, the ways had other gradients, or it took over 30 minutes.
    """
    given = (workload, repeats)
    comparison = comm.launch(_pipelines_alternate, _NUM_RANKS, *given, backend="gloo", timeout_s=_DEADLINE_S)[0]
    return pipeline_rivals(workload, comparison)


def pipeline_rivals(workload: PipelineWorkload, comparison: Comparison) -> Rivals:
    """The result, with what follows from the seconds: the share of what the machine allows, and the speed-up."""
    m = workload.num_microbatches
    allowed = comparison.ratio(FREE, PIPE).scaled((m + 1) / m)
    about = (
        f"forward and backward of {workload.num_layers} GPT-2 blocks of width {workload.width}, "
        f"{workload.batch_size} x {workload.num_tokens} tokens in {m} micro-batches, two stages. "
        f"What the machine allows ({FREE}, times {m + 1}/{m}) over {PIPE}: {allowed.text(3)}. "
        f"One lane over {PIPE}: {comparison.ratio(SEQUENTIAL, PIPE).text(3)}."
    )
    return Rivals(about, workload, PIPE, TORCH, comparison)


def _pipelines_alternate(rank: int, world_size: int, work: PipelineWorkload, repeats: int) -> Comparison:
    """Time all ways on rank 0; rank 1 takes part only in PyTorch's pipeline, and waits otherwise."""
    layers, lanes = Layers(work), ["cpu:0", "cpu:1"]
    stages = layers.stages(world_size)
    with (
        ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        Pipe.from_partitions(stages, lanes, num_microbatches=work.num_microbatches) as pipe,
    ):
        with torch.no_grad():
            middle = [stages[0](part) for part in layers.parts]
        ways: dict[str, Run] = {
            SEQUENTIAL: partial(_in_turn, layers),
            PIPE: lambda: row_loss(pipe(layers.batch)).backward(),
            FREE: lambda: list(pool.map(_alone, stages, (layers.parts, middle), (torch.sum, row_loss))),
            PLAIN: partial(_at_once, layers),
        }
        if rank == 0:
            check_same_gradients(layers.whole, ways[SEQUENTIAL], ways[PIPE], ways[PLAIN])
        else:
            ways = dict.fromkeys(ways, lambda: None)
        ways[TORCH] = _by_pytorch(rank, stages, layers)
        return compare(ways, repeats, num_devices=world_size, tokens=work.tokens, in_step=True)


def _in_turn(layers: Layers) -> None:
    """One micro-batch after another: the memory of a pipeline without its second device."""
    for part in layers.parts:
        (row_loss(layers.whole(part)) / len(layers.parts)).backward()


def _alone(stage: nn.Module, parts: Sequence[torch.Tensor], loss: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """All forwards of a stage, then all its backwards, as a lane does in GPipe, on inputs computed in advance."""
    for output in reversed([stage(part.detach().requires_grad_()) for part in parts]):
        loss(output).backward()


def _at_once(layers: Layers) -> None:
    """The whole batch, with every core."""
    with compute_threads(num_cores()):
        row_loss(layers.whole(layers.batch)).backward()


def _by_pytorch(rank: int, stages: Sequence[nn.Module], layers: Layers) -> Run:
    """PyTorch's GPipe, with one stage on each rank."""
    stage = PipelineStage(stages[rank], rank, len(stages), torch.device("cpu"))
    schedule = ScheduleGPipe(stage, len(layers.parts), row_loss)
    if rank == 0:
        return partial(schedule.step, layers.batch)
    return partial(schedule.step, target=torch.zeros(len(layers.batch)))


def check_same_gradients(model: nn.Module, *ways: Run) -> None:
    """Refuse to time ways whose gradients differ from those of the first.

    Raises:
        AssertionError: a gradient differs, or a way leaves one out.
    """
    right: list[torch.Tensor | None] = []
    for step in ways:
        model.zero_grad()
        step()
        gradients = [parameter.grad for parameter in model.parameters()]
        right = right or gradients
        torch.testing.assert_close(gradients, right, rtol=1e-4, atol=1e-4)


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
