"""A timeline on paper and in words: ranks as rows, one box per span, idle time in strong ink.

Several timelines share one time axis, each starting at zero, so a prediction can stand above its measurement. Widgets
and text alternatives use these words, and other pictures of schedules use this time axis.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest

from pllab.show.boxes import (
    BAR_IN,
    Band,
    Box,
    Labels,
    draw_held,
    draw_idle,
    draw_legend,
    draw_work,
    label_of,
    write_idle,
    write_label,
)
from pllab.show.figures import TITLE, Axes, Canvas, Figure, drawing, figure
from pllab.show.theme import ENGINE_LABELS, count_of, write_percent, write_seconds
from pllab.timeline import Span, Timeline

_WIDTH_IN = 9.6
_LEFT, _SHARE = 0.1, 0.88  # of the width, for the names of ranks and for the time
_ROW_IN = 0.44
_WIRED_ROW_IN = 0.58  # a row with a strip for communication below the work
_HEAD_IN = 0.42  # room above a timeline for its label
_FOOT_IN = 1.08  # room below the last one for the axis and the legend
_BAND = (-0.4, 0.8)  # of the boxes: from the middle of their row of height 1 up, and their height
ABOVE_MEMORY = (-0.46, 0.56)  # the same above what a rank holds
_FLOOR, _HELD = 0.46, 0.3  # of that: its foot in the row, and its height
_WIRE = 0.4  # share of the strip for communication, where there is any
_LEAST_PT = 4.0  # a box that is narrower has no outline


def describe_timeline(timeline: Timeline) -> str:
    """Say a timeline in one sentence, made from its numbers.

    Example: `real, 2 ranks, 8 micro-batches: makespan 412 ms, bubble fraction 11.8 %, bubble overhead
    13.4 %, at most 8 micro-batches in flight on rank 0`.
    """
    engine = ENGINE_LABELS[timeline.engine]
    ranks = count_of(timeline.num_ranks, "rank")
    computed = {span.action.microbatch for span in timeline.spans if span.action.kind not in ("C", "U")}
    parts = [
        f"makespan {write_seconds(timeline.makespan)}",
        f"bubble fraction {write_percent(timeline.bubble_fraction)}",
        f"bubble overhead {write_percent(timeline.bubble_overhead)}",
        *_describe_peak(timeline.peak_in_flight),
    ]
    return f"{engine}, {ranks}, {count_of(len(computed), 'micro-batch')}: {', '.join(parts)}"


def _describe_peak(peaks: Sequence[float]) -> list[str]:
    highest = max(peaks, default=0.0)
    if not highest:
        return []
    where = "every rank" if min(peaks) == highest and len(peaks) > 1 else f"rank {peaks.index(highest)}"
    return [f"at most {count_of(highest, 'micro-batch')} in flight on {where}"]


def draw_timeline(*timelines: Timeline, titles: Sequence[str] | None = None) -> Figure:
    """Draw one or several timelines below each other on one time axis.

    `titles` names them, one each; the engine and the bubble fraction are always written beside the name.
    """
    shown, told = [], []
    for name, one in zip(titles or [""] * len(timelines), timelines, strict=True):
        row_in = _WIRED_ROW_IN if Labels.of(one).wired else _ROW_IN
        shown.append((_label(one, name), one.from_zero(), row_in))
        told.append(f"{name}, {describe_timeline(one)}" if name else describe_timeline(one))
    with panels(shown) as (fig, drawn):
        for panel in drawn:
            draw_idle_times(panel)
            draw_spans(panel)
        return figure(fig, "; ".join(told))


@dataclass(frozen=True)
class Panel:
    """The axes of a timeline that starts at zero; all panels of a picture share the time axis.

    `row_in` is the height of a row in inches; a second is `per_second` units of the axes and `second_pt` points.
    """

    axes: Axes
    timeline: Timeline
    labels: Labels
    row_in: float
    per_second: float
    second_pt: float

    def strip(self, rank: int, kind: str, band: Band) -> Band:
        """Top and height of the boxes of a rank; with communication, that has a strip below the work."""
        top, height = rank + band[0], band[1]
        if not self.labels.wired:
            return top, height
        return (top + height * (1 - _WIRE), height * _WIRE) if kind == "C" else (top, height * (1 - _WIRE))

    def place(self, strip: Band, start: float, seconds: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """The middle of a box, and its width and height in points."""
        middle = (start + seconds / 2) * self.per_second, strip[0] + strip[1] / 2
        return middle, (seconds * self.second_pt, strip[1] * self.row_in * 72)


@contextmanager
def panels(shown: Sequence[tuple[str, Timeline, float]], axis_name: str = "") -> Iterator[tuple[Canvas, list[Panel]]]:
    """Panels below each other on one time axis, with a legend: a title, a timeline and the inches of a row each.

    `axis_name` names the axis where times are in another unit than seconds.
    """
    end = max(one.makespan for _, one, _ in shown) or 1.0
    unit, per_second = ("s", 1.0) if end >= 1 or axis_name else ("ms", 1e3)
    total = _FOOT_IN + sum(one.num_ranks * row_in + _HEAD_IN for _, one, row_in in shown)
    with drawing(_WIDTH_IN, total) as fig:
        drawn, top = [], total
        for title, timeline, row_in in shown:
            high = timeline.num_ranks * row_in
            top -= _HEAD_IN + high
            axes = fig.add_axes((_LEFT, top / total, _SHARE, high / total))
            _name_ranks(axes, title, timeline.num_ranks)
            axes.set_xlim(0, end * per_second)
            second_pt = _WIDTH_IN * _SHARE * 72 / end
            drawn.append(Panel(axes, timeline, Labels.of(timeline), row_in, per_second, second_pt))
        _show_time_axis(drawn[-1].axes, axis_name or f"time ({unit})")
        kinds = (str(span.action.kind) for _, one, _ in shown for span in one.spans)
        draw_legend(fig, kinds, any(panel.labels.staged for panel in drawn))
        yield fig, drawn


def draw_idle_times(panel: Panel, band: Band = _BAND, write: Callable[[float], str] = write_seconds) -> None:
    """A slab of idle time for each rank, which work then covers. `band` is where boxes are in a row of height 1."""
    for rank in range(panel.timeline.num_ranks):
        strip = panel.strip(rank, "", band)
        draw_idle(panel.axes, (0, panel.timeline.makespan * panel.per_second), strip)
        for start, end, _ in panel.timeline.idle_times(rank):
            write_idle(panel.axes, *panel.place(strip, start, end - start), write(end - start))


def draw_spans(panel: Panel, band: Band = _BAND) -> None:
    """The work of each rank as boxes with labels."""
    boxes = [
        Box(
            (span.start * panel.per_second, span.duration * panel.per_second),
            panel.strip(span.rank, span.action.kind, band),
            str(span.action.kind),
            panel.labels.is_later(span),
        )
        for span in panel.timeline.spans
    ]
    draw_work(panel.axes, boxes, BAR_IN / panel.row_in, _LEAST_PT / panel.second_pt * panel.per_second)
    for rank in range(panel.timeline.num_ranks):
        for span, free_s in _uncovered(panel.timeline.of_rank(rank)):
            middle, room = panel.place(panel.strip(rank, span.action.kind, band), span.start, free_s)
            write_label(panel.axes, middle, label_of(span.action, panel.labels.staged), room, panel.labels.digits)


def draw_memory(panel: Panel, stages_per_rank: float, most: float, limit: float | None = None) -> None:
    """Below each row the staircase of what its rank holds, up to `most` micro-batches on all its stages."""
    high = _HELD / most
    for rank in range(panel.timeline.num_ranks):
        floor = rank + _FLOOR
        steps = dict([(0.0, 0.0), *panel.timeline.held_over_time(rank), (panel.timeline.makespan, 0.0)])
        tops = [floor - high * count / stages_per_rank for count in steps.values()]
        times = [time * panel.per_second for time in steps]
        draw_held(panel.axes, times, tops, floor, None if limit is None else floor - high * limit)


def _uncovered(spans: Sequence[Span]) -> Iterator[tuple[Span, float]]:
    """Spans with the seconds of each that the next one in its strip does not cover: messages overlap."""
    for wire in (False, True):
        strip = [span for span in spans if (span.action.kind == "C") is wire]
        for span, later in zip_longest(strip, strip[1:]):
            yield span, min(span.end, later.start) - span.start if later else span.duration


def _name_ranks(axes: Axes, title: str, num_ranks: int) -> None:
    """A title, and a row of height 1 for each rank from the top down, with the names that there is room for."""
    axes.set_title(title, **TITLE, pad=5)
    axes.set_ylim(num_ranks - 0.5, -0.5)
    ranks = range(0, num_ranks, max(1, num_ranks // 16))
    axes.set_yticks(list(ranks), [f"rank {rank}" for rank in ranks], fontsize=11 if num_ranks <= 12 else 8)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def _show_time_axis(axes: Axes, name: str) -> None:
    """Round times below the lowest panel."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 2.5, 5, 10]))
    axes.tick_params(axis="x", length=4)
    axes.spines["bottom"].set_visible(True)
    axes.set_xlabel(name)


def _label(timeline: Timeline, name: str) -> str:
    engine = ENGINE_LABELS[timeline.engine]
    makespan, bubble = write_seconds(timeline.makespan), write_percent(timeline.bubble_fraction)
    numbers = f"makespan {makespan}, bubble fraction {bubble}"
    return f"{name}, {engine}: {numbers}" if name else f"{engine}: {numbers}"
