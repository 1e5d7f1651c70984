"""What tensor parallelism costs: forward and backward of split layers, ours against PyTorch's DTensor.

Two models: a stack of MLPs, which is all matrices, and a GPT-2 with its embedding, attention, head and loss. All ways
alternate within one group of ranks and start from the same weights; the loss and the norm of all gradients have to
agree. Optimizers are left out: they work on slices without a message, and PyTorch's pays for DTensors there once more.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.distributed.tensor.parallel import loss_parallel as sharded_loss
from torch.nn import functional

from pllab import comm
from pllab.accelerator import Backend
from pllab.arguments import whole_number
from pllab.bench.measure import Comparison, check_rounds, check_same_gradients, compare
from pllab.bench.workloads import Workload
from pllab.models import tensor_parallel, tensor_parallel_by_pytorch
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
        backend: "gloo" or "nccl"; by default planned from ranks and GPUs.
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
