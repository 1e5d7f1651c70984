"""What a cut of a model gains: the seconds of each layer, then the same layers on one lane, in slices, and in stages.

All run on CPU lanes, with one compute thread each. Slicing a batch already changes the time of one lane, so the fair
baseline of a pipeline is one lane with the same slices; slicing by itself is measured separately.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from pllab.bench.measure import Comparison, compare
from pllab.comm.devices import compute_threads
from pllab.models.layers import cut
from pllab.pipeline import Pipe, balance

Batch = tuple[torch.Tensor, torch.Tensor]

WHOLE, SLICED = "one lane, the whole batch", "one lane, the same slices"
EQUAL, BALANCED = "two lanes, equal counts", "two lanes, balanced"


def layer_seconds(layers: Sequence[nn.Module], batch: Batch, repeats: int = 5) -> list[list[float]]:
    """Seconds of forward and backward of each layer by itself, on one lane: a row for each round that counts.

    Each round runs all layers once, in order; the first round warms up and is dropped.

    Example: `[[0.003, 0.07, 0.2], ...]` for an embedding, a block and a head. Lesson 07.
    """
    with compute_threads(1):
        return [_round(layers, batch) for _ in range(repeats + 1)][1:]


def _round(layers: Sequence[nn.Module], batch: Batch) -> list[float]:
    value, seconds = batch, []
    for layer in layers:
        first, labels = value
        first = first.detach().requires_grad_(first.is_floating_point())  # backward ends at this layer
        start = time.perf_counter()
        value = layer((first, labels))
        result = value[0] if isinstance(value, tuple) else value
        result.backward(torch.ones_like(result))
        seconds.append(time.perf_counter() - start)
    return seconds


@dataclass(frozen=True)
class CutsBench:
    """Steps in every way, and the processor time of a step of `SLICED`."""

    comparison: Comparison
    processor_s: float

    def gain(self, name: str, to: str = SLICED) -> tuple[float, float, float]:
        """How many times as fast as another way: the median, the lowest and the highest of the rounds."""
        gains = self.comparison.speedups(name, to)
        return statistics.median(gains), min(gains), max(gains)

    def core(self) -> str:
        """How much of a core one lane had, as a sentence: below 1, other programs shared it."""
        share = min(1.0, self.processor_s / statistics.median(self.comparison.seconds[SLICED]))
        busy = "; other programs wanted the cores, so trust none of these gains" if share < 0.9 else ""
        return f"one lane had {share:.0%} of a core{busy}."

    def verdict(self) -> str:
        """Which of the two cuts won, or that they could not be told apart, as a sentence."""
        best, other = sorted((EQUAL, BALANCED), key=lambda name: statistics.median(self.comparison.seconds[name]))
        if max(self.comparison.speedups(other, best)) < 1:
            return f"{best!r} was faster than {other!r} in every round."
        return f"{best!r} has the lower median, but {other!r} beat it in some round: this run cannot tell them apart."


def bench_cuts(
    layers: Sequence[nn.Module], batch: Batch, costs: Sequence[float], num_slices: int = 8, repeats: int = 5
) -> CutsBench:
    """Time forward and backward of a chain of layers whose last gives one loss for each row.

    Example: `print(bench_cuts(layers_of(model), (ids, ids), costs).comparison.table())`. Lesson 07.

    Args:
        layers: an embedding, an even number of blocks, and a head with its loss.
        batch: ids and labels (rows, time).
        costs: of each layer, for the balanced cut.
        num_slices: micro-batches of the pipelines, and slices of `SLICED`.
        repeats: rounds that count.
    """
    half, lanes = len(layers) // 2, ["cpu:0", "cpu:1"]
    cuts = {EQUAL: cut(layers, [half, len(layers) - half]), BALANCED: cut(layers, balance(costs, 2))}
    ways: dict[str, Callable[[], object]] = {
        WHOLE: partial(on_one_lane, layers, batch, 1),
        SLICED: partial(on_one_lane, layers, batch, num_slices),
    }
    with compute_threads(1), ExitStack() as pipes:
        for name, stages in cuts.items():
            pipe = pipes.enter_context(Pipe.from_partitions(stages, lanes, num_microbatches=num_slices))
            ways[name] = partial(_through, pipe, batch)
        comparison = compare(ways, repeats, baseline=SLICED, num_devices=2)
        return CutsBench(comparison, statistics.median(_processor_s(ways[SLICED]) for _ in range(3)))


def on_one_lane(layers: Sequence[nn.Module], batch: Batch, num_slices: int) -> None:
    """Forward and backward of the slices, one after another."""
    for rows in zip(*(part.chunk(num_slices) for part in batch), strict=True):
        value: Any = rows
        for layer in layers:
            value = layer(value)
        value.sum().backward()


def _through(pipe: Pipe, batch: Batch) -> None:
    pipe(batch).sum().backward()


def _processor_s(run: Callable[[], object]) -> float:
    before = time.process_time()
    run()
    return time.process_time() - before
