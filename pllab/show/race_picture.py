"""The printed twin of the race: the same bars, whiskers and sentences for GitHub and for paper."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pllab.show.figure import Figure, figure
from pllab.show.theme import HATCH_GREY, IDLE, INK, PAINTS, PANEL, matplotlib_style, write_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lane = Mapping[str, Any]


def describe_race(lanes: Sequence[Lane], title: str) -> str:
    """Say a race in one sentence per contestant, made from its lanes.

    Example: `2 devices, engine: real. one lane: median 1,000 tokens/s (990 to 1,010), baseline. ...`.
    """
    return " ".join([f"{title}.", *(_describe(lane) for lane in lanes)])


def draw_race(lanes: Sequence[Lane], title: str, unit: str, top: float) -> Figure:
    """Draw a race's lanes as horizontal bars with whiskers from the slowest to the fastest run."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    doubts = [lane["doubt"] for lane in lanes if lane["doubt"]]
    height = 0.52 * len(lanes) + 1.25 + 0.24 * len(doubts)
    with matplotlib.rc_context(matplotlib_style()):
        fig = Canvas(figsize=(9.0, height), facecolor=PANEL)
        foot = (0.8 + 0.24 * len(doubts)) / height
        axes = fig.add_axes((0.2, foot, 0.58, 1 - foot - 0.45 / height))
        axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold")
        for row, lane in enumerate(lanes):
            _draw_lane(axes, row, lane, top)
        _finish_axes(axes, lanes, unit, top)
        for line, sentence in enumerate(doubts):
            fig.text(0.02, (0.08 + 0.24 * (len(doubts) - 1 - line)) / height, f"! {sentence}", fontsize=10)
        return figure(fig, describe_race(lanes, title))


def _draw_lane(axes: "Axes", row: int, lane: Lane, top: float) -> None:
    baseline = lane["ratio"] == "baseline"
    fill = IDLE.fill if baseline else PAINTS["F"].fill
    axes.barh(row, lane["rate"], height=0.56, color=fill, edgecolor=HATCH_GREY, hatch="////" if baseline else "")
    axes.barh(row, lane["rate"], height=0.56, color="none", edgecolor=INK, linewidth=0.9)
    if lane["num_rates"] > 1:
        spread = [[lane["rate"] - lane["low"]], [lane["high"] - lane["rate"]]]
        axes.errorbar(lane["rate"], row, xerr=spread, color=INK, capsize=5, linewidth=2)
    value = f"{lane['value']}  {lane['ratio']}" if lane["done"] else f"{lane['value']} ({lane['progress']:.0%})"
    axes.text(top * 1.02, row, value, va="center", fontweight="bold" if lane["done"] else "normal")


def _finish_axes(axes: "Axes", lanes: Sequence[Lane], unit: str, top: float) -> None:
    axes.set_xlim(0, top)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_yticks(range(len(lanes)), [lane["name"] for lane in lanes])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: write_number(value))
    axes.set_xlabel(f"{unit}, median and range" if any(lane["done"] for lane in lanes) else unit)


def _describe(lane: Lane) -> str:
    if not lane["done"]:
        return f"{lane['name']}: {lane['value']}, {lane['progress']:.0%} of the way."
    ratio = f", {lane['ratio']}" if lane["ratio"] else ""
    note = f" {lane['note']}." if lane["note"] else ""
    doubt = f" {lane['doubt']}" if lane["doubt"] else ""
    return f"{lane['name']}: median {lane['value']} ({lane['spread']}){ratio}.{note}{doubt}"
