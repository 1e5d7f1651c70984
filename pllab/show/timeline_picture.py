"""A timeline on paper and in words: devices as rows, one box per span, idle time hatched.

Several timelines share one time axis, each starting at zero, so a prediction can stand above its measurement. Widgets
and text alternatives use these words, and other pictures of schedules use this legend and time axis.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import (
    ENGINE_LABELS,
    HATCH_GREY,
    IDLE,
    INK,
    Paint,
    count_of,
    paint_of,
    write_percent,
    write_seconds,
)
from pllab.timeline import Span, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_WIDTH_IN = 9.6
_ROW_IN = 0.44
_WIRED_ROW_IN = 0.58  # a row with a strip for communication below the work
_HEAD_IN = 0.42  # room above a timeline for its label
_FOOT_IN = 1.08  # room below the last one for the axis and the legend
_BOX = 0.8  # height of a box within its row of height 1
_WIRE = 0.32  # height of the strip for communication, where there is any
_FONT_PT = 10.0
_SMALL_PT = 8.0  # 11 pixels at 100 dots per inch, the smallest that reads well
_DIGIT_PT = 6.6  # width of a letter at that size, rounded up


def describe_timeline(timeline: Timeline) -> str:
    """Say a timeline in one sentence, made from its numbers.

    Example: `real, 2 devices, 8 micro-batches: makespan 412 ms, bubble fraction 11.8 %, bubble overhead
    13.4 %, at most 8 micro-batches in flight on device 0`.
    """
    engine = ENGINE_LABELS[timeline.engine]
    devices = count_of(timeline.num_ranks, "device")
    if not timeline.spans:
        return f"{engine}, {devices}: nothing ran"
    computed = {span.action.microbatch for span in timeline.spans if span.action.kind not in ("C", "U")}
    parts = [
        f"makespan {write_seconds(timeline.makespan)}",
        f"bubble fraction {write_percent(timeline.bubble_fraction)}",
        f"bubble overhead {write_percent(timeline.bubble_overhead)}",
        *_describe_peak(timeline.peak_in_flight),
    ]
    return f"{engine}, {devices}, {count_of(len(computed), 'micro-batch')}: {', '.join(parts)}"


def _describe_peak(peaks: Sequence[float]) -> list[str]:
    highest = max(peaks, default=0.0)
    if not highest:
        return []
    where = "every device" if min(peaks) == highest and len(peaks) > 1 else f"device {peaks.index(highest)}"
    return [f"at most {count_of(highest, 'micro-batch')} in flight on {where}"]


def label_of(span: Span, with_stage: bool) -> str:
    """The label of a box: `F3`, or `2F3` if a device has several stages."""
    stage = span.action.stage if with_stage else ""
    return f"{stage}{span.action.kind}{span.action.microbatch}"


def has_several_stages(timeline: Timeline) -> bool:
    """Whether some device runs more than one stage, so that a label must name the stage."""
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
    clock = _Clock.for_longest(max(timeline.makespan for timeline in timelines))
    with drawing(_WIDTH_IN, total) as fig:
        top = total
        for timeline, name, height in zip(timelines, names, heights, strict=True):
            top -= _HEAD_IN + height
            axes = fig.add_axes((0.1, top / total, 0.88, height / total))
            _draw_one(axes, timeline.from_zero(), name, clock)
        show_time_axis(axes, clock.unit)
        draw_legend(fig, (str(span.action.kind) for timeline in timelines for span in timeline.spans), 5)
        return figure(fig, _describe_all(timelines, names))


@dataclass(frozen=True)
class _Clock:
    """The shared time axis: its unit, units per second, and the longest run in that unit."""

    unit: str
    per_second: float
    longest: float

    @classmethod
    def for_longest(cls, longest_s: float) -> "_Clock":
        unit, per_second = ("s", 1.0) if longest_s >= 1 else ("ms", 1e3)
        return cls(unit, per_second, longest_s * per_second or 1.0)

    def points(self, duration: float) -> float:
        """Width on paper of a duration in seconds, in points."""
        return duration * self.per_second / self.longest * (_WIDTH_IN * 0.88) * 72


def _height_of(timeline: Timeline) -> float:
    """Inches of its rows."""
    return timeline.num_ranks * (_WIRED_ROW_IN if _is_wired(timeline) else _ROW_IN)


def _draw_one(axes: "Axes", timeline: Timeline, name: str, clock: _Clock) -> None:
    """One timeline into its panel: label, hatched rows, and the spans on top."""
    axes.set_title(_label(timeline, name), loc="left", fontsize=11.5, fontweight="bold", pad=5)
    axes.set_xlim(0, clock.longest)
    axes.set_ylim(timeline.num_ranks - 0.5, -0.5)
    axes.set_yticks(range(timeline.num_ranks), [f"device {rank}" for rank in range(timeline.num_ranks)])
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    wired, staged = _is_wired(timeline), has_several_stages(timeline)
    for rank in range(timeline.num_ranks):
        _draw_box(axes, (0.0, timeline.makespan * clock.per_second), _band(rank, "", wired), IDLE, 0.8)
        for span, free_s in _uncovered(timeline.of_rank(rank)):
            _draw_span(axes, span, free_s, _band(rank, span.action.kind, wired), clock, staged)


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


def _draw_span(axes: "Axes", span: Span, free_s: float, band: tuple[float, float], clock: _Clock, staged: bool) -> None:
    paint = paint_of(span.action.kind)
    start, width = span.start * clock.per_second, span.duration * clock.per_second
    _draw_box(axes, (start, width), band, paint, min(0.9, 0.1 * clock.points(span.duration)))
    label = label_of(span, staged)
    size = _FONT_PT if band[1] > _WIRE else _SMALL_PT
    if clock.points(free_s) >= _DIGIT_PT * len(label) * size / _FONT_PT + 4:
        write_in_box(axes, (start + free_s * clock.per_second / 2, band[0] + band[1] / 2), label, paint, size)


def _draw_box(axes: "Axes", run: tuple[float, float], band: tuple[float, float], paint: Paint, outline: float) -> None:
    """A filled box, its pattern in a paler colour than its outline."""
    edge = HATCH_GREY if paint is IDLE else INK
    if paint.hatch:
        pattern = edge if paint is IDLE else INK + "99"
        axes.broken_barh([run], band, facecolor=paint.fill, edgecolor=pattern, hatch=paint.hatch, linewidth=0)
    face = "none" if paint.hatch else paint.fill
    axes.broken_barh([run], band, facecolor=face, edgecolor=edge, linewidth=outline)


def write_in_box(
    axes: "Axes", middle: tuple[float, float], text: str, paint: Paint, size: float, pad: float = 0.8
) -> None:
    """A word in a box; a plate of the fill colour keeps the letters clear of the pattern."""
    plate = {"facecolor": paint.fill, "edgecolor": "none", "pad": pad} if paint.hatch else None
    axes.text(*middle, text, color=paint.text, size=size, ha="center", va="center_baseline", bbox=plate)


def show_time_axis(axes: "Axes", unit: str) -> None:
    """Round times below the lowest panel."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 2.5, 5, 10]))
    axes.tick_params(axis="x", length=4)
    axes.spines["bottom"].set_visible(True)
    axes.set_xlabel(f"time ({unit})")


def draw_legend(fig: "Canvas", kinds: Iterable[str], most_columns: int) -> None:
    """The kinds that occur, and idle time, at the foot of a figure."""
    from matplotlib.patches import Patch

    paints = [*(paint_of(kind) for kind in sorted(set(kinds), key="FRBIWCU".find)), IDLE]
    handles = [
        Patch(
            facecolor=paint.fill,
            edgecolor=HATCH_GREY if paint is IDLE else INK,
            hatch=paint.hatch,
            label=f"{paint.letter}  {paint.name}".strip(),
        )
        for paint in paints
    ]
    columns = min(len(handles), most_columns)
    fig.legend(handles=handles, loc="lower center", ncols=columns, frameon=False, fontsize=10)


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
