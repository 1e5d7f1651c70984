"""The bucket slider on paper: the gradients in their buckets above the times of all bucket sizes."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from pllab.show.figure import Figure, figure
from pllab.show.theme import INK, PAINTS, PANEL, matplotlib_style

_PREDICTED = PAINTS["F"].fill
_MEASURED = PAINTS["B"].fill


def draw_buckets(sizes: Sequence[int], choices: Sequence[Mapping[str, Any]], step: int, title: str) -> Figure:
    """Draw one position of the slider; the sentence tells it and the times of all positions."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    chosen = choices[step]
    with matplotlib.rc_context(matplotlib_style()):
        fig = Canvas(figsize=(9.6, 4.6), facecolor=PANEL, layout="constrained")
        strip, chart = fig.subplots(2, 1, height_ratios=(1, 4))
        _draw_strip(strip, sizes, chosen)
        _draw_times(chart, choices, step)
        told = "; ".join(choice["sentence"] for choice in choices)
        return figure(fig, f"{title}. Shown: {chosen['label']}. {told}", caption=f"{title}.")


def _draw_strip(axes: Any, sizes: Sequence[int], chosen: Mapping[str, Any]) -> None:
    """The gradients side by side, as wide as they have bytes; buckets alternate between plain and hatched."""
    paint, start = PAINTS["C"], 0
    for number, size in enumerate(chosen["filled"]):
        hatch = "//" if number % 2 else ""
        axes.broken_barh([(start, size)], (0, 1), facecolor=paint.fill, edgecolor=INK, hatch=hatch, linewidth=0.8)
        start += size
    axes.vlines(list(accumulate(sizes))[:-1], 0, 0.22, color=INK, linewidth=0.4)
    axes.set_xlim(0, sum(sizes))
    axes.set_yticks([])
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(chosen["sentence"], loc="left", fontsize=10.5, fontweight="bold")
    axes.set_xlabel("gradients in the order of backward, as wide as their bytes; a box is a message", fontsize=9)


def _draw_times(axes: Any, choices: Sequence[Mapping[str, Any]], step: int) -> None:
    """Predicted and measured milliseconds by bucket size."""
    places = range(len(choices))
    axes.axvline(step, color=INK, linestyle=":", linewidth=1.2)
    axes.plot(places, [1e3 * one["seconds"] for one in choices], "s-", color=_PREDICTED, label="predicted (simulated)")
    seen = [(place, one) for place, one in enumerate(choices) if one["measured_s"] is not None]
    if seen:
        at = [place for place, _ in seen]
        middle = [1e3 * one["measured_s"] for _, one in seen]
        spread = [
            [1e3 * (one["measured_s"] - one["low"]) for _, one in seen],
            [1e3 * (one["high"] - one["measured_s"]) for _, one in seen],
        ]
        style = {"color": _MEASURED, "markersize": 8, "capsize": 4, "markeredgecolor": INK}
        axes.errorbar(at, middle, yerr=spread, fmt="o", label="measured (real), quartiles", **style)
    axes.set_xticks(list(places), [one["label"] for one in choices], rotation=30, ha="right", fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("time (ms)")
    axes.set_xlabel("size of a bucket")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
