"""What the benches run: a GPT-2 and a batch, whole for data parallelism and as a chain of layers for pipelines.

Weights and batches are the same in every process and at every call, so that results of several ways can be compared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as torch_schedules

from pllab.arguments import whole_number
from pllab.comm.devices import synchronize
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layer_costs, layers_of
from pllab.models.layers import cut
from pllab.pipeline import balance
from pllab.pipeline.split import scatter, single

Step = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A GPT-2 and the batch of one rank: `Workload(num_layers=12, width=768, num_heads=12)` is GPT-2 124M.

    The default computes little for its 21 MB of gradients, so that the cost of sending them shows.

    Raises:
        ValueError: a size is below 1, or the heads do not divide the width.
    """

    num_layers: int = 6
    """Transformer blocks."""
    width: int = 256
    """Width of the GPT-2."""
    num_heads: int = 4
    """Attention heads; they divide the width."""
    vocab_size: int = 2048
    """Entries of the vocabulary."""
    batch_size: int = 1
    """Rows of the batch."""
    num_tokens: int = 192
    """Tokens of a row."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number type of parameters and activations."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in ("dtype", "whole_model"):
                whole_number(name, value)
        if self.width % self.num_heads:
            raise ValueError(f"width is {self.width}, which {self.num_heads} heads do not divide; give a multiple")

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return self.batch_size * self.num_tokens

    def model(self, kind: str) -> GPT2LMHeadModelParallel:
        """The GPT-2 with random weights, without dropout, on "cpu" or "cuda"."""
        torch.manual_seed(0)
        sizes = {"n_layer": self.num_layers, "n_embd": self.width, "n_head": self.num_heads}
        config = gpt2_config("tiny", self.vocab_size, n_positions=self.num_tokens, use_cache=False, **sizes)
        model = GPT2LMHeadModelParallel(config)
        nn.Module.to(model, kind, getattr(torch, self.dtype))
        return model


@dataclass(frozen=True, kw_only=True)
class PipelineWorkload(Workload):
    """Layers and a batch in micro-batches: 8 GPT-2 blocks, or with `whole_model` embedding and head too.

    Example: `PipelineWorkload(whole_model=True, num_layers=12, width=768, num_heads=12, vocab_size=50257,
    dtype="bfloat16")` is a step of GPT-2 124M.

    Raises:
        ValueError: as `Workload`, or the batch cannot be cut into micro-batches of one size.
    """

    num_layers: int = 8
    """Transformer blocks."""
    batch_size: int = 16
    """Rows of the batch."""
    num_tokens: int = 128
    """Tokens of a row."""
    num_microbatches: int = 8
    """Micro-batches that the batch is cut into."""
    whole_model: bool = False
    """Whether embedding, head and loss are layers too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.num_microbatches:
            raise ValueError(
                f"batch_size is {self.batch_size} and cannot be cut into {self.num_microbatches} micro-batches of one "
                "size; give a multiple of num_microbatches"
            )

    @property
    def rows(self) -> int:
        """Rows of a micro-batch."""
        return self.batch_size // self.num_microbatches


class Layers:
    """The layers of a workload in order, and a batch for them, also in micro-batches."""

    def __init__(self, work: PipelineWorkload, kind: str = "cpu") -> None:
        model = work.model(kind)
        inside = slice(None) if work.whole_model else slice(1, -1)
        self.work, self.costs = work, layer_costs(model.config, work.num_tokens)[inside]
        self.whole = nn.Sequential(*layers_of(model)[inside])
        ids = torch.randint(work.vocab_size, (work.batch_size, work.num_tokens), device=kind)
        hidden = torch.randn(*ids.shape, work.width, device=kind, dtype=model.dtype)
        self.batch = (ids, ids.clone()) if work.whole_model else (hidden,)
        self.parts = [single(part) for part in scatter(self.batch, work.rows)]

    def stages(self, count: int) -> list[nn.Sequential]:
        """The layers in this many stages, of costs as equal as whole layers allow."""
        return cut(list(self.whole), balance(self.costs, count))

    def sequential(self) -> None:
        """One micro-batch after the other: the memory of a pipeline without its second device."""
        for part in self.parts:
            (row_loss(self.whole(part)) / len(self.parts)).backward()

    def torch_step(self, name: str, stages: Mapping[int, nn.Module], num_stages: int) -> Step:
        """One step of PyTorch's own schedule of this class over this rank's stages, by number."""
        device, targets = torch.device("cpu"), torch.zeros(self.work.batch_size)
        mine = [PipelineStage(module, number, num_stages, device) for number, module in stages.items()]
        argument = mine if len(mine) > 1 else mine[0]
        schedule = getattr(torch_schedules, name)(argument, self.work.num_microbatches, row_loss)
        inputs = self.batch if 0 in stages else ()
        return partial(schedule.step, *inputs, **({"target": targets} if num_stages - 1 in stages else {}))

    def gradient_norms(self, step: Step) -> torch.Tensor:
        """The norm of every gradient after a step, 0 if there is none."""
        self.whole.zero_grad()
        step()
        synchronize()
        gradients = [parameter.grad for parameter in self.whole.parameters()]
        return torch.stack([torch.tensor(0.0) if g is None else g.float().norm().cpu() for g in gradients])


def row_loss(output: torch.Tensor, _targets: torch.Tensor | None = None) -> torch.Tensor:
    """A mean over the rows, so the mean over equal micro-batches is the loss of the batch."""
    return output.float().square().sum() / len(output)
