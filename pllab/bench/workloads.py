"""What the benches run: a GPT-2 and a batch, whole for data parallelism and as a chain of layers for pipelines.

Weights and batches are the same in every process and at every call, so that results of several ways can be compared.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pllab.models import GPT2LMHeadModelParallel, gpt2_config, layers_of
from pllab.models.layers import cut
from pllab.pipeline import balance


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A GPT-2 and the batch of one rank: `Workload(num_layers=12, width=768, num_heads=12)` is GPT-2 124M.

    The default computes little for its 21 MB of gradients, so that the cost of sending them shows.
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
    """The blocks of a GPT-2, and a batch in micro-batches of one size."""

    num_layers: int = 8
    """Transformer blocks."""
    batch_size: int = 16
    """Rows of the batch."""
    num_tokens: int = 128
    """Tokens of a row."""
    num_microbatches: int = 8
    """Micro-batches that the batch is cut into; they divide its rows."""


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
