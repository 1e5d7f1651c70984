"""The studio on paper: timelines and staircases on one axis, drawn a kind at a time so that size costs little."""

from typing import TYPE_CHECKING

import numpy as np

from pllab.show.boxes import (
    BAR_IN,
    digits_of,
    draw_held,
    draw_idle,
    draw_legend,
    first_stages,
    label_of,
    write_gaps,
    write_label,
)
from pllab.show.figures import Figure, drawing, figure
from pllab.show.studio.runs import KINDS, Columns, Measure, Screen, Shown
from pllab.show.theme import LIGHT, write_number, write_percent, write_seconds
from pllab.show.timeline_picture import show_rows, show_time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_WIDTH_IN = 11.0
_HEAD_IN = 0.42
_GAP_IN = 0.1
_FOOT_IN = 0.95
_LEFT, _SHARE = 0.09, 0.89
_MOST_LETTERS = 2000
_BOX, _HELD = 0.56, 0.3  # shares of a row
_STEADY_MARGINS = (-0.07, 1.06)  # of the longest step, where the steps before and after begin to show


def draw_studio(screen: Screen, memory_limit: float | None = None, steady: bool = False) -> Figure:
    """Every run on screen with its numbers: idle time is hatched, work lies on it, the memory of a rank below its row.

    A measured run is drawn below its prediction, on the same axis. `steady` draws steps that follow each other without
    a barrier.
    """
    runs = [one for one in (screen.main, screen.measured, screen.compared) if one]
    heights = [one.schedule.num_ranks * min(0.62, 5.0 / max(1, one.schedule.num_ranks)) for one in runs]
    total = sum(heights) + (_HEAD_IN + _GAP_IN) * len(runs) + _FOOT_IN
    longest = max(one.makespan for one in runs) or 1.0
    most = max(memory_limit or 0.0, 1.0, *(peak for one in runs for peak in one.most_held))
    with drawing(_WIDTH_IN, total) as fig:
        top = total
        for one, height in zip(runs, heights, strict=True):
            top -= _HEAD_IN + height
            axes = fig.add_axes((_LEFT, top / total, _SHARE, height / total))
            _prepare(axes, one, longest, steady)
            _draw_actions(axes, one, height, steady)
            _draw_held(axes, one, most, memory_limit, steady)
            top -= _GAP_IN
        unit, scale = ("s", 1.0) if longest >= 1 else ("ms", 1e3)
        show_time_axis(axes, unit)
        axes.xaxis.set_major_formatter(lambda time, _: f"{time * scale:g}")
        kinds = (KINDS[int(kind)] for one in runs for kind in one.columns[2])
        draw_legend(fig, kinds, len(KINDS) + 1, any(one.stages_per_rank > 1 for one in runs))
        return figure(fig, describe_studio(screen, memory_limit, steady))


def describe_studio(screen: Screen, memory_limit: float | None = None, steady: bool = False) -> str:
    """Sizes and numbers in a sentence for each run."""
    sentences = []
    for one in screen.runs():
        measure = one.steady if steady else one.step
        length = "a step every" if steady else "makespan"
        held = max(one.most_held, default=0.0)
        over = memory_limit is not None and held > memory_limit + 1e-6
        limit = f", over the limit of {write_number(memory_limit)}" if over and memory_limit is not None else ""
        sentences.append(
            f"{one.title}, {one.engine_words}: {length} {write_seconds(measure.length_s)}, "
            f"bubble fraction {write_percent(measure.bubble_fraction)}, "
            f"bubble overhead {write_percent(measure.bubble_overhead)}, "
            f"at most {write_number(held)} micro-batches held by a rank{limit}"
        )
    return "; ".join(sentences)


def _prepare(axes: "Axes", one: Shown, longest: float, steady: bool) -> None:
    measure: Measure = one.steady if steady else one.step
    axes.set_xlim(*(share * longest for share in (_STEADY_MARGINS if steady else (0.0, 1.0))))
    length = f"{'a step every' if steady else 'one step'} {write_seconds(measure.length_s)}"
    held = write_number(max(one.most_held, default=0.0))
    numbers = f"bubble fraction {write_percent(measure.bubble_fraction)}, {length}, holds {held} micro-batches"
    show_rows(axes, f"{one.label}: {numbers}", one.schedule.num_ranks)


def _draw_actions(axes: "Axes", one: Shown, height_in: float, steady: bool) -> None:
    """A slab of idle ink per rank and the work on it; the steps before and after are grey."""
    low, high = axes.get_xlim() if steady else (0.0, one.makespan)
    for rank in range(one.schedule.num_ranks):
        draw_idle(axes, (low, high - low), _band(rank))
    columns = one.columns
    points = _WIDTH_IN * _SHARE * 72 / (axes.get_xlim()[1] - axes.get_xlim()[0])
    widths = (columns[5] - columns[4]) * points
    edge = 0.8 if columns.shape[1] and float(np.median(widths)) > 4 else 0.0
    for by in (-one.steady.length_s, one.steady.length_s) if steady else ():
        _draw_boxes(axes, columns, np.ones(columns.shape[1], bool), LIGHT.held, LIGHT.held_line, edge, by)
    first = first_stages(one.timeline)
    later = columns[1] > np.array([first.get(rank, 0) for rank in columns[0].astype(int)])
    for kind, is_later in ((kind, is_later) for kind in KINDS for is_later in (False, True)):
        chosen = (columns[2] == KINDS.index(kind)) & (later == is_later)
        fill, outline = LIGHT.fill_of(kind, is_later), LIGHT.outline_of(kind)
        _draw_boxes(axes, columns, chosen, fill, outline, edge)
        if edge and kind in "FBI":
            bar = BAR_IN * one.schedule.num_ranks / height_in
            _draw_boxes(axes, columns, chosen, outline, outline, 0.0, bar=bar if kind == "F" else -bar)
    if edge and columns.shape[1] <= _MOST_LETTERS:
        _write_labels(axes, one, height_in, points)
        for rank in range(one.schedule.num_ranks if not steady else 0):
            write_gaps(axes, one.timeline, rank, _band(rank), (1.0, points))


def _draw_boxes(
    axes: "Axes",
    columns: Columns,
    chosen: "NDArray[np.bool_]",
    fill: str,
    outline: str,
    edge: float,
    by: float = 0.0,
    bar: float = 0.0,
) -> None:
    """Boxes of one colour, moved `by` seconds; with a bar that part alone, from the top or, below 0, the foot."""
    for rank in np.unique(columns[0, chosen]).astype(int):
        _, _, _, _, starts, ends = columns[:, chosen & (columns[0] == rank)]
        boxes = list(zip((starts + by).tolist(), (ends - starts).tolist(), strict=True))
        top, height = _band(rank)
        band = (top, bar) if bar > 0 else (top + height + bar, -bar) if bar else (top, height)
        axes.broken_barh(boxes, band, facecolor=fill, edgecolor=outline, linewidth=edge)


def _band(rank: int) -> tuple[float, float]:
    """Top and height of a row's boxes; the memory has the rest."""
    return rank - 0.46, _BOX


def _write_labels(axes: "Axes", one: Shown, height_in: float, points: float) -> None:
    """What stands on the boxes that have room for it."""
    digits, high = digits_of(one.timeline), height_in / one.schedule.num_ranks * 72 * _BOX
    for span in one.timeline.spans:
        if span.action.kind != "C":
            middle = (span.start + span.end) / 2, span.rank - 0.46 + _BOX / 2
            write_label(axes, middle, label_of(span, one.stages_per_rank > 1), (span.duration * points, high), digits)


def _draw_held(axes: "Axes", one: Shown, most: float, memory_limit: float | None, steady: bool) -> None:
    """The memory of each rank below its row; what is above the limit is red."""
    low, high = axes.get_xlim() if steady else (0.0, one.makespan)
    shifts = (-one.steady.length_s, 0.0, one.steady.length_s) if steady else (0.0,)
    for rank in range(len(one.most_held)):
        floor = rank + 0.46
        steps = one.timeline.held_over_time(rank)
        held = dict([(low, 0.0), *((time + by, count) for by in shifts for time, count in steps), (high, 0.0)])
        tops = [floor - _HELD * count / one.stages_per_rank / most for count in held.values()]
        limit = None if memory_limit is None else floor - _HELD * memory_limit / most - 1e-6
        draw_held(axes, list(held), tops, floor, limit)
