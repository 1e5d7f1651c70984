"""Stages that sleep instead of computing: the emulated engine.

A sleeping stage needs no core, so eight real stages with real threads, queues and messages run on two cores and
show the true bubble.
"""

import time
from typing import Any

import torch
from torch import nn


class SleepStage(nn.Module):
    """Pass the input on after `forward_s` seconds, and its gradient after `backward_s` seconds.

    Example: `Pipe(nn.Sequential(*(WithDevice(SleepStage(0.01, 0.02), f"cpu:{i}") for i in range(8))))` is an
    eight-stage pipeline on any laptop.

    Raises:
        ValueError: a time is negative.
    """

    def __init__(self, forward_s: float, backward_s: float) -> None:
        super().__init__()
        if forward_s < 0 or backward_s < 0:
            raise ValueError(f"a stage cannot sleep {min(forward_s, backward_s)} s; give times of at least 0")
        self.forward_s = forward_s
        self.backward_s = backward_s

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sleep, then return the input unchanged."""
        return _Sleep.apply(x, self.forward_s, self.backward_s)


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward_s: float, backward_s: float) -> torch.Tensor:
        ctx.backward_s = backward_s
        time.sleep(forward_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        time.sleep(ctx.backward_s)
        return grads[0], None, None
