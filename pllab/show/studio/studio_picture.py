"""The studio as a figure: timelines and staircases on one axis, drawn a kind at a time so that size costs little."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pllab.show.figures import Figure, drawing, figure
from pllab.show.studio.runs import KINDS, Screen, Shown, sizes_of
from pllab.show.theme import (
    HATCH_GREY,
    IDLE,
    ILLEGAL,
    INK,
    PANEL,
    Paint,
    paint_of,
    write_number,
    write_percent,
    write_seconds,
)
from pllab.show.timeline_picture import draw_legend, show_time_axis, write_in_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_WIDTH_IN = 11.0
_HEAD_IN = 0.42
_FOOT_IN = 0.95
_LEFT, _SHARE = 0.09, 0.89
_MOST_LETTERS = 2000


def draw_studio(
    screen: Screen, with_memory: bool = True, memory_limit: float | None = None, critical: bool = False
) -> Figure:
    """Every run on screen with its numbers, and the memory of its ranks under each prediction.

    A measured run is drawn below its prediction, on the same axis. With `critical`, actions of the first run that are
    not on its critical path are pale.
    """
    runs = [one for one in (screen.main, screen.measured, screen.compared) if one]
    panels = [(one, held) for one in runs for held in (False, True) if not held or _has_staircase(one, with_memory)]
    heights = [_height(one, held) for one, held in panels]
    total = sum(heights) + _HEAD_IN * len(panels) + _FOOT_IN
    longest = max(one.makespan for one in runs) or 1.0
    most = max(memory_limit or 0.0, 1.0, *(peak for one in runs for peak in one.most_held))
    with drawing(_WIDTH_IN, total) as fig:
        top = total
        for (one, held), height in zip(panels, heights, strict=True):
            top -= _HEAD_IN + height
            axes = fig.add_axes((_LEFT, top / total, _SHARE, height / total))
            _prepare(axes, one, longest)
            if held:
                _draw_held(axes, one, most, memory_limit)
            else:
                _draw_actions(axes, one, longest, one.path() if critical and one is screen.main else None)
        unit, scale = ("s", 1.0) if longest >= 1 else ("ms", 1e3)
        show_time_axis(axes, unit)
        axes.xaxis.set_major_formatter(lambda time, _: f"{time * scale:g}")
        kinds = (KINDS[int(kind)] for one in runs for kind in one.columns[2])
        draw_legend(fig, kinds, len(KINDS) + 1)
        pale = "; pale: not on the critical path" if critical else ""
        return figure(fig, describe_studio(screen) + pale)


def describe_studio(screen: Screen) -> str:
    """Sizes and numbers in a sentence for each run."""
    sentences = []
    for one in screen.runs():
        fraction, overhead = map(write_percent, one.bubble)
        sizes = sizes_of(one.schedule.num_ranks, one.schedule.num_microbatches)
        held = write_number(max(one.most_held, default=0.0))
        sentences.append(
            f"{one.label}, {sizes}: makespan {write_seconds(one.makespan)}, bubble fraction {fraction}, "
            f"bubble overhead {overhead}, at most {held} micro-batches held by a rank"
        )
    return "; ".join(sentences)


def _has_staircase(one: Shown, with_memory: bool) -> bool:
    return with_memory and one.engine == "simulated"


def _height(one: Shown, held: bool) -> float:
    """Inches of a panel: the more rows, the flatter they are."""
    ranks = one.timeline.num_ranks
    return ranks * (min(0.24, 2.6 / ranks) if held else min(0.36, 4.4 / ranks))


def _prepare(axes: "Axes", one: Shown, longest: float) -> None:
    axes.set_xlim(0, longest)
    axes.set_ylim(one.timeline.num_ranks - 0.5, -0.5)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def _draw_actions(axes: "Axes", one: Shown, longest: float, path: "NDArray[np.int32] | None") -> None:
    fraction, overhead = map(write_percent, one.bubble)
    numbers = f"bubble fraction {fraction}, bubble overhead {overhead}, makespan {write_seconds(one.makespan)}"
    axes.set_title(f"{one.label}: {numbers}", loc="left", fontsize=11.5, fontweight="bold", pad=5)
    _name_rows(axes, [f"rank {rank}" for rank in range(one.timeline.num_ranks)])
    ranks, kinds, starts = one.columns[0], one.columns[2], one.columns[4]
    widths = one.columns[5] - starts
    points = _WIDTH_IN * _SHARE * 72 / longest
    edge = 0.6 if len(starts) and float(np.median(widths)) * points > 4 else 0.0
    full = np.ones(len(starts), bool) if path is None else np.isin(np.arange(len(starts)), path)
    for rank in range(one.timeline.num_ranks):
        band = (rank - 0.42, 0.84)
        axes.broken_barh(
            [(0.0, one.makespan)],
            band,
            facecolor=IDLE.fill,
            edgecolor=HATCH_GREY,
            hatch=IDLE.hatch,
            linewidth=0,
        )
        for number, letter in enumerate(KINDS):
            for pale, chosen in ((False, full), (True, ~full)):
                mask = (ranks == rank) & (kinds == number) & chosen
                boxes = list(zip(starts[mask].tolist(), widths[mask].tolist(), strict=True))
                _draw_boxes(axes, paint_of(letter), boxes, band, edge, pale)
    if edge and len(starts) <= _MOST_LETTERS:
        _write_letters(axes, one, widths * points, full)


def _draw_boxes(
    axes: "Axes", paint: Paint, boxes: list[tuple[float, float]], band: tuple[float, float], edge: float, pale: bool
) -> None:
    """Boxes of one kind on one rank; pale ones are mixed with the ground, since idle marks lie below."""
    from matplotlib.colors import to_rgb

    if not boxes:
        return
    fill = [
        0.28 * own + 0.72 * ground if pale else own
        for own, ground in zip(to_rgb(paint.fill), to_rgb(PANEL), strict=True)
    ]
    axes.broken_barh(boxes, band, facecolor=fill, edgecolor=PANEL, linewidth=edge)
    if paint.hatch and edge:
        ink = f"{INK}{'28' if pale else '88'}"
        axes.broken_barh(boxes, band, facecolor="none", edgecolor=ink, hatch=paint.hatch, linewidth=0)


def _write_letters(axes: "Axes", one: Shown, widths_pt: Any, full: "NDArray[np.bool_]") -> None:
    """Letter and number if both fit, else the letter alone if it fits; none on a pale box."""
    size = min(9.5, _height(one, False) / one.timeline.num_ranks * 72 * 0.62)
    staged = one.stages_per_rank > 1
    for (rank, stage, kind, microbatch, start, end), width in zip(
        one.columns.T[full].tolist(), widths_pt[full], strict=True
    ):
        paint = paint_of(KINDS[int(kind)])
        short = f"{paint.letter}{microbatch:.0f}"
        texts = [f"{stage:.0f}{short}" if staged else short, paint.letter]
        text = next((one for one in texts if size * 0.68 * len(one) + 3 < width), "")
        if text and size > 4:
            write_in_box(axes, ((start + end) / 2, rank), text, paint, size, pad=0.6)


def _draw_held(axes: "Axes", one: Shown, most: float, memory_limit: float | None) -> None:
    axes.set_title("micro-batches held", loc="left", fontsize=10, pad=4)
    _name_rows(axes, [f"most {write_number(peak)}" for peak in one.most_held])
    for rank in range(one.timeline.num_ranks):
        # what changes at one moment is one step
        held = dict([(0.0, 0.0), *one.timeline.held_over_time(rank), (one.makespan, 0.0)])
        floor = rank + 0.42
        level = [floor - 0.84 * count / one.stages_per_rank / most for count in held.values()]
        axes.fill_between(
            list(held), floor, level, step="post", facecolor="#C9C9C9", edgecolor="#555555", linewidth=0.8
        )
        if memory_limit is not None:
            limit = floor - 0.84 * memory_limit / most
            axes.hlines(limit, 0, one.makespan, color=ILLEGAL.fill, linestyle="dashed", linewidth=0.9)


def _name_rows(axes: "Axes", names: list[str]) -> None:
    every = max(1, len(names) // 16)
    axes.set_yticks(range(0, len(names), every), names[::every], fontsize=10 if len(names) <= 12 else 8)
