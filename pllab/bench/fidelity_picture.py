"""The picture of `bench fidelity`: a prediction above its measurement, and what the errors are made of.

A bar per case: causes that made the run longer than predicted lie to the right of zero, those that made it shorter to
the left, and the mark is their sum, the error.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pllab.bench.attribute import CAUSES
from pllab.bench.fidelity_runs import Case, Example, Outcome
from pllab.show import Figure, draw_timeline, figure
from pllab.show.theme import HATCH_GREY, IDLE, INK, PAINTS, matplotlib_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_ROW_IN = 0.27
_HEAD_IN = 0.7  # room above the bars for the heading and for the name of each column
_FOOT_IN = 1.05  # room below them for the axis and the legend
_SIDE_IN, _GAP_IN, _EDGE_IN = 1.55, 0.75, 0.75  # left for the names, between the columns and right for the numbers
_TEXT_PT = 10.0
_Shown = Mapping[Case, Outcome]


class _Bar(NamedTuple):
    """How a cause is drawn and what it is called."""

    fill: str
    hatch: str
    edge: str
    name: str


_BARS = {
    "work": _Bar(PAINTS["F"].fill, "", INK, "work, all stages"),
    "imbalance": _Bar(PAINTS["B"].fill, "", INK, "imbalance of stages"),
    "wait": _Bar(IDLE.fill, IDLE.hatch, HATCH_GREY, "waits for unsteady actions"),
    "message": _Bar(PAINTS["C"].fill, PAINTS["C"].hatch, INK, "messages"),
    "launch": _Bar(PAINTS["U"].fill, PAINTS["U"].hatch, INK, "late starts"),
}


def draw_fidelity(example: Example, outcomes: _Shown) -> Figure:
    """Draw one round on a time axis, and below it the causes of all real cases (of all, where none is real)."""
    import matplotlib

    shown = {case: outcome for case, outcome in outcomes.items() if case.engine == "real"} or outcomes
    _, on, family, m = example.case
    titles = [f"{family} on {on}, m = {m}, {side}" for side in ("predicted", "measured")]
    timelines = draw_timeline(example.predicted, example.measured, titles=titles)
    with matplotlib.rc_context(matplotlib_style()):
        fig = timelines.canvas
        _draw_causes(fig, shown)
        return figure(fig, f"{timelines.alt}. {_describe(shown)}")


def _draw_causes(fig: "Canvas", shown: _Shown) -> None:
    """Make room below what is drawn, and there a column of bars per transport."""
    columns = list(dict.fromkeys(case.transport for case in shown))
    cases = {on: [case for case in shown if case.transport == on] for on in columns}
    inside = _ROW_IN * max(map(len, cases.values()))
    added = _HEAD_IN + inside + _FOOT_IN
    _add_below(fig, added)
    width, height = fig.get_size_inches()
    each = (width - _SIDE_IN - _EDGE_IN - _GAP_IN * (len(columns) - 1)) / len(columns)
    fig.text(0.01, (added - 0.3) / height, _HEADING, fontsize=11.5, fontweight="bold")
    limits = _limits(shown)
    for number, on in enumerate(columns):
        left = (_SIDE_IN + number * (each + _GAP_IN)) / width
        axes = fig.add_axes((left, _FOOT_IN / height, each / width, inside / height))
        axes.set_title(f"{on} ({cases[on][0].engine})", loc="left", fontsize=11.0, pad=5)
        _draw_column(axes, [(case, shown[case]) for case in cases[on]], limits, with_names=number == 0)
    _draw_legend(fig)


_HEADING = "What the error is made of: measured less predicted, in % of measured"


def _add_below(fig: "Canvas", added_in: float) -> None:
    """Grow the figure at its foot; what is there keeps its size."""
    width, height = fig.get_size_inches()
    share = height / (height + added_in)
    places = [axes.get_position() for axes in fig.axes]
    fig.set_size_inches(width, height + added_in)
    for axes, place in zip(fig.axes, places, strict=True):
        axes.set_position((place.x0, 1 - share * (1 - place.y0), place.width, share * place.height))
    for legend in fig.legends:
        legend.set_bbox_to_anchor((0.0, 1 - share, 1.0, share))


def _limits(shown: _Shown) -> tuple[float, float]:
    """One scale for all bars, in percent, with zero on it."""
    values = [[100 * share for share in outcome.shares.values()] for outcome in shown.values()]
    low = min(sum(value for value in row if value < 0) for row in values)
    high = max(sum(value for value in row if value > 0) for row in values)
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def _draw_column(
    axes: "Axes", rows: Sequence[tuple[Case, Outcome]], limits: tuple[float, float], *, with_names: bool
) -> None:
    axes.set_xlim(*limits)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("% of the measured time")
    names = [f"{case.family}, m = {case.num_microbatches}" for case, _ in rows] if with_names else [""] * len(rows)
    axes.set_yticks(range(len(rows)), names, fontsize=_TEXT_PT)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.axvline(0.0, color=INK, linewidth=1.0, zorder=3)
    for row, (case, outcome) in enumerate(rows):
        _draw_bar(axes, row, outcome)
        if row and case.family != rows[row - 1][0].family:
            axes.axhline(row - 0.5, color=HATCH_GREY, linewidth=0.8, zorder=0)


def _draw_bar(axes: "Axes", row: int, outcome: Outcome) -> None:
    """The causes end to end from zero, each to its side, the error as a mark and as a number."""
    ends = {True: 0.0, False: 0.0}
    for cause, share in outcome.shares.items():
        bar, side = _BARS[cause], share > 0
        run, band = (ends[side], 100 * share), (row - 0.34, 0.68)
        axes.broken_barh([run], band, facecolor=bar.fill, hatch=bar.hatch, edgecolor=bar.edge, linewidth=0.7)
        ends[side] += 100 * share
    error = 100 * outcome.error
    axes.plot([error], [row], marker="D", markersize=5.5, color=INK, markeredgecolor="white", zorder=4)
    beside = axes.get_yaxis_transform()
    axes.text(1.02, row, f"{error:+.1f} %", transform=beside, va="center", fontsize=_TEXT_PT)


def _draw_legend(fig: "Canvas") -> None:
    """One legend for all bars, in the order in which they are stacked; the timelines keep theirs."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bars = [_BARS[cause] for cause in CAUSES]
    patches = [Patch(facecolor=bar.fill, hatch=bar.hatch, edgecolor=bar.edge, label=bar.name) for bar in bars]
    mark = Line2D([], [], marker="D", color=INK, linestyle="", label="error, their sum")
    fig.legend(handles=[*patches, mark], loc="lower center", ncols=3, frameon=False, fontsize=_TEXT_PT)


def _describe(shown: _Shown) -> str:
    """Each case's error and the cause that is largest in it, in words."""
    cases = ", ".join(
        f"{case.family} on {case.transport} with m = {case.num_microbatches} {100 * outcome.error:+.1f} % "
        f"(its largest part: {cause} {100 * outcome.shares[cause]:+.1f} %)"
        for case, outcome in shown.items()
        for cause in [max(outcome.shares, key=lambda name: abs(outcome.shares[name]))]
    )
    return f"Measured less predicted, in % of measured: {cases}"
