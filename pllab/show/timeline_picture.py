"""A timeline on paper and in words: ranks as rows, one box per span, idle time in strong ink.

Several timelines share one time axis, each starting at zero, so a prediction can stand above its measurement. Widgets
and text alternatives use these words, and other pictures of schedules use this time axis.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from pllab.show.boxes import (
    BAR_IN,
    digits_of,
    draw_idle,
    draw_legend,
    draw_work,
    first_stages,
    label_of,
    write_gaps,
    write_label,
)
from pllab.show.figures import TITLE, Figure, drawing, figure
from pllab.show.theme import ENGINE_LABELS, count_of, write_percent, write_seconds
from pllab.timeline import Span, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_IN = 9.6
_ROW_IN = 0.44
_WIRED_ROW_IN = 0.58  # a row with a strip for communication below the work
_HEAD_IN = 0.42  # room above a timeline for its label
_FOOT_IN = 1.08  # room below the last one for the axis and the legend
_BOX = 0.8  # height of a box within its row of height 1
_WIRE = 0.32  # height of the strip for communication, where there is any


def describe_timeline(timeline: Timeline) -> str:
    """Say a timeline in one sentence, made from its numbers.

    Example: `real, 2 ranks, 8 micro-batches: makespan 412 ms, bubble fraction 11.8 %, bubble overhead
    13.4 %, at most 8 micro-batches in flight on rank 0`.
    """
    engine = ENGINE_LABELS[timeline.engine]
    ranks = count_of(timeline.num_ranks, "rank")
    if not timeline.spans:
        return f"{engine}, {ranks}: nothing ran"
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


def has_several_stages(timeline: Timeline) -> bool:
    """Whether some rank runs more than one stage, so that a label must name the stage."""
    pairs = {(span.rank, span.action.stage) for span in timeline.spans}
    return len(pairs) > len({rank for rank, _ in pairs})


def draw_timeline(*timelines: Timeline, titles: Sequence[str] | None = None) -> Figure:
    """Draw one or several timelines below each other on one time axis.

    `titles` names them, one each; the engine and the bubble fraction are always written beside the name.

    Raises:
        ValueError: no timeline was given, or the titles are not one for each timeline.
    """
    if not timelines:
        raise ValueError("draw_timeline() got 0 timelines; pass at least one Timeline")
    if titles is not None and len(titles) != len(timelines):
        raise ValueError(f"{len(titles)} titles do not fit {len(timelines)} timelines; give one title for each")
    names = [""] * len(timelines) if titles is None else list(titles)
    heights = [_height_of(timeline) for timeline in timelines]
    total = sum(heights) + _HEAD_IN * len(heights) + _FOOT_IN
    clock = _TimeAxis.for_longest(max(timeline.makespan for timeline in timelines))
    with drawing(_WIDTH_IN, total) as fig:
        top = total
        for timeline, name, height in zip(timelines, names, heights, strict=True):
            top -= _HEAD_IN + height
            axes = fig.add_axes((0.1, top / total, 0.88, height / total))
            _draw_one(axes, timeline.from_zero(), name, clock)
        show_time_axis(axes, clock.unit)
        kinds = (str(span.action.kind) for timeline in timelines for span in timeline.spans)
        draw_legend(fig, kinds, 5, any(map(has_several_stages, timelines)))
        return figure(fig, _describe_all(timelines, names))


@dataclass(frozen=True)
class _TimeAxis:
    """The shared time axis: its unit, units per second, and the longest run in that unit."""

    unit: str
    per_second: float
    longest: float

    @classmethod
    def for_longest(cls, longest_s: float) -> "_TimeAxis":
        unit, per_second = ("s", 1.0) if longest_s >= 1 else ("ms", 1e3)
        return cls(unit, per_second, longest_s * per_second or 1.0)

    def points(self, duration: float) -> float:
        """Width on paper of a duration in seconds, in points."""
        return duration * self.per_second / self.longest * (_WIDTH_IN * 0.88) * 72


def _height_of(timeline: Timeline) -> float:
    """Inches of its rows."""
    return timeline.num_ranks * (_WIRED_ROW_IN if _is_wired(timeline) else _ROW_IN)


@dataclass(frozen=True)
class _Rows:
    """What the boxes of one timeline have in common."""

    wired: bool
    staged: bool
    digits: int
    first: Mapping[int, int]

    @classmethod
    def of(cls, timeline: Timeline) -> "_Rows":
        return cls(_is_wired(timeline), has_several_stages(timeline), digits_of(timeline), first_stages(timeline))


def _draw_one(axes: "Axes", timeline: Timeline, name: str, clock: _TimeAxis) -> None:
    """One timeline into its panel: label, a slab for each rank, and the spans on top."""
    show_rows(axes, _label(timeline, name), timeline.num_ranks)
    axes.set_xlim(0, clock.longest)
    rows = _Rows.of(timeline)
    for rank in range(timeline.num_ranks):
        band = _band(rank, "", rows.wired)
        draw_idle(axes, (0.0, timeline.makespan * clock.per_second), band)
        write_gaps(axes, timeline, rank, band, (clock.per_second, clock.points(1.0)))
        for span, free_s in _uncovered(timeline.of_rank(rank)):
            _draw_span(axes, span, free_s, clock, rows)


def _band(rank: int, kind: str, wired: bool) -> tuple[float, float]:
    """Bottom and height of a box: communication runs on a strip below the work where a timeline has any."""
    top = rank - _BOX / 2
    if not wired:
        return top, _BOX
    return (top + _BOX - _WIRE, _WIRE) if kind == "C" else (top, _BOX - _WIRE)


def _uncovered(spans: Sequence[Span]) -> Iterator[tuple[Span, float]]:
    """Spans with the seconds of each that the next one in its strip does not cover: messages overlap."""
    for wire in (False, True):
        strip = [span for span in spans if (span.action.kind == "C") is wire]
        for span, later in zip_longest(strip, strip[1:]):
            yield span, min(span.end, later.start) - span.start if later else span.duration


def _draw_span(axes: "Axes", span: Span, free_s: float, clock: _TimeAxis, rows: _Rows) -> None:
    kind, band = str(span.action.kind), _band(span.rank, span.action.kind, rows.wired)
    start, row_in = span.start * clock.per_second, _WIRED_ROW_IN if rows.wired else _ROW_IN
    is_later = span.action.stage > rows.first[span.rank]
    draw_work(axes, (start, span.duration * clock.per_second), band, kind, is_later=is_later, bar=BAR_IN / row_in)
    middle = start + free_s * clock.per_second / 2, band[0] + band[1] / 2
    room = clock.points(free_s), band[1] * row_in * 72
    write_label(axes, middle, label_of(span, rows.staged), room, rows.digits)


def show_rows(axes: "Axes", title: str, num_ranks: int) -> None:
    """A title, and a row of height 1 for each rank from the top down, with the names that there is room for."""
    axes.set_title(title, **TITLE, pad=5)
    axes.set_ylim(num_ranks - 0.5, -0.5)
    ranks = range(0, num_ranks, max(1, num_ranks // 16))
    axes.set_yticks(list(ranks), [f"rank {rank}" for rank in ranks], fontsize=11 if num_ranks <= 12 else 8)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def show_time_axis(axes: "Axes", unit: str) -> None:
    """Round times below the lowest panel."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 2.5, 5, 10]))
    axes.tick_params(axis="x", length=4)
    axes.spines["bottom"].set_visible(True)
    axes.set_xlabel(f"time ({unit})")


def _is_wired(timeline: Timeline) -> bool:
    """Whether the timeline has communication to draw."""
    return any(span.action.kind == "C" for span in timeline.spans)


def _label(timeline: Timeline, name: str) -> str:
    engine = ENGINE_LABELS[timeline.engine]
    makespan, bubble = write_seconds(timeline.makespan), write_percent(timeline.bubble_fraction)
    numbers = f"makespan {makespan}, bubble fraction {bubble}"
    return f"{name}, {engine}: {numbers}" if name else f"{engine}: {numbers}"


def _describe_all(timelines: Sequence[Timeline], names: Sequence[str]) -> str:
    sentences = [
        f"{name}, {describe_timeline(timeline)}" if name else describe_timeline(timeline)
        for timeline, name in zip(timelines, names, strict=True)
    ]
    return "; ".join(sentences)
