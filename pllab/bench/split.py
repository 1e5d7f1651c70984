"""What splitting a backward costs: B in one piece, our I and W, and torch.distributed.pipelining's, on one stage."""

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.distributed.pipelining import _backward as torchs  # private, and the only place where its split can be timed

from pllab.bench.machine import machine
from pllab.bench.measure import Comparison
from pllab.pipeline import backward_input, backward_weight

WHOLE = "B"
OURS = "pllab I + W"
THEIRS = "torch I + W"

_Backward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def compare_splits(stage: nn.Module, batch: torch.Tensor, repeats: int = 9, warmup: int = 2) -> Comparison:
    """Time the three ways to go back through a stage, on one thread; the forward before each is not counted.

    Example: `compare_splits(stage, x).ratio("pllab I + W", to="torch I + W")` is about 1.
    """
    ways: dict[str, _Backward] = {WHOLE: _whole, OURS: _ours, THEIRS: _theirs(stage)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(warmup + repeats):
            for name, way in ways.items():
                seconds[name].append(_timed(way, stage, batch))
        told = machine("real")  # while there is one thread
    finally:
        torch.set_num_threads(threads)
        stage.zero_grad(set_to_none=True)
    kept = {name: tuple(times[warmup:]) for name, times in seconds.items()}
    return Comparison(kept, WHOLE, None, None, told)


def _timed(way: _Backward, stage: nn.Module, batch: torch.Tensor) -> float:
    x = batch.detach().requires_grad_()
    y = stage(x)
    gradient = torch.ones_like(y)
    start = time.perf_counter()
    way(y, gradient, x)
    return time.perf_counter() - start


def _whole(y: torch.Tensor, gradient: torch.Tensor, _x: torch.Tensor) -> None:
    torch.autograd.backward([y], [gradient])


def _ours(y: torch.Tensor, gradient: torch.Tensor, x: torch.Tensor) -> None:
    backward_weight(backward_input([y], [gradient], [x]))


def _theirs(stage: nn.Module) -> _Backward:
    def backward(y: torch.Tensor, gradient: torch.Tensor, x: torch.Tensor) -> None:
        _, groups = torchs.stage_backward_input([y], [gradient], [x], stage.parameters())
        torchs.stage_backward_weight(stage.parameters(), groups)

    return backward
