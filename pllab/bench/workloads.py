"""What the benches run: a GPT-2 and a batch, whole for data parallelism and as a chain of layers for pipelines.

Weights and batches are the same in every process and at every call, so that results of several ways can be compared.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pllab.arguments import require, whole_number
from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of
from pllab.models.layers import cut
from pllab.pipeline import balance


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

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            whole_number(name, value)
        require(
            self.width % self.num_heads == 0,
            f"width is {self.width}, which {self.num_heads} heads do not divide; give a multiple",
        )

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return self.batch_size * self.num_tokens

    def model(self, **config: Any) -> GPT2LMHeadModelParallel:
        """The GPT-2 with random weights, without dropout; `config` sets other fields."""
        torch.manual_seed(0)
        sizes = {"n_layer": self.num_layers, "n_embd": self.width, "n_head": self.num_heads}
        fields = {"n_positions": self.num_tokens, "use_cache": False} | sizes | config
        return GPT2LMHeadModelParallel(gpt2_config("tiny", self.vocab_size, **fields))

    def ids(self, seed: int) -> torch.Tensor:
        """Random token ids (rows, time), the same for the same seed."""
        shape, generator = (self.batch_size, self.num_tokens), torch.Generator().manual_seed(seed)
        return torch.randint(self.vocab_size, shape, generator=generator)


@dataclass(frozen=True, kw_only=True)
class PipelineWorkload(Workload):
    """The blocks of a GPT-2 and a batch in micro-batches: `PipelineWorkload(num_layers=12, width=768, num_heads=12)`.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.batch_size % self.num_microbatches == 0,
            f"batch_size is {self.batch_size} and cannot be cut into {self.num_microbatches} micro-batches of one "
            "size; give a multiple of num_microbatches",
        )


class Layers:
    """The blocks of a workload in order, and a batch for them (rows, time, width), whole and in micro-batches."""

    def __init__(self, work: PipelineWorkload) -> None:
        self.whole = nn.Sequential(*layers_of(work.model())[1:-1])
        self.batch = torch.randn(work.batch_size, work.num_tokens, work.width)
        self.parts = self.batch.chunk(work.num_microbatches)

    def stages(self, count: int) -> list[nn.Sequential]:
        """The blocks in this many stages, as equal as whole blocks allow."""
        return cut(list(self.whole), balance([1.0] * len(self.whole), count))


def row_loss(output: torch.Tensor, _targets: torch.Tensor | None = None) -> torch.Tensor:
    """A mean over the rows, so the mean over equal micro-batches is the loss of the batch."""
    return output.square().sum() / len(output)
