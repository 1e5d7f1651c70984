"""Boxes on paper: what the studio, the player and the editor draw in the browser, drawn by matplotlib.

Idle time is a slab of strong ink. Work lies on it in tints with outlines: a bar on top of a forward, one at the foot of
a backward, none for weights. The later stages of a rank are paler. A label is as long as its box allows.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pllab.show.theme import LIGHT, name_of, write_seconds
from pllab.timeline import Span, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

BAR_IN = 0.03  # the bar of a forward or a backward: 3 pixels at 100 dots per inch
_LINE_PT = 0.72  # an outline of one pixel
_LETTER_PT = 0.66  # width of a letter for each point of its size, rounded up
_SMALL_PT = 8.0  # 11 pixels at 100 dots per inch, the smallest that reads well

IDLE: dict[str, Any] = {"facecolor": LIGHT.idle, "edgecolor": LIGHT.idle_stripe, "hatch": "///", "linewidth": 0}
Range = tuple[float, float]  # start and length
Band = tuple[float, float]  # top and height


def first_stages(timeline: Timeline) -> dict[int, int]:
    """The lowest stage of each rank; boxes of later ones are paler."""
    stages: dict[int, int] = {}
    for span in timeline.spans:
        stages[span.rank] = min(span.action.stage, stages.get(span.rank, span.action.stage))
    return stages


def draw_idle(axes: "Axes", run: Range, band: Band) -> None:
    """A slab of idle time, which work then covers."""
    axes.broken_barh([run], band, **IDLE)


def draw_work(axes: "Axes", run: Range, band: Band, kind: str, *, is_later: bool = False, bar: float = 0.0) -> None:
    """A box of work in an axes whose rows grow downwards; `bar` is the height of the bar in its units."""
    line = LIGHT.outline_of(kind)
    axes.broken_barh([run], band, facecolor=LIGHT.fill_of(kind, is_later), edgecolor=line, linewidth=_LINE_PT)
    top = {"F": band[0], "B": band[0] + band[1] - bar, "I": band[0] + band[1] - bar}.get(kind)
    if top is not None:
        axes.broken_barh([run], (top, bar), facecolor=line, linewidth=0)


def draw_held(axes: "Axes", times: Sequence[float], tops: Sequence[float], floor: float, limit: float | None) -> None:
    """What a rank holds, a staircase on a floor in an axes whose rows grow downwards; above the limit it is red."""
    look: dict[str, Any] = {"facecolor": LIGHT.held, "edgecolor": LIGHT.held_line, "linewidth": _LINE_PT}
    axes.fill_between(times, floor, tops, step="post", **look)
    if limit is None:
        return
    over = [min(top, limit) for top in tops]
    axes.fill_between(times, limit, over, step="post", facecolor=LIGHT.over, linewidth=0)
    opacity = 1.0 if min(over) < limit else 0.5
    axes.hlines(limit, times[0], times[-1], color=LIGHT.over, linestyle=":", linewidth=1.0, alpha=opacity)


def write_idle(axes: "Axes", run: Range, middle: float, words: str, width_pt: float) -> None:
    """`idle 60 ms` on a slab, `60 ms` on a short one, nothing on a shorter one."""
    for text in (f"idle {words}", words):
        if width_pt >= _LETTER_PT * _SMALL_PT * len(text) + 6:
            at = run[0] + run[1] / 2, middle
            axes.text(*at, text, color=LIGHT.on_idle, size=_SMALL_PT + 0.5, ha="center", va="center_baseline")
            return


def write_label(
    axes: "Axes", middle: tuple[float, float], label: str, room_pt: tuple[float, float], digits: int = 1
) -> None:
    """The longest form of a label that fits a width and a height in points: `2F3`, `F3`, F above 3, or nothing.

    All numbers count as having `digits`, so that boxes of one width look alike.
    """
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


def digits_of(timeline: Timeline) -> int:
    """How many digits the number of its last micro-batch has."""
    return max((len(str(span.action.microbatch)) for span in timeline.spans), default=1)


def label_of(span: Span, with_stage: bool) -> str:
    """The label of a box: `F3`, or `2F3` if a rank has several stages."""
    stage = span.action.stage if with_stage else ""
    return f"{stage}{span.action.kind}{span.action.microbatch}"


def write_gaps(axes: "Axes", timeline: Timeline, rank: int, band: Band, scale: tuple[float, float]) -> None:
    """Say how long a rank idles, on each slab that has room; `scale` is axis units and points for each second."""
    per_second, points = scale
    for start, length in timeline.idle_times(rank):
        run = start * per_second, length * per_second
        write_idle(axes, run, band[0] + band[1] / 2, write_seconds(length), length * points)


def draw_legend(fig: "Canvas", kinds: Iterable[str], most_columns: int, has_later: bool = False) -> None:
    """The kinds that occur, the tint of later stages, and idle time, at the foot of a figure."""
    from matplotlib.patches import Patch

    letters = sorted(set(kinds), key="FRBIWCU".find)
    shown = [_swatch(letter, f"{letter}  {name_of(letter)}") for letter in letters]
    if has_later:
        shown.append(_swatch(letters[0], "later stage of its rank", is_later=True))
    idle = Patch(**IDLE, label="idle")
    handles = [*shown, idle]
    columns = min(len(handles), most_columns)
    by_kind = {handle: _with_bar(handle) for handle in shown}
    fig.legend(handles=handles, handler_map=by_kind, loc="lower center", ncols=columns, frameon=False, fontsize=10)


def _swatch(kind: str, label: str, is_later: bool = False) -> Any:
    from matplotlib.patches import Patch

    fill, line = LIGHT.fill_of(kind, is_later), LIGHT.outline_of(kind)
    return Patch(facecolor=fill, edgecolor=line, linewidth=_LINE_PT, label=label, gid=kind)


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
