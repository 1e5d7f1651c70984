"""How gradients fall into messages, and what the messages cost, for several sizes of a bucket.

Many small messages pay many latencies; one large message cannot leave before the last gradient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from pllab.show.boxes import Box, draw_work
from pllab.show.figures import Axes, Figure, drawing, figure, name_rows
from pllab.show.theme import LIGHT, count_of, write_number, write_seconds

Points = Sequence[Mapping[str, float]]  # each with bucket_bytes, seconds, low and high
_SMALLEST = 4000  # bytes; each further size is twice as large


@dataclass(frozen=True)
class BucketChoice:
    """One size of a bucket: the messages it makes of the gradients, and what they cost."""

    sizes: Sequence[int]
    bucket_bytes: int
    alpha_s: float
    beta_s: float
    measured: Mapping[str, float] | None

    @cached_property
    def filled(self) -> list[int]:
        """The bytes of each message."""
        return fill_buckets(self.sizes, self.bucket_bytes)

    @property
    def label(self) -> str:
        """`128 kB`, or what the smallest and the largest size do."""
        if self.bucket_bytes == 1:
            return "one each"
        return "all in one" if self.bucket_bytes >= sum(self.sizes) else write_bytes(self.bucket_bytes)

    @property
    def seconds(self) -> float:
        """Predicted: a latency for each message, and the time of all bytes."""
        return self.alpha_s * len(self.filled) + self.beta_s * sum(self.sizes)

    def __str__(self) -> str:
        """`4 kB: 99 messages, the largest 262 kB, predicted 28.6 ms (calculated)`, and what was measured."""
        messages, largest = count_of(len(self.filled), "message"), write_bytes(max(self.filled))
        told = f"{self.label}: {messages}, the largest {largest}, predicted {write_seconds(self.seconds)} (calculated)"
        if self.measured is None:
            return told
        took, low, high = (write_seconds(self.measured[name]) for name in ("seconds", "low", "high"))
        return f"{told}, measured {took} (real, {low} to {high})"


def draw_buckets(
    sizes: Sequence[int], alpha_s: float, beta_s: float, measured: Points, *, bucket_bytes: int | None = None
) -> Figure:
    """A row for each size of a bucket, or for one: which gradients share a message, and how long all messages take.

    Example: `draw_buckets([4096] * 148, 2e-4, 5e-10, bench_messages().points())`, with the bench of
    `pllab.bench.message_costs`.

    Args:
        sizes: bytes of each gradient, in the order in which backward makes them.
        alpha_s: seconds that each message costs.
        beta_s: seconds that each byte costs.
        measured: the measured points.
        bucket_bytes: the one size to show; by default all: one gradient each, 4 kB and each time twice as much, all in
            one, and every measured size. It is one of these.
    """
    choices = choices_of(sizes, alpha_s, beta_s, measured)
    top_ms = 1.05e3 * max(max(choice.seconds, (choice.measured or {}).get("high", 0.0)) for choice in choices)
    if bucket_bytes is not None:
        by_size = {choice.bucket_bytes: choice for choice in choices}
        choices = [by_size[min(bucket_bytes, sum(sizes))]]
    costs = f"{write_number(alpha_s * 1e6)} us per message + {write_number(beta_s * 1e9)} ns per byte"
    gradients = f"{count_of(len(sizes), 'gradient')}, {write_bytes(sum(sizes))}"
    title = f"{gradients}. predicted: {costs} (calculated from measured costs); measured: real."
    told = "; ".join(map(str, choices))
    with drawing(9.8, 1.35 + 0.34 * len(choices), layout="constrained") as fig:
        boxes, times = fig.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for row, choice in enumerate(choices):
            _draw_messages(boxes, row, choice)
        _draw_times(times, choices)
        times.set_xlim(0, top_ms)
        name_rows(boxes, [f"{choice.label}: {len(choice.filled)}" for choice in choices])
        boxes.set_ylim(len(choices) - 0.4, -0.6)
        if bucket_bytes is not None:
            fig.suptitle(told, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        return figure(fig, f"{title} {told}", title)


def choices_of(sizes: Sequence[int], alpha_s: float, beta_s: float, measured: Points) -> list[BucketChoice]:
    """The sizes of a bucket that are shown, from the smallest."""
    total = int(sum(sizes))
    points = {min(int(point["bucket_bytes"]), total): point for point in measured}
    doubled = (_SMALLEST * 2**step for step in range(total.bit_length()))
    chosen = sorted({1, total, *points, *(size for size in doubled if size < total)})
    return [BucketChoice(sizes, size, alpha_s, beta_s, points.get(size)) for size in chosen]


def fill_buckets(sizes: Sequence[int], bucket_bytes: float) -> list[int]:
    """Fill buckets in order and return their bytes; one gradient alone may be larger than a bucket.

    Example: gradients of 8, 4, 4 and 4 bytes, buckets of 8 bytes -> [8, 8, 4].
    """
    filled: list[int] = []
    for size in sizes:
        if filled and filled[-1] + size <= bucket_bytes:
            filled[-1] += size
        else:
            filled.append(size)
    return filled


def write_bytes(number: float) -> str:
    """`256000` -> `"256 kB"`, `2500000` -> `"2.5 MB"`."""
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{write_number(number / size)} {unit}"
    return f"{write_number(number)} bytes"


def _draw_messages(axes: Axes, row: int, choice: BucketChoice) -> None:
    """The gradients side by side, as wide as they have bytes; messages alternate between two tints."""
    band, starts = (row - 0.36, 0.72), accumulate(choice.filled, initial=0)
    messages = enumerate(zip(starts, choice.filled, strict=False))
    draw_work(axes, [Box(message, band, "C", number % 2 == 1) for number, message in messages])
    ends = list(accumulate(choice.sizes))
    axes.vlines(ends[:-1], row + 0.2, row + 0.36, color=LIGHT.outline_of("C"), linewidth=0.5)
    axes.set_xlim(0, ends[-1])
    axes.set_xticks([])
    axes.set_xlabel("gradients in the order of backward, as wide as\ntheir bytes; a box is a message", fontsize=9)
    axes.set_title("bucket: messages", loc="left", fontsize=10)


def _draw_times(axes: Axes, choices: Sequence[BucketChoice]) -> None:
    """Predicted and measured milliseconds of each size."""
    rows = range(len(choices))
    predicted = [1e3 * choice.seconds for choice in choices]
    look: dict[str, Any] = {"color": LIGHT.outline_of("F"), "markerfacecolor": LIGHT.fill_of("F")}
    axes.plot(predicted, rows, "s-", **look, label="predicted (calculated)")
    took = {row: choice.measured for row, choice in enumerate(choices) if choice.measured}
    middles = [1e3 * point["seconds"] for point in took.values()]
    below = [1e3 * (point["seconds"] - point["low"]) for point in took.values()]
    above = [1e3 * (point["high"] - point["seconds"]) for point in took.values()]
    look = {"color": LIGHT.outline_of("B"), "markerfacecolor": LIGHT.fill_of("B"), "markersize": 8, "capsize": 4}
    axes.errorbar(middles, list(took), xerr=(below, above), fmt="o", **look, label="measured (real), quartiles")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=LIGHT.held, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("time of all messages (ms)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=1, fontsize=9)
