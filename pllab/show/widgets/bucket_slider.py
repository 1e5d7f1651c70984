"""The bucket slider: how gradients fall into messages, and what the messages cost.

Many small messages pay many latencies; one large message cannot leave before the last gradient. The slider changes the
size of a bucket for the same gradients and shows the predicted time beside the measured one.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.boxes import draw_work
from pllab.show.figures import Figure, draw_spread, drawing, figure
from pllab.show.theme import INK, LIGHT, count_of, ticks_of, write_number, write_seconds
from pllab.show.widget import Widget, check_place, sources_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMALLEST = 4000  # bytes; each further position of the slider has twice as many


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


class BucketSlider(Widget):
    """Move the size of a bucket: which gradients share a message, how many there are, how long they take.

    Example: `BucketSlider([4096] * 148, alpha_s=2e-4, beta_s=5e-10)`; with `measured` from
    `pllab.bench.message_costs.bench_messages().points()` the measured times stand beside the predicted ones.

    Args:
        sizes: bytes of each gradient, in the order in which backward makes them.
        alpha_s: seconds that each message costs.
        beta_s: seconds that each byte costs.
        measured: points with bucket_bytes, seconds, low and high.

    Raises:
        ValueError: no gradients, or a cost below 0.
    """

    _esm, _css = sources_of(__file__, "view.js", "boxes.js")

    sizes = traitlets.List(traitlets.Int(), help="bytes per gradient, backward's order").tag(sync=True)
    choices = traitlets.List(traitlets.Dict(), help="one dict per position of the slider").tag(sync=True)
    ticks = traitlets.List(traitlets.Dict()).tag(sync=True)
    top_s = traitlets.Float(1.0, help="upper end of the time axis").tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(0, help="position of the slider, from 0").tag(sync=True)

    def __init__(
        self,
        sizes: Sequence[int],
        alpha_s: float,
        beta_s: float,
        measured: Sequence[Mapping[str, float]] = (),
        *,
        projector: bool = False,
    ) -> None:
        if not sizes or min(sizes) < 1:
            raise ValueError(f"a bucket slider needs gradients of at least 1 byte; got {list(sizes)[:5]}")
        if alpha_s < 0 or beta_s < 0:
            raise ValueError(f"a message cannot cost {alpha_s} s and {beta_s} s per byte; give costs of 0 or more")
        choices = _choices_of(sizes, alpha_s, beta_s, measured)
        top = 1.08 * max(max(choice["seconds"], choice["high"] or 0.0) for choice in choices)
        super().__init__(
            sizes=list(sizes),
            choices=choices,
            ticks=ticks_of(top, 4, write_seconds),
            top_s=top,
            title=f"{len(sizes)} gradients, {write_bytes(sum(sizes))}",
            summary=f"predicted: {write_number(alpha_s * 1e6)} us per message + "
            f"{write_number(beta_s * 1e9)} ns per byte (simulated from measured costs); measured: real",
            projector=projector,
        )

    def static(self) -> Figure:
        """The position shown, as a figure with the same numbers; its text has the times of all positions."""
        shown, title = self.choices[self.step], f"{self.title}. {self.summary}"
        with drawing(9.6, 4.6, layout="constrained") as fig:
            strip, chart = fig.subplots(2, 1, height_ratios=(1, 4))
            _draw_strip(strip, self.sizes, shown)
            _draw_times(chart, self.choices, self.step)
            times = "; ".join(choice["sentence"] for choice in self.choices)
            return figure(fig, f"{title}. Shown: {shown['label']}. {times}", caption=f"{title}.")

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        return check_place("step", proposal["value"], len(self.choices))


def _choices_of(
    sizes: Sequence[int], alpha_s: float, beta_s: float, measured: Sequence[Mapping[str, float]]
) -> list[dict[str, Any]]:
    """The positions: one gradient each, 4 kB and each time twice as much, all in one, and every measured size."""
    total = sum(sizes)
    points = {min(int(point["bucket_bytes"]), total): point for point in measured}
    doubled = (_SMALLEST * 2**step for step in range(total.bit_length()))
    chosen = sorted({1, total, *points, *(size for size in doubled if size < total)})
    return [_choice(sizes, bucket_bytes, alpha_s, beta_s, points.get(bucket_bytes)) for bucket_bytes in chosen]


def _choice(
    sizes: Sequence[int], bucket_bytes: int, alpha_s: float, beta_s: float, point: Mapping[str, float] | None
) -> dict[str, Any]:
    """One position with its words."""
    filled = fill_buckets(sizes, bucket_bytes)
    seconds = alpha_s * len(filled) + beta_s * sum(sizes)
    label = write_bytes(bucket_bytes)
    if bucket_bytes == 1:
        label = "one each"
    elif bucket_bytes >= sum(sizes):
        label = "all in one"
    messages, largest = count_of(len(filled), "message"), write_bytes(max(filled))
    sentence = f"{label}: {messages}, the largest {largest}, predicted {write_seconds(seconds)} (simulated)"
    spread = ""
    if point is not None:
        spread = f"{write_seconds(point['low'])} to {write_seconds(point['high'])}"
        sentence += f", measured {write_seconds(point['seconds'])} (real, {spread})"
    return {
        "bucket_bytes": bucket_bytes,
        "label": label,
        "filled": filled,
        "num_messages": len(filled),
        "largest": largest,
        "seconds": seconds,
        "predicted": write_seconds(seconds),
        "measured_s": point and float(point["seconds"]),
        "low": point and float(point["low"]),
        "high": point and float(point["high"]),
        "measured": write_seconds(point["seconds"]) if point is not None else "",
        "spread": spread,
        "sentence": sentence,
    }


def _draw_strip(axes: "Axes", sizes: Sequence[int], chosen: Mapping[str, Any]) -> None:
    """The gradients side by side, as wide as they have bytes; buckets alternate between two tints."""
    start = 0
    for number, size in enumerate(chosen["filled"]):
        draw_work(axes, (start, size), (0, 1), "C", is_later=number % 2 == 1)
        start += size
    axes.vlines(list(accumulate(sizes))[:-1], 0, 0.22, color=LIGHT.outline_of("C"), linewidth=0.5)
    axes.set_xlim(0, sum(sizes))
    axes.set_yticks([])
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(chosen["sentence"], loc="left", fontsize=10.5, fontweight="bold")
    axes.set_xlabel("gradients in the order of backward, as wide as their bytes; a box is a message", fontsize=9)


def _draw_times(axes: "Axes", choices: Sequence[Mapping[str, Any]], step: int) -> None:
    """Predicted and measured milliseconds by bucket size."""
    places = range(len(choices))
    axes.axvline(step, color=INK, linestyle=":", linewidth=1.2)
    predicted = [1e3 * one["seconds"] for one in choices]
    axes.plot(
        places,
        predicted,
        "s-",
        color=LIGHT.outline_of("F"),
        markerfacecolor=LIGHT.fill_of("F"),
        label="predicted (simulated)",
    )
    measured = [(place, one) for place, one in enumerate(choices) if one["measured_s"] is not None]
    if measured:
        at = [place for place, _ in measured]
        spreads = [(one["measured_s"], one["low"], one["high"]) for _, one in measured]
        style: dict[str, Any] = {
            "color": LIGHT.outline_of("B"),
            "markersize": 8,
            "markerfacecolor": LIGHT.fill_of("B"),
        }
        draw_spread(axes, at, spreads, 1e3, fmt="o", label="measured (real), quartiles", **style)
    axes.set_xticks(list(places), [one["label"] for one in choices], rotation=30, ha="right", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("time (ms)")
    axes.set_xlabel("size of a bucket")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
