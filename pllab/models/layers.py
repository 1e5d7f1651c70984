"""The layers of a GPT-2 as a chain for a pipeline, each with one value in and one value out.

    Embed   input_ids (rows, time)            -> hidden (rows, time, width)
    Block   hidden                            -> hidden
    Head    hidden                            -> logits (rows, time, vocabulary)
            (hidden, labels)                  -> loss sums (rows,), one per row

The head and the loss are layers like the others. Outside the pipe they would run alone on one device while the others
wait: with a vocabulary of 50,257 they cost as much as several blocks. Labels travel along with the hidden states. The
layers hold the model's own modules, so they add no parameters.
"""

from collections.abc import Sequence

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.masking_utils import create_causal_mask
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

from pllab.parallel.tensor import token_losses

Value = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class Embed(nn.Module):
    """Token plus position embedding: ids (rows, time) -> hidden (rows, time, width)."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.wte, self.wpe, self.drop = model.transformer.wte, model.transformer.wpe, model.transformer.drop

    def forward(self, value: Value) -> Value:
        """Embed the ids and pass labels on."""
        input_ids, labels = _parts(value)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        return _joined(self.drop(self.wte(input_ids) + self.wpe(positions)), labels)


class Block(nn.Module):
    """A transformer block: hidden (rows, time, width) -> hidden; the tuple a block may return is opened here."""

    def __init__(self, block: GPT2Block, config: GPT2Config) -> None:
        super().__init__()
        self.block = block
        self._config = config

    def forward(self, value: Value) -> Value:
        """Run the block under a causal mask and pass labels on."""
        hidden, labels = _parts(value)
        # The last two are the padding mask and the cache, whose name changed in transformers 5.24.
        # None if the kernel masks by itself (sdpa), a (1, 1, time, time) tensor if it does not (eager).
        mask = create_causal_mask(self._config, hidden, None, None)
        result = self.block(hidden, attention_mask=mask)
        return _joined(result[0] if isinstance(result, tuple) else result, labels)


class Head(nn.Module):
    """Final norm, language-model head and, when labels come along, the loss summed over each row's targets."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.ln_f, self.lm_head = model.transformer.ln_f, model.lm_head

    def forward(self, value: Value) -> torch.Tensor:
        """Logits (rows, time, vocabulary), or with labels the summed losses (rows,)."""
        hidden, labels = _parts(value)
        hidden = self.ln_f(hidden)  # under sequence parallelism it gathers the time, so the cut comes after it
        if labels is None:
            return self.lm_head(hidden)
        # The token at time t predicts the label at t + 1; the last token predicts nothing.
        return token_losses(self.lm_head, self.lm_head(hidden[:, :-1]), labels[:, 1:]).sum(1)


def layers_of(model: GPT2LMHeadModel) -> list[nn.Module]:
    """The chain of a GPT-2: embedding, one layer per block, head."""
    blocks = [Block(block, model.config) for block in model.transformer.h if isinstance(block, GPT2Block)]
    return [Embed(model), *blocks, Head(model)]


def layer_costs(config: GPT2Config, time: int = 128) -> list[float]:
    """Multiplications per token of each layer of the chain, for `pllab.pipeline.balance`.

    Example: 4 blocks of width 64 and a vocabulary of 2048 at 128 tokens -> the head costs 2.5 blocks.

    A block multiplies 12 width^2 weights, and its attention the keys and the values of `time` tokens; the head
    multiplies width x vocabulary, and its loss is taken as 16 for each entry of the vocabulary, an estimate; a look-up
    in the embedding costs almost nothing.
    """
    width = config.n_embd
    block = 12.0 * width**2 + 2.0 * time * width
    head = float(width * config.vocab_size) + 16.0 * config.vocab_size
    return [2.0 * width, *[block] * config.n_layer, head]


def cut(layers: Sequence[nn.Module], sizes: Sequence[int]) -> list[nn.Sequential]:
    """Cut a chain into consecutive stages of the given numbers of layers."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [nn.Sequential(*layers[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _parts(value: Value) -> tuple[torch.Tensor, torch.Tensor | None]:
    return value if isinstance(value, tuple) else (value, None)


def _joined(hidden: torch.Tensor, labels: torch.Tensor | None) -> Value:
    return hidden if labels is None else (hidden, labels)
