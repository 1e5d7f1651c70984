"""What this machine can do at most, and which of its limits bounds an operation.

Three numbers: FLOP/s of a large matrix product, bytes/s of a large copy, and the latency of a message between two
ranks. An operation cannot be quicker than the slowest of the three allows. Drawn over FLOP per byte, the first two are
a roof.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from pllab import comm
from pllab.bench.measure import Comparison, Spread, compare
from pllab.bench.operations import Operation, gpt2_operations
from pllab.comm.devices import compute_threads
from pllab.show import Figure, chart, figure
from pllab.show.theme import LIGHT, write_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRODUCT, COPY = "large product", "large copy"  # the two kernels whose best rounds are the roof
_MARKS = {"compute": ("o", "#0072B2"), "memory": ("s", "#E69F00")}
_CAPTION = "Circle: bounded by compute. Square: bounded by memory. An operation without FLOP is in the table only."
_SIDE, _NUM_COPIED = 1024, 2**24  # numbers: the product is N x N by N x N


class Machine(NamedTuple):
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


def bound_of(flops: float, num_bytes: float, machine: Machine, num_messages: int = 0) -> Bound:
    """Say which limit bounds an operation: "compute", "memory" or "latency"; the earlier one if two are equal.

    Example: on `Machine(100e9, 10e9, 1e-4)`, 2e9 FLOP need 20 ms and 1e9 bytes 100 ms, so
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
class Roofline:
    """Operations that were measured on a machine, in rounds together with the kernels that gave its limits.

    Example: `measure_roofline(...).efficiency("GELU")` is 0.6 where a GELU needs 10 ms and its limit 6 ms.
    """

    machine: Machine
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
            _log_axes(axes)
            axes.plot([left, ridge, right], [peak * left / ridge, peak, peak], color=LIGHT.ink, linewidth=2)
            axes.text(right, peak * 1.08, f"compute: {write_number(peak)} GFLOP/s", ha="right")
            slope = f"memory: {write_number(self.machine.bytes_per_s / 1e9)} GB/s"
            start = (left, 1.3 * peak * left / ridge)
            angle = math.degrees(math.atan2(start[1], start[0]))
            axes.text(*start, slope, rotation=angle, rotation_mode="anchor", transform_rotates_text=True)
            self._points(axes, at)
            title = f"real, {self.times.machine['cpu']}, medians of {self._rounds} rounds"
            axes.set_title(title, loc="left", fontsize=9)
        fig = axes.get_figure(root=True)
        assert fig is not None
        return figure(fig, self.sentence(), _CAPTION)

    def _points(self, axes: "Axes", at: Mapping[str, tuple[float, float]]) -> None:
        """A mark and a name for each operation; of two at one intensity, the upper one has its name above."""
        below = -1.0
        for name, (x, y) in sorted(at.items(), key=lambda one: one[1]):
            mark, colour = _MARKS[self.bound(name).limit]
            axes.plot(x, y, mark, color=colour, markersize=9, markeredgecolor="black")
            offset = (8, 5) if x == below else (8, -12)
            axes.annotate(name, (x, y), xytext=offset, textcoords="offset points", fontsize=9)
            below = x

    def sentence(self) -> str:
        """The picture in words."""
        parts = [
            f"{name} {write_number(self.flops_per_s(name) / 1e9)} GFLOP/s at {write_number(each.intensity)} FLOP per "
            f"byte, bounded by {self.bound(name).limit}"
            for name, each in self.operations.items()
        ]
        peak, slope = self.machine.flops_per_s / 1e9, self.machine.bytes_per_s / 1e9
        roof = f"roof of {write_number(peak)} GFLOP/s and {write_number(slope)} GB/s, which meet at"
        return f"Roofline (real): {roof} {write_number(self.machine.ridge)} FLOP per byte. " + "; ".join(parts) + "."

    def table(self) -> str:
        """A line for each operation: its work, the limit that bounds it, the least time, and the measured one."""
        lines = [
            "operation           MFLOP      MB  FLOP/byte  bounded by   at least    measured (quartiles)  of limit"
        ]
        for name, each in self.operations.items():
            bound, took = self.bound(name), self.times.time(name).scaled(1e3)
            reached = self.efficiency(name)
            work = f"{each.flops / 1e6:8,.0f} {each.num_bytes / 1e6:7.1f} {each.intensity:10.1f}"
            lines.append(
                f"{name:16} {work}  {bound.limit:10} {1e3 * bound.seconds:7.1f} ms {took.text(1):>20} ms {reached:8.0%}"
            )
        return "\n".join(lines)

    @property
    def _rounds(self) -> int:
        return len(next(iter(self.times.seconds.values())))


def _log_axes(axes: "Axes") -> None:
    """Both axes by factors, with plain numbers beside them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, steps in ((axes.xaxis, (1.0,)), (axes.yaxis, (1.0, 2.0, 5.0))):
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_major_formatter(FuncFormatter(lambda value, _: write_number(value)))
        axis.set_minor_locator(NullLocator())


def measure_roofline(
    operations: Mapping[str, Operation] | None = None, *, latency_s: float = 0.0, num_threads: int = 1, repeats: int = 9
) -> Roofline:
    """Measure a machine's limits and some operations, by default GPT-2's, in rounds of one call each.

    Example: `measure_roofline(latency_s=measure_latency().median).machine` takes some seconds.

    A limit is the best round of its kernel, because other programs only ever take away; an operation is the median.
    `num_threads` are compute threads; 1 is what a rank or a lane has.

    Raises:
        ValueError: there are no rounds, or no such number of threads.
    """
    operations = gpt2_operations() if operations is None else operations
    kernels = _kernels()
    with compute_threads(num_threads), torch.no_grad():
        runs = {name: each.run for name, each in {**kernels, **operations}.items()}
        times = compare(runs, repeats, 2)
    product, copy = kernels[PRODUCT], kernels[COPY]
    machine = Machine(product.flops / min(times.seconds[PRODUCT]), copy.num_bytes / min(times.seconds[COPY]), latency_s)
    return Roofline(machine, operations, times)


def _kernels() -> dict[str, Operation]:
    """A large product and a large copy, into tensors that are there already."""
    left, right, product = (torch.ones(_SIDE, _SIDE) for _ in range(3))
    source, target = (torch.ones(_NUM_COPIED) for _ in range(2))
    num_bytes = left.nbytes + right.nbytes + product.nbytes
    return {
        PRODUCT: Operation(2 * _SIDE**3, num_bytes, lambda: torch.mm(left, right, out=product)),
        COPY: Operation(0, source.nbytes + target.nbytes, lambda: target.copy_(source)),
    }


def measure_latency(repeats: int = 200, timeout_s: float = 60.0) -> Spread:
    """Seconds that one number takes from one rank to another: half of there and back, over gloo on this host.

    Example: `measure_latency().median` is about 1e-4 on a laptop.
    """
    times: Comparison = comm.launch(_there_and_back, 2, repeats, backend="gloo", timeout_s=timeout_s)[0]
    return times.time("there and back").scaled(0.5)


def _there_and_back(rank: int, world_size: int, repeats: int) -> Comparison:
    """Rank 0 sends a number, rank 1 sends it back; runs in each rank."""
    number, other = torch.zeros(1), world_size - 1 - rank

    def throw() -> None:
        if rank == 0:
            comm.send(number, to=other)
        comm.receive(number, source=other)
        if rank == 1:
            comm.send(number, to=other)

    return compare({"there and back": throw}, repeats, 20, in_step=True)
