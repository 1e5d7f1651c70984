"""What tensor parallelism costs: forward and backward of split layers, ours against PyTorch's DTensor.

Two models: a stack of MLPs, which is all matrices, and a GPT-2 with its embedding, attention, head and loss. All ways
alternate within one group of ranks and start from the same weights; the loss and the norm of all gradients have to
agree. Optimizers are left out: they work on slices without a message, and PyTorch's pays for DTensors there once more.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel import loss_parallel as sharded_loss
from torch.nn import functional
from transformers import GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from pllab import comm
from pllab.accelerator import Backend
from pllab.arguments import whole_number
from pllab.bench.measure import Comparison, check_rounds, check_same_gradients, compare
from pllab.bench.workloads import Workload
from pllab.models import tensor_parallel
from pllab.models.slices import check_can_be_split
from pllab.parallel import ColumnParallelLinear, RowParallelLinear
from pllab.parallel.tensor import split_of
from pllab.show import Figure

OURS = "tensor_parallel"
DTENSOR = "torch DTensor"
PLAIN = "whole model on every rank"
WAYS = (OURS, DTENSOR, PLAIN)
MLP, GPT2 = "MLPs", "GPT-2"

_WIDTH, _HIDDEN = 512, 2048

DEFAULT_WORKLOAD = Workload(batch_size=4, num_tokens=128)


@dataclass(frozen=True)
class TensorBench:
    """Times of forward and backward in all ways for both models, and what was measured."""

    workload: Workload
    mlp: Mapping[str, int]
    world_size: int
    comparisons: Mapping[str, Comparison]

    def ratio_to_dtensor(self, model: str) -> float:
        """Median of our time over DTensor's; below 1 is faster."""
        return self.comparisons[model].ratio(OURS, DTENSOR).median

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {
            "workload": asdict(self.workload),
            "mlp": dict(self.mlp),
            "world_size": self.world_size,
            "ratio_to_dtensor": {model: self.ratio_to_dtensor(model) for model in self.comparisons},
            "models": {model: comparison.to_json() for model, comparison in self.comparisons.items()},
        }

    def picture(self) -> Figure:
        """The times of the GPT-2 as bars, with the quartiles as whiskers."""
        return self.comparisons[GPT2].picture("Forward and backward of a GPT-2, by the way its layers are split")

    def table(self) -> str:
        """The result as text: times and ratios of each model, then the figures that count."""
        tables = [f"{model}\n{comparison.table()}" for model, comparison in self.comparisons.items()]
        ratios = [f"{OURS} to {DTENSOR}, {model}: {self.ratio_to_dtensor(model):.3f}" for model in self.comparisons]
        return "\n".join([*tables, *ratios])


def bench_tensor(
    workload: Workload = DEFAULT_WORKLOAD,
    *,
    mlp_pairs: int = 4,
    mlp_rows: int = 512,
    world_size: int = 2,
    repeats: int = 9,
    warmup: int = 2,
    backend: Backend | None = None,
    timeout_s: float = 600.0,
) -> TensorBench:
    """Measure forward and backward of MLPs and of a GPT-2 whose layers are split over the ranks.

    Example: `print(bench_tensor().table())` takes about a minute on two cores.

    Args:
        workload: the GPT-2 and its batch, which all ranks see; by default 6 layers of 256, 4 x 128 tokens.
        mlp_pairs: MLPs of 512, 2048 and 512 features, one after the other.
        mlp_rows: rows that go through them.
        world_size: the number of ranks, each with one thread on a CPU or one GPU.
        repeats: rounds that count.
        warmup: rounds before.
        backend: gloo or nccl; by default planned from ranks and GPUs.
        timeout_s: the most seconds the measurement may take.

    Raises:
        ValueError: there are no rounds, or a size is below 1 or cannot be split.
        Implausible: a check of the comparison failed, or the ways did not compute the same gradients.
    """
    check_rounds(repeats, warmup)
    sizes = {"pairs": whole_number("mlp_pairs", mlp_pairs), "rows": whole_number("mlp_rows", mlp_rows)}
    arguments = (workload, sizes, repeats, warmup)
    comparisons = comm.launch(_measure, world_size, *arguments, backend=backend, timeout_s=timeout_s)[0]
    return TensorBench(workload, sizes | {"width": _WIDTH, "hidden": _HIDDEN}, world_size, comparisons)


def _measure(
    rank: int, world_size: int, workload: Workload, sizes: Mapping[str, int], repeats: int, warmup: int
) -> dict[str, Comparison]:
    """Time all ways in turn, in step with the other ranks, first for the MLPs and then for the GPT-2."""
    del rank
    device, mesh = comm.own_device().type, comm.make_mesh(tp=world_size)
    models: dict[str, dict[str, _Model]] = {
        MLP: {way: _Mlps(way, mesh, device, **sizes) for way in WAYS},
        GPT2: {way: _Gpt2(way, mesh, device, workload) for way in WAYS},
    }
    tokens = {MLP: sizes["rows"], GPT2: workload.tokens}
    comparisons = {}
    for name, ways in models.items():
        tolerance = 1e-3 if name == MLP or workload.dtype == "float32" else 5e-2
        check_same_gradients({way: model.outcome() for way, model in ways.items()}, PLAIN, tolerance, tolerance)
        steps: dict[str, Callable[[], object]] = {way: model.step for way, model in ways.items()}
        comparisons[name] = compare(steps, repeats, warmup, baseline=DTENSOR, tokens=tokens[name], in_step=True)
    return comparisons


class _Model:
    """A model that is split in one way, with a batch; the same weights and batch in every way."""

    model: nn.Module
    loss: torch.Tensor

    def step(self) -> None:
        """Forward and backward."""
        raise NotImplementedError

    def outcome(self) -> torch.Tensor:
        """Loss and norm of all gradients of the whole model, after one step."""
        self.step()
        total = self.loss.detach().double().square()
        for parameter in self.model.parameters():
            assert parameter.grad is not None
            grad = parameter.grad.full_tensor() if hasattr(parameter.grad, "full_tensor") else parameter.grad
            square = grad.double().square().sum()
            if split_of(parameter):
                comm.all_reduce(square)
            total = total + square
        return torch.stack([self.loss.detach().double(), total.sqrt()]).cpu()


class _Mlps(_Model):
    """MLPs of 512, 2048 and 512 features with a residual stream, on rows that need a gradient as in a deeper model."""

    def __init__(self, way: str, mesh: comm.Mesh, device: str, pairs: int, rows: int) -> None:
        torch.manual_seed(0)
        layers = [_Mlp() for _ in range(pairs)]
        self.model = nn.Sequential(*layers).to(device)
        self.x = torch.randn(rows, _WIDTH, device=device, requires_grad=True)
        if way == OURS:
            for mlp in layers:
                mlp.up = ColumnParallelLinear.from_whole(mlp.up.weight, mlp.up.bias)
                mlp.down = RowParallelLinear.from_whole(mlp.down.weight, mlp.down.bias)
        elif way == DTENSOR:
            plan: dict[str, ParallelStyle] = {"*.up": ColwiseParallel(), "*.down": RowwiseParallel()}
            parallelize_module(self.model, mesh["tp"], plan)

    def step(self) -> None:
        """A loss of the size of one number."""
        self.model.zero_grad()
        self.loss = self.model(self.x).square().mean()
        self.loss.backward()


class _Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up: Any = nn.Linear(_WIDTH, _HIDDEN)
        self.down: Any = nn.Linear(_HIDDEN, _WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.gelu(self.up(x)))


class _Gpt2(_Model):
    """The GPT-2 of a workload with the loss on split logits."""

    def __init__(self, way: str, mesh: comm.Mesh, device: str, workload: Workload) -> None:
        self.model = workload.model(device)
        self._is_dtensor = way == DTENSOR
        if way != PLAIN:
            split = tensor_parallel_by_pytorch if self._is_dtensor else tensor_parallel
            split(self.model, mesh=mesh, loss_parallel=True)
        shape = (workload.batch_size, workload.num_tokens)
        self.tokens = torch.randint(workload.vocab_size, shape, generator=torch.Generator().manual_seed(1)).to(device)

    def step(self) -> None:
        """The language model's loss."""
        self.model.zero_grad()
        self.loss = self.model(input_ids=self.tokens, labels=self.tokens).loss
        if self._is_dtensor:
            with sharded_loss():
                self.loss.backward()
        else:
            self.loss.backward()


def tensor_parallel_by_pytorch(
    model: GPT2LMHeadModel, *, mesh: comm.Mesh, loss_parallel: bool = False
) -> GPT2LMHeadModel:
    """Split a GPT-2 over the tp axis of the mesh with PyTorch's own classes; in place, and called like ours.

    Example; with `loss_parallel`, and only then, backward has to be inside PyTorch's context of that name:

        from torch.distributed.tensor.parallel import loss_parallel

        model = tensor_parallel_by_pytorch(model, mesh=mesh, loss_parallel=True)
        loss = model(input_ids, labels=labels).loss
        with loss_parallel():
            loss.backward()

    Parameters are DTensors. PyTorch splits `nn.Linear` alone, so every `Conv1D` becomes one, with its weight
    transposed, and `c_attn` becomes three, `c_attn.q`, `.k` and `.v`. Ranks that are seeded equally draw equal masks
    for their heads, so give attention no dropout.

    Raises:
        ValueError: as `tensor_parallel`.

    Source: torch.distributed.tensor.parallel.
    """
    group = comm.group_of(mesh, "tp")
    check_can_be_split(model, group)
    body: Any = model.transformer
    is_tied = model.lm_head.weight is body.wte.weight
    plan: dict[str, ParallelStyle] = {
        "transformer.wte": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(
            output_layouts=Shard(-1) if loss_parallel else Replicate(), use_local_output=not loss_parallel
        ),
    }
    for number, block in enumerate(body.h):
        _use_linears(block, group)
        plan |= {f"transformer.h.{number}.{name}": style for name, style in _block_plan().items()}
    parallelize_module(model, mesh["tp"], plan)
    if is_tied:
        model.lm_head.weight = body.wte.weight
    if loss_parallel:
        model.loss_function = partial(_sharded_loss, model.loss_function)
    return model


def _block_plan() -> dict[str, ParallelStyle]:
    # The input of c_attn becomes one DTensor, so that the gradients of q, k and v are added up in one message.
    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    columns = {f"attn.c_attn.{name}": ColwiseParallel() for name in "qkv"} | {"mlp.c_fc": ColwiseParallel()}
    return {"attn.c_attn": whole, "attn.c_proj": RowwiseParallel(), "mlp.c_proj": RowwiseParallel(), **columns}


class _QueryKeyValue(nn.Module):
    """The three linear layers in a `c_attn`, whose outputs stand side by side."""

    def __init__(self, whole: Conv1D) -> None:
        super().__init__()
        parts = zip(whole.weight.chunk(3, 1), whole.bias.chunk(3), strict=True)
        self.q, self.k, self.v = (_linear(weight, bias) for weight, bias in parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.q(x), self.k(x), self.v(x)], -1)


def _use_linears(block: Any, group: comm.Group | None) -> None:
    attention, mlp = block.attn, block.mlp
    attention.c_attn = _QueryKeyValue(attention.c_attn)
    attention.c_proj, mlp.c_fc, mlp.c_proj = (
        _linear(whole.weight, whole.bias) for whole in (attention.c_proj, mlp.c_fc, mlp.c_proj)
    )
    attention.num_heads //= comm.world_size(group)
    attention.split_size //= comm.world_size(group)


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    """A linear layer with the weight of a `Conv1D`, which is (in, out)."""
    linear = nn.Linear(weight.shape[0], weight.shape[1], device="meta")
    linear.weight = nn.Parameter(
        weight.detach().t().clone(memory_format=torch.contiguous_format), requires_grad=weight.requires_grad
    )
    linear.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return linear


def _sharded_loss(loss: Callable[..., Any], logits: torch.Tensor, labels: torch.Tensor, **options: Any) -> torch.Tensor:
    """The model's own loss, from logits that are a DTensor split over the vocabulary."""
    with sharded_loss():
        return loss(logits, labels, **options).to_local()
