"""The picture of `bench fidelity`: a prediction above its measurement, and the causes of the errors.

Each case has a bar. Causes that made the run longer than predicted are to the right of zero, those that made it shorter
to the left. The mark is their sum, the error.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from pllab.bench.fidelity import Case, Outcome
from pllab.show import Figure, draw_timeline, figure
from pllab.show.theme import INK, LIGHT, matplotlib_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_HEADING = "What the error is made of: measured less predicted, in % of measured"
# By cause: its name in the legend, its colour and its outline. What counts waiting wears the ink of idle time.
_BARS = {
    "work": ("work, all stages", LIGHT.fill_of("F"), LIGHT.outline_of("F")),
    "imbalance": ("imbalance of stages", LIGHT.fill_of("B"), LIGHT.outline_of("B")),
    "wait": ("waits for unsteady actions", LIGHT.idle, LIGHT.idle),
    "message": ("messages", LIGHT.fill_of("C"), LIGHT.outline_of("C")),
    "launch": ("late starts", LIGHT.fill_of("U"), LIGHT.outline_of("U")),
}
# In inches: a row, the room above for headings and below for axis and legend; left for names, between columns, right.
_ROW, _HEAD, _FOOT = 0.27, 0.7, 1.05
_SIDE, _GAP, _EDGE = 1.55, 0.75, 0.75
_TEXT_PT = 10.0
Shown = Mapping[Case, Outcome]


def draw_fidelity(outcomes: Shown) -> Figure:
    """Draw one case on a time axis, and below it the causes of all real cases (of all cases if none is real)."""
    import matplotlib

    shown = {case: outcome for case, outcome in outcomes.items() if case.engine == "real"} or outcomes
    example = _example(shown)
    name = f"{example.family} on {example.transport}, m = {example.num_microbatches}"
    drawn = draw_timeline(*shown[example].timelines, titles=[f"{name}, predicted", f"{name}, measured"])
    with matplotlib.rc_context(matplotlib_style()):
        _draw_causes(drawn.canvas, shown)
        return figure(drawn.canvas, f"{drawn.alt}. {_describe(shown)}")


def _example(shown: Shown) -> Case:
    """The last family of the first transport, with neither few nor many micro-batches."""
    first = next(iter(shown))
    cases = [case for case in shown if case.transport == first.transport]
    cases = [case for case in cases if case.family == cases[-1].family]
    return cases[len(cases) // 2]


def _draw_causes(fig: "Canvas", shown: Shown) -> None:
    """Make room below the figure for a column of bars per transport, on one scale."""
    columns: dict[str, list[Case]] = {}
    for case in shown:
        columns.setdefault(case.transport, []).append(case)
    inside = _ROW * max(map(len, columns.values()))
    added = _HEAD + inside + _FOOT
    _add_below(fig, added)
    width, height = fig.get_size_inches()
    each = (width - _SIDE - _EDGE - _GAP * (len(columns) - 1)) / len(columns)
    fig.text(0.01, (added - 0.3) / height, _HEADING, fontsize=11.5, fontweight="bold")
    first: Axes | None = None
    for number, (transport, cases) in enumerate(columns.items()):
        left = (_SIDE + number * (each + _GAP)) / width
        axes = fig.add_axes((left, _FOOT / height, each / width, inside / height), sharex=first)
        axes.set_title(f"{transport} ({cases[0].engine})", loc="left", fontsize=11.0, pad=5)
        _draw_column(axes, {case: shown[case] for case in cases}, with_names=first is None)
        first = first or axes
    _draw_legend(fig)


def _add_below(fig: "Canvas", added: float) -> None:
    """Make the figure higher by so many inches at its foot; its axes keep their size."""
    width, height = fig.get_size_inches()
    share = height / (height + added)
    places = [axes.get_position() for axes in fig.axes]
    fig.set_size_inches(width, height + added)
    for axes, place in zip(fig.axes, places, strict=True):
        axes.set_position((place.x0, 1 - share * (1 - place.y0), place.width, share * place.height))
    for legend in fig.legends:
        legend.set_bbox_to_anchor((0.0, 1 - share, 1.0, share))


def _draw_column(axes: "Axes", shown: Shown, *, with_names: bool) -> None:
    names = [f"{case.family}, m = {case.num_microbatches}" if with_names else "" for case in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=_TEXT_PT)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlabel("% of the measured time")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.axvline(0.0, color=INK, linewidth=1.0, zorder=3)
    for row, outcome in enumerate(shown.values()):
        _draw_bar(axes, row, outcome)
    for row, (above, case) in enumerate(pairwise(shown), start=1):
        if case.family != above.family:
            axes.axhline(row - 0.5, color=LIGHT.soft, linewidth=0.8, zorder=0)


def _draw_bar(axes: "Axes", row: int, outcome: Outcome) -> None:
    """The causes end to end from zero, each to its side, the error as a mark and as a number."""
    ends = {True: 0.0, False: 0.0}
    for cause, share in outcome.shares.items():
        (_, fill, edge), side = _BARS[cause], share > 0
        run, band = (ends[side], 100 * share), (row - 0.34, 0.68)
        axes.broken_barh([run], band, facecolor=fill, edgecolor=edge, linewidth=0.7)
        ends[side] += 100 * share
    error = 100 * outcome.error
    axes.plot([error], [row], marker="D", markersize=5.5, color=INK, markeredgecolor="white", zorder=4)
    beside = axes.get_yaxis_transform()
    axes.text(1.02, row, f"{error:+.1f} %", transform=beside, va="center", fontsize=_TEXT_PT)


def _draw_legend(fig: "Canvas") -> None:
    """One legend for all bars, in the order in which they are stacked; the timelines keep theirs."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    patches = [Patch(fc=fill, ec=edge, label=name) for name, fill, edge in _BARS.values()]
    mark = Line2D([], [], marker="D", color=INK, linestyle="", label="error, their sum")
    fig.legend(handles=[*patches, mark], loc="lower center", ncols=3, frameon=False, fontsize=_TEXT_PT)


def _describe(shown: Shown) -> str:
    """Each case's error and its largest cause, in words."""
    cases = ", ".join(
        f"{case.family} on {case.transport} with m = {case.num_microbatches} {100 * outcome.error:+.1f} % "
        f"(its largest part: {cause} {100 * share:+.1f} %)"
        for case, outcome in shown.items()
        for cause, share in [max(outcome.shares.items(), key=lambda part: abs(part[1]))]
    )
    return f"Measured less predicted, in % of measured: {cases}"
