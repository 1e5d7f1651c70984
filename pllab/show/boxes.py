"""Boxes on paper: what the studio, the player and the editor draw in the browser, drawn by matplotlib.

Idle time is a slab of strong ink. Work lies on it in tints with outlines: a bar on top of a forward, one at the foot of
a backward, none for weights. The later stages of a rank are paler. A label is as long as its box allows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pllab.show.figures import Axes, Canvas
from pllab.show.theme import LIGHT, NAMES
from pllab.timeline import ActionLike, Span, Timeline

BAR_IN = 0.03  # the bar of a forward or a backward: 3 pixels at 100 dots per inch
_LINE_PT = 0.72  # an outline of one pixel
_LETTER_PT = 0.66  # width of a letter for each point of its size, rounded up
_MOST_STROKES = 2000  # up to here a box is drawn alone, on whole pixels; more are drawn together, which is fast
_SMALL_PT = 8.0  # 11 pixels at 100 dots per inch, the smallest that reads well

IDLE: dict[str, Any] = {"facecolor": LIGHT.idle, "edgecolor": LIGHT.idle_stripe, "hatch": "///", "linewidth": 0}
Range = tuple[float, float]  # start and length
Band = tuple[float, float]  # top and height


class Box(NamedTuple):
    """An action on paper: when it begins and how long it is, top and height of its band, and how it looks."""

    run: Range
    band: Band
    kind: str
    is_later: bool = False


@dataclass(frozen=True)
class Labels:
    """What the boxes of a timeline have in common, in a picture and in words.

    Args:
        staged: whether a rank runs more than one stage, so that a label must name the stage.
        digits: how many the number of the last micro-batch has; all labels have room for as many.
        first: the lowest stage of each rank; boxes of later ones are paler.
        wired: whether it has communication, which runs on a strip below the work.
    """

    staged: bool
    digits: int
    first: Mapping[int, int]
    wired: bool

    @classmethod
    def of(cls, timeline: Timeline) -> "Labels":
        """Those of a timeline."""
        stages: dict[int, set[int]] = {}
        for span in timeline.spans:
            stages.setdefault(span.rank, set()).add(span.action.stage)
        last = max((span.action.microbatch for span in timeline.spans), default=0)
        first = {rank: min(each) for rank, each in stages.items()}
        wired = any(span.action.kind == "C" for span in timeline.spans)
        return cls(any(len(each) > 1 for each in stages.values()), len(str(last)), first, wired)

    def is_later(self, span: Span) -> bool:
        """Whether an action is of another stage than the first of its rank."""
        return span.action.stage > self.first[span.rank]


def label_of(action: ActionLike, staged: bool) -> str:
    """The label of a box: `F3`, or `2F3` where a rank has several stages."""
    return f"{action.stage if staged else ''}{action.kind}{action.microbatch}"


def data_of(span: Span, labels: Labels) -> dict[str, Any]:
    """What a widget draws for a span: `{"kind": "F", "is_later": False, "text": "F3", "start": 3.0, "end": 4.0}`."""
    return {
        "kind": str(span.action.kind),
        "is_later": labels.is_later(span),
        "text": label_of(span.action, labels.staged),
        "start": span.start,
        "end": span.end,
    }


def draw_idle(axes: Axes, run: Range, band: Band) -> None:
    """A slab of idle time, which work then covers."""
    axes.broken_barh([run], band, **IDLE)


def draw_work(axes: Axes, boxes: Iterable[Box], bar: float = 0.0, least: float = 0.0) -> None:
    """Boxes of work in an axes whose rows grow downwards.

    `bar` is the height of the bar in units of the axes. A box that is shorter than `least` has no outline.
    """
    from matplotlib.collections import PolyCollection

    parts = []
    for (start, length), (top, height), kind, is_later in boxes:
        fill, line = LIGHT.fill_of(kind, is_later), LIGHT.outline_of(kind)
        is_wide = length >= least
        parts.append(((start, length), (top, height), fill, line, _LINE_PT if is_wide else 0.0))
        edge = {"F": top, "B": top + height - bar, "I": top + height - bar}.get(kind)
        if edge is not None and bar and is_wide:
            parts.append(((start, length), (edge, bar), line, line, 0.0))
    strokes = [[part] for part in parts] if len(parts) <= _MOST_STROKES else [parts]
    for stroke in strokes:
        shapes = [
            [(start, top), (start, top + height), (start + length, top + height), (start + length, top)]
            for (start, length), (top, height), *_ in stroke
        ]
        fills, lines, widths = zip(*(look for _, _, *look in stroke), strict=True)
        drawn = PolyCollection(shapes, facecolors=fills, edgecolors=lines, linewidths=widths)
        axes.add_collection(drawn, autolim=False)


def draw_held(axes: Axes, times: Sequence[float], tops: Sequence[float], floor: float, limit: float | None) -> None:
    """What a rank holds, a staircase on a floor in an axes whose rows grow downwards; above the limit it is red."""
    look: dict[str, Any] = {"facecolor": LIGHT.held, "edgecolor": LIGHT.held_line, "linewidth": _LINE_PT}
    axes.fill_between(times, floor, tops, step="post", **look)
    if limit is None:
        return
    over = [min(top, limit) for top in tops]
    axes.fill_between(times, limit, over, step="post", facecolor=LIGHT.over, linewidth=0)
    opacity = 1.0 if min(over) < limit else 0.5
    axes.hlines(limit, times[0], times[-1], color=LIGHT.over, linestyle=":", linewidth=1.0, alpha=opacity)


def write_idle(axes: Axes, middle: tuple[float, float], room_pt: tuple[float, float], words: str) -> None:
    """`idle 60 ms` on a slab, `60 ms` on a short one, nothing on a shorter one."""
    for text in (f"idle {words}", words):
        if room_pt[0] >= _LETTER_PT * _SMALL_PT * len(text) + 6 and room_pt[1] >= 1.1 * _SMALL_PT:
            axes.text(*middle, text, color=LIGHT.on_idle, size=_SMALL_PT + 0.5, ha="center", va="center_baseline")
            return


def write_label(
    axes: Axes, middle: tuple[float, float], label: str, room_pt: tuple[float, float], digits: int = 1
) -> None:
    """The longest form of a label that fits a width and a height in points: `2F3`, `F3`, F above 3, or nothing.

    All numbers count as having `digits`, so that boxes of one width look alike.
    """
    if room_pt[0] < _SMALL_PT:
        return
    short = label.lstrip("0123456789")
    more = digits - len(short) + 1
    full_pt = 10.0 if room_pt[1] >= 14 else _SMALL_PT
    forms = [(text, size) for text in (label, short) for size in (full_pt, _SMALL_PT + 0.5)]
    for text, size in [*forms, (f"{short[:1]}\n{short[1:]}", _SMALL_PT)]:
        lines = text.split("\n")
        width = _LETTER_PT * size * (len(lines[-1]) + more) + 3
        if width <= room_pt[0] and 1.1 * size * len(lines) <= room_pt[1]:
            va = "center_baseline" if len(lines) == 1 else "center"
            axes.text(*middle, text, color=LIGHT.ink, size=size, ha="center", va=va, linespacing=0.95)
            return


def draw_legend(fig: Canvas, kinds: Iterable[str], has_later: bool = False) -> None:
    """The kinds that occur, the tint of later stages, and idle time, at the foot of a figure."""
    from matplotlib.patches import Patch

    letters = sorted(set(kinds), key="FRBIWCU".find)
    shown = [_swatch(letter, f"{letter}  {NAMES[letter]}") for letter in letters]
    if has_later:
        shown.append(_swatch(letters[0], "later stage of its rank", is_later=True))
    idle = Patch(**IDLE, label="idle")
    handles = [*shown, idle]
    columns = min(len(handles), 5)
    by_kind = {handle: _with_bar(handle) for handle in shown}
    fig.legend(handles=handles, handler_map=by_kind, loc="lower center", ncols=columns, frameon=False, fontsize=10)


def _swatch(kind: str, label: str, is_later: bool = False) -> Any:
    from matplotlib.patches import Patch

    return Patch(**LIGHT.paint_of(kind, is_later), linewidth=_LINE_PT, label=label, gid=kind)


def _with_bar(swatch: Any) -> Any:
    """The legend's picture of a swatch: its box, and the bar of its kind."""
    from matplotlib.legend_handler import HandlerPatch
    from matplotlib.patches import Rectangle

    place = {"F": 1.0, "B": 0.0, "I": 0.0}.get(swatch.get_gid())

    class WithBar(HandlerPatch):
        def create_artists(self, *given: Any) -> Sequence[Any]:
            boxes = super().create_artists(*given)
            if place is None:
                return boxes
            left, base, width, height = given[2:6]
            bar_pt = BAR_IN * 72
            corner = -left, -base + place * (height - bar_pt)
            bar = Rectangle(corner, width, bar_pt, facecolor=swatch.get_edgecolor(), linewidth=0, transform=given[7])
            return [*boxes, bar]

    return WithBar()
