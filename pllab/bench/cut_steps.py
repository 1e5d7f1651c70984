"""What a cut of a model gains: the seconds of each layer, then the same layers on one lane, in slices, and in stages.

All run on CPU lanes, with one compute thread each. Slicing a batch already changes the time of one lane, so the fair
baseline of a pipeline is one lane with the same slices; slicing by itself is measured separately.
"""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from pllab.bench.measure import Comparison, compare
from pllab.comm.devices import compute_threads
from pllab.models.layers import cut
from pllab.pipeline import Pipe, balance

Batch = tuple[torch.Tensor, torch.Tensor]

WHOLE, SLICED = "one lane, the whole batch", "one lane, the same slices"
EQUAL, OUTSIDE, BALANCED = "two lanes, equal counts", "two lanes, head outside", "two lanes, balanced"


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


class Spent(NamedTuple):
    """Processor seconds in the program and in the system, and the new pages of memory."""

    program_s: float
    system_s: float
    new_pages: int


@dataclass(frozen=True)
class CutsBench:
    """Steps in every way, and what a step of `WHOLE` and of `SLICED` spent."""

    comparison: Comparison
    spent: dict[str, Spent]

    def gain(self, name: str, to: str = SLICED) -> tuple[float, float, float]:
        """How many times as fast as another way: the median, the lowest and the highest of the rounds."""
        gains = self.comparison.speedups(name, to)
        return statistics.median(gains), min(gains), max(gains)

    def core(self) -> str:
        """How much of a core one lane had, as a sentence: below 1, other programs shared it."""
        spent = self.spent[SLICED]
        share = min(1.0, (spent.program_s + spent.system_s) / statistics.median(self.comparison.seconds[SLICED]))
        busy = "; other programs wanted the cores, so trust none of these gains" if share < 0.9 else ""
        return f"one lane had {share:.0%} of a core{busy}."

    def verdict(self) -> str:
        """Which of the three cuts won, or which could not be told apart, as a sentence."""
        seconds = self.comparison.seconds
        best, *others = sorted((EQUAL, OUTSIDE, BALANCED), key=lambda name: statistics.median(seconds[name]))
        unbeaten = [repr(one) for one in others if max(self.comparison.speedups(one, best)) >= 1]
        if not unbeaten:
            return f"Of the three cuts {best!r} was the fastest in every round."
        lost = f"{' and '.join(unbeaten)} beat it in some round: this run cannot tell them apart."
        return f"Of the three cuts {best!r} has the lowest median, and {lost}"


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
    cuts = {
        EQUAL: cut(layers, [half, len(layers) - half]),
        OUTSIDE: cut(layers[:-1], balance(costs[:-1], 2)),
        BALANCED: cut(layers, balance(costs, 2)),
    }
    ways: dict[str, Callable[[], object]] = {
        WHOLE: partial(on_one_lane, layers, batch, 1),
        SLICED: partial(on_one_lane, layers, batch, num_slices),
    }
    with compute_threads(1), ExitStack() as pipes:
        for name, stages in cuts.items():
            pipe = pipes.enter_context(Pipe.from_partitions(stages, lanes, num_microbatches=num_slices))
            after = layers[-1] if name == OUTSIDE else nn.Identity()
            ways[name] = partial(_through, pipe, after, batch)
        comparison = compare(ways, repeats, baseline=SLICED, num_devices=2)
        return CutsBench(comparison, {name: _spent(ways[name]) for name in (WHOLE, SLICED)})


def on_one_lane(layers: Sequence[nn.Module], batch: Batch, num_slices: int) -> None:
    """Forward and backward of the slices, one after another."""
    for rows in zip(*(part.chunk(num_slices) for part in batch), strict=True):
        value: Any = rows
        for layer in layers:
            value = layer(value)
        value.sum().backward()


def _through(pipe: Pipe, after: nn.Module, batch: Batch) -> None:
    after(pipe(batch)).sum().backward()


def _spent(run: Callable[[], object], repeats: int = 3) -> Spent:
    """The processor time and memory of a run, each the median of some runs."""
    each = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_SELF)
        run()
        after = resource.getrusage(resource.RUSAGE_SELF)
        pages = after.ru_minflt - before.ru_minflt
        each.append((after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, pages))
    program_s, system_s, new_pages = map(statistics.median, zip(*each, strict=True))
    return Spent(program_s, system_s, int(new_pages))
