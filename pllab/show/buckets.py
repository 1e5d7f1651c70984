"""The bucket slider: how gradients fall into messages, and what the messages cost.

Many small messages pay many latencies; one large one leaves last. The slider moves the size of a bucket over the
same gradients and shows the predicted time beside the measured one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from pllab.show.buckets_picture import draw_buckets
from pllab.show.figure import Figure
from pllab.show.theme import round_step, write_seconds
from pllab.show.widget import Widget, read_source

_SMALLEST = 2**12


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
    """`262144` -> `"256 KiB"`, `2500000` -> `"2.38 MiB"`."""
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g} bytes"


class BucketSlider(Widget):
    """Move the size of a bucket: which gradients share a message, how many there are, how long they take.

    Example: `BucketSlider([4096] * 148, alpha_s=2e-4, beta_s=5e-10)`; with `measured` from
    `pllab.bench.messages.bench_messages().points()` the measured times stand beside the predicted ones.

    Args:
        sizes: bytes of each gradient, in the order in which backward makes them.
        alpha_s: seconds that each message costs.
        beta_s: seconds that each byte costs.
        measured: points with bucket_bytes, seconds, low and high.

    Raises:
        ValueError: no gradients, or a cost below 0.
    """

    _esm = read_source("buckets.js")
    _css = read_source("buckets.css")

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
        self._alpha_s, self._beta_s = alpha_s, beta_s
        choices = _choices_of(sizes, alpha_s, beta_s, measured)
        top = 1.08 * max(max(choice["seconds"], choice["high"] or 0.0) for choice in choices)
        size = round_step(top, 4)
        ticks = [{"at": n * size, "text": write_seconds(n * size)} for n in range(int(top / size) + 1)]
        super().__init__(
            sizes=list(sizes),
            choices=choices,
            ticks=ticks,
            top_s=top,
            title=f"{len(sizes)} gradients, {write_bytes(sum(sizes))}",
            summary=f"predicted: {alpha_s * 1e6:.3g} us per message + {beta_s * 1e9:.3g} ns per byte "
            "(simulated from measured costs); measured: real",
            projector=projector,
        )

    def state(self) -> dict[str, Any]:
        """The position shown, plain: size of a bucket, messages, times, and the sentence."""
        shown = dict(self.choices[self.step])
        shown.pop("filled")
        return {"title": self.title, "summary": self.summary, "step": self.step, **shown}

    def static(self) -> Figure:
        """The position shown, as a figure with the same numbers."""
        return draw_buckets(self.sizes, self.choices, self.step, f"{self.title}. {self.summary}")

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        step = int(proposal["value"])
        if not 0 <= step < max(1, len(self.choices)):
            raise traitlets.TraitError(f"step {step} does not exist; choose 0 to {len(self.choices) - 1}")
        return step


def _choices_of(
    sizes: Sequence[int], alpha_s: float, beta_s: float, measured: Sequence[Mapping[str, float]]
) -> list[dict[str, Any]]:
    """The positions: one gradient each, powers of two, all in one; and any other size that was measured."""
    total = sum(sizes)
    points = {min(int(point["bucket_bytes"]), total): point for point in measured}
    powers = [2**power for power in range(_SMALLEST.bit_length() - 1, total.bit_length())]
    chosen = sorted({1, total, *points, *(power for power in powers if power < total)})
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
    messages = f"{len(filled)} message{'' if len(filled) == 1 else 's'}"
    told = (
        f"{label}: {messages}, the largest {write_bytes(max(filled))}, predicted {write_seconds(seconds)} (simulated)"
    )
    spread = ""
    if point is not None:
        spread = f"{write_seconds(point['low'])} to {write_seconds(point['high'])}"
        told += f", measured {write_seconds(point['seconds'])} (real, {spread})"
    return {
        "bucket_bytes": bucket_bytes,
        "label": label,
        "filled": filled,
        "num_messages": len(filled),
        "largest": write_bytes(max(filled)),
        "seconds": seconds,
        "predicted": write_seconds(seconds),
        "measured_s": point and float(point["seconds"]),
        "low": point and float(point["low"]),
        "high": point and float(point["high"]),
        "measured": write_seconds(point["seconds"]) if point is not None else "",
        "spread": spread,
        "sentence": told,
    }
