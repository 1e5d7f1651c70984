"""The stage of exercise 10.2: a layer of it says when it runs, when it goes back, and whether its graph is alive."""

import weakref
from typing import Any

import torch
from torch import nn

from pllab.lesson.exercise import Wrong

ROWS, WIDTH = 3, 4
_HIDDEN = 256


class _Token:
    """Something a weak reference can point at."""


class Witness:
    """What happened, in order, and which graphs are alive."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.tokens: dict[int, weakref.ref[_Token]] = {}
        self.most_left = 0

    def alive(self) -> list[int]:
        """Micro-batches that have gone back and whose graph lives on."""
        gone_back = [i for i in self.tokens if f"B{i}" in self.events]
        return [i for i in gone_back if self.tokens[i]() is not None]

    def living(self) -> list[int]:
        """Micro-batches whose graph is alive."""
        return [i for i, token in sorted(self.tokens.items()) if token() is not None]


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, number: int, witness: Witness) -> torch.Tensor:
        ctx.token, ctx.number, ctx.witness = _Token(), number, witness
        witness.tokens[number] = weakref.ref(ctx.token)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ctx.witness.events.append(f"B{ctx.number}")
        return gradient, None, None


class Stage(nn.Module):
    """Two layers with a witness between them; the first column of the input is the number of the micro-batch."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, _HIDDEN), nn.Linear(_HIDDEN, 1)
        self._witness = witness

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One number for each row of a micro-batch; the call is written down."""
        number = int(x[0, 0].item())
        if len(x) != ROWS or not bool((x[:, 0] == number).all()):
            raise Wrong(
                "whole_batch",
                f"The stage was called with {len(x)} rows, and a micro-batch has {ROWS}: call it once for each F of "
                "the row, with inputs[i].",
            )
        self._witness.events.append(f"F{number}")
        self._witness.most_left = max(self._witness.most_left, len(self._witness.alive()))
        hidden: torch.Tensor = _Marked.apply(torch.tanh(self.first(x)), number, self._witness)
        result: torch.Tensor = self.second(torch.tanh(hidden))
        return result
