"""What this machine can do at most, what GPT-2's operations compute and move, and which limit bounds each of them.

The three limits: FLOP/s of a large matrix product, bytes/s of a large copy, and the latency of a message between two
ranks. An operation cannot be faster than the slowest of the three allows. Drawn over FLOP per byte, the first two form
a roof.

A count of work needs a convention. Here a matrix product of m x k by k x n numbers is 2mkn FLOP, as everywhere.
Other operations are counted by number: one for each addition, multiplication, comparison, root or exponential.
Bytes are those of the tensors that go in and come out, once each: a kernel cannot move fewer.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from pllab.bench.measure import Comparison, compare
from pllab.comm.devices import compute_threads, large_product
from pllab.show import Figure, chart, draw_spread, figure
from pllab.show.theme import LIGHT, write_number

SOFTMAX_FLOPS = 5  # per number: compare, subtract, exponential, add, divide
LAYER_NORM_FLOPS = 8  # add, subtract, square, add; divide, and with weight and bias multiply, add; one for the root
GELU_FLOPS = 9  # a cube, its factor, add, factor, tanh, add one, multiply by the number and by a half
ADAMW_FLOPS = 14  # decay 1, first moment 3, second moment 4, corrected root 3, update 3

PRODUCT, COPY = "large product", "large copy"  # the two kernels whose best rounds are the roof
_MARKS = {"compute": ("o", "#0072B2"), "memory": ("s", "#E69F00")}
_CAPTION = "Circle: bounded by compute. Square: by memory. Whiskers: quartiles. Without FLOP: in the table only."
_NUM_COPIED = 2**24  # numbers of the large copy


class Ceilings(NamedTuple):
    """What a machine does at most: FLOP and bytes in a second, and the seconds of its smallest message."""

    flops_per_s: float
    bytes_per_s: float
    latency_s: float

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the two limits of the roof are equal."""
        return self.flops_per_s / self.bytes_per_s


class Bound(NamedTuple):
    """Which limit bounds an operation, and the least seconds that this limit allows."""

    limit: str
    seconds: float


def bound_of(flops: float, num_bytes: float, machine: Ceilings, num_messages: int = 0) -> Bound:
    """Say which limit bounds an operation: "compute", "memory" or "latency"; the earlier one if two are equal.

    Example: on `Ceilings(100e9, 10e9, 1e-4)`, 2e9 FLOP need 20 ms and 1e9 bytes 100 ms, so
    `bound_of(2e9, 1e9, machine)` is `("memory", 0.1)`.

    flops: additions and multiplications; num_bytes: moved to and from memory; num_messages: sent one after the other.
    Lesson 01.
    """
    least = {
        "compute": flops / machine.flops_per_s,
        "memory": num_bytes / machine.bytes_per_s,
        "latency": num_messages * machine.latency_s,
    }
    limit = max(least, key=lambda name: least[name])
    return Bound(limit, least[limit])


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


@dataclass(frozen=True)
class Roofline:
    """Operations that were measured on a machine, in rounds together with the kernels that gave its limits.

    Example: `measure_roofline(...).efficiency("GELU")` is 0.6 where a GELU needs 10 ms and its limit 6 ms.
    """

    machine: Ceilings
    operations: Mapping[str, Operation]
    times: Comparison

    def bound(self, name: str) -> Bound:
        """`bound_of` an operation."""
        return bound_of(self.operations[name].flops, self.operations[name].num_bytes, self.machine)

    def efficiency(self, name: str) -> float:
        """The least seconds of its limit over the measured median.

        Above 1 where a cache served it and not the memory, or where the copy behind bytes/s moved more than it counts:
        most cores read what a copy is about to overwrite.
        """
        return self.bound(name).seconds / self.times.time(name).median

    def flops_per_s(self, name: str) -> float:
        """FLOP/s that an operation reached in the median."""
        return self.operations[name].flops / self.times.time(name).median

    def picture(self) -> Figure:
        """Measured FLOP/s over FLOP per byte, under the machine's roof; operations without FLOP are named only."""
        drawn = [name for name in self.operations if self.operations[name].flops]
        at = {name: (self.operations[name].intensity, self.flops_per_s(name) / 1e9) for name in drawn}
        left, right = min(x for x, _ in at.values()) / 8, max(x for x, _ in at.values()) * 6
        peak, ridge = self.machine.flops_per_s / 1e9, self.machine.ridge
        with chart("FLOP per byte (log scale)", "GFLOP/s (log scale)", 8.0, 4.4) as axes:
            axes.loglog([left, ridge, right], [peak * left / ridge, peak, peak], color=LIGHT.ink, linewidth=2)
            axes.text(ridge, peak * 1.08, f"compute: {write_number(peak)} GFLOP/s")
            slope = f"memory: {write_number(self.machine.bytes_per_s / 1e9)} GB/s"
            start = (left, 1.3 * peak * left / ridge)
            angle = math.degrees(math.atan2(start[1], start[0]))
            axes.text(*start, slope, rotation=angle, rotation_mode="anchor", transform_rotates_text=True)
            below = -1.0
            for name, (x, y) in sorted(at.items(), key=lambda one: one[1]):
                mark, colour = _MARKS[self.bound(name).limit]
                took = self.times.time(name)
                spread = (y, y * took.median / took.high, y * took.median / took.low)
                draw_spread(axes, [x], [spread], fmt=mark, color=colour, markersize=9, markeredgecolor="black")
                offset = (8, 5) if x == below else (8, -12)  # of two at one intensity, the upper one's name is above
                is_beyond = x < ridge and self.efficiency(name) > 1  # the slope; there is room on its other side
                place, side = ((-8, 5), "right") if is_beyond else (offset, "left")
                axes.annotate(name, (x, y), xytext=place, textcoords="offset points", fontsize=9, ha=side)
                below = x
            _write_plain(axes)
            rounds = len(self.times.seconds[drawn[0]])
            axes.set_title(f"real, {self.times.machine['cpu']}, medians of {rounds} rounds", loc="left", fontsize=9)
            canvas: Any = axes.figure
            return figure(canvas, self._sentence(), _CAPTION)

    def table(self) -> str:
        """A line for each operation: its work, the limit that bounds it, the least time, and the measured one."""
        lines = [
            "operation           MFLOP      MB  FLOP/byte  bounded by   at least    measured (quartiles)  of limit"
        ]
        for name, each in self.operations.items():
            bound, took = self.bound(name), self.times.time(name).scaled(1e3)
            work = f"{each.flops / 1e6:8,.0f} {each.num_bytes / 1e6:7.1f} {each.intensity:10.1f}"
            least = f"{bound.limit:10} {1e3 * bound.seconds:7.1f} ms"
            lines.append(f"{name:16} {work}  {least} {took.text(1):>20} ms {self.efficiency(name):8.0%}")
        return "\n".join(lines)

    def _sentence(self) -> str:
        """The picture in words."""
        parts = [
            f"{name} {write_number(self.flops_per_s(name) / 1e9)} GFLOP/s at {write_number(each.intensity)} FLOP per "
            f"byte, bounded by {self.bound(name).limit}"
            for name, each in self.operations.items()
        ]
        peak, slope = self.machine.flops_per_s / 1e9, self.machine.bytes_per_s / 1e9
        roof = f"roof of {write_number(peak)} GFLOP/s and {write_number(slope)} GB/s, which meet at"
        return f"Roofline (real): {roof} {write_number(self.machine.ridge)} FLOP per byte. " + "; ".join(parts) + "."


def _write_plain(axes: Any) -> None:
    """Plain numbers on logarithmic axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis, steps in ((axes.xaxis, (1.0,)), (axes.yaxis, (1.0, 2.0, 5.0))):
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_major_formatter(FuncFormatter(lambda value, _: write_number(value)))
        axis.set_minor_locator(NullLocator())


def measure_roofline(
    operations: Mapping[str, Operation] | None = None, *, latency_s: float = 0.0, num_threads: int = 1, repeats: int = 9
) -> Roofline:
    """Measure a machine's limits and some operations, by default GPT-2's, in rounds of one call each.

    Example: `measure_roofline(latency_s=1e-4).machine` takes some seconds.

    A limit is the best round of its kernel, because other programs can only slow it down; an operation is the median.
    `num_threads` are compute threads; 1 is what a rank or a lane has.

    Raises:
        ValueError: there are no rounds, or no such number of threads.
    """
    operations = gpt2_operations() if operations is None else operations
    flops, multiply = large_product(torch.device("cpu"), torch.float32)
    source, target = (torch.ones(_NUM_COPIED) for _ in range(2))
    kernels: dict[str, Callable[[], object]] = {PRODUCT: multiply, COPY: partial(target.copy_, source)}
    with compute_threads(num_threads), torch.no_grad():
        times = compare(kernels | {name: each.run for name, each in operations.items()}, repeats, 2)
    product_s, copy_s = (min(times.seconds[name]) for name in kernels)
    return Roofline(Ceilings(flops / product_s, 2 * source.nbytes / copy_s, latency_s), operations, times)
