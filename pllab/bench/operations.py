"""The operations of one GPT-2 layer, of its embedding and of its optimizer, each with what it computes and moves.

A count of work needs a convention. Here a matrix product of m x k by k x n numbers is 2mkn FLOP, as everywhere.
Other operations are counted by number: one for each addition, multiplication, comparison, root or exponential.
Bytes are those of the tensors that go in and come out, once each: a kernel cannot move fewer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional

SOFTMAX_FLOPS = 5  # per number: compare, subtract, exponential, add, divide
LAYER_NORM_FLOPS = 8  # add, subtract, square, add; divide, and with weight and bias multiply, add; one for the root
GELU_FLOPS = 9  # a cube, its factor, add, factor, tanh, add one, multiply by the number and by a half
ADAMW_FLOPS = 14  # decay 1, first moment 3, second moment 4, corrected root 3, update 3


@dataclass(frozen=True)
class Operation:
    """Something a training step does: how much it computes and moves, and a call that does it.

    Example: `Operation(flops=2 * 4 * 5 * 6, num_bytes=4 * (4 * 5 + 5 * 6 + 4 * 6), run=lambda: a @ b)` is a product of
    4 x 5 by 5 x 6 numbers in float32.
    """

    flops: int
    num_bytes: int
    run: Callable[[], object]

    @property
    def intensity(self) -> float:
        """FLOP for each byte moved."""
        return self.flops / self.num_bytes


def gpt2_operations(
    num_rows: int = 8, num_tokens: int = 256, width: int = 768, num_heads: int = 12, vocab_size: int = 50257
) -> dict[str, Operation]:
    """The forward operations of a GPT-2 layer by name, its embedding, and AdamW on one layer's weights.

    Example: `gpt2_operations()["GELU"].intensity` is 1.125: 9 FLOP for 4 bytes in and 4 bytes out.

    The sizes are those of GPT-2 124M and a batch of 8 rows; `width` is the width of the model and `num_heads` divides
    it. The tensors together are larger than most caches, and a round over all operations leaves each input cold.
    """
    x, table = _noise(num_rows * num_tokens, width), _noise(vocab_size, width)
    ids = torch.randint(vocab_size, (num_rows * num_tokens,))
    up, hidden = _noise(width, 4 * width), _noise(num_rows * num_tokens, 4 * width)
    queries, values = (_noise(num_rows * num_heads, num_tokens, width // num_heads) for _ in range(2))
    keys, scores = torch.randn_like(queries).mT, _noise(num_rows * num_heads, num_tokens, num_tokens)
    scale, shift = torch.ones(width), torch.zeros(width)
    norm = partial(functional.layer_norm, x, (width,), scale, shift)
    softmax = partial(functional.softmax, scores, -1)
    gelu = partial(functional.gelu, hidden, approximate="tanh")
    return {
        "attention scores": _product(queries, keys),
        "softmax": Operation(SOFTMAX_FLOPS * scores.numel(), 2 * scores.nbytes, softmax),
        "attention values": _product(scores, values),
        "MLP matmul": _product(x, up),
        "GELU": Operation(GELU_FLOPS * hidden.numel(), 2 * hidden.nbytes, gelu),
        "layer norm": Operation(LAYER_NORM_FLOPS * x.numel(), 2 * x.nbytes + scale.nbytes + shift.nbytes, norm),
        "embedding": Operation(0, ids.nbytes + 2 * x.nbytes, partial(functional.embedding, ids, table)),
        "AdamW step": _adamw(12 * width * width),
    }


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def _product(left: torch.Tensor, right: torch.Tensor) -> Operation:
    """A matrix product, or a batch of them: `2mkn` FLOP each."""
    rows = left.shape[:-1].numel()
    columns = right.shape[-1]
    written = left.element_size() * rows * columns
    flops = 2 * rows * left.shape[-1] * columns
    return Operation(flops, left.nbytes + right.nbytes + written, partial(torch.matmul, left, right))


def _adamw(num_weights: int) -> Operation:
    """One pass over weights, gradients and both moments; all but the gradients are written back."""
    weights = torch.nn.Parameter(_noise(num_weights))
    weights.grad = torch.randn_like(weights)
    optimizer = torch.optim.AdamW([weights], fused=True)
    return Operation(ADAMW_FLOPS * num_weights, (4 + 3) * weights.nbytes, optimizer.step)
