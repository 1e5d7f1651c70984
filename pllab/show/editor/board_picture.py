"""The printed twin of the schedule editor: the same rows, edges, measured spans and memory, drawn by matplotlib."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from pllab.show.boxes import BAR_IN, Box, draw_held, draw_idle, draw_work, write_label
from pllab.show.figures import TITLE, Axes, Figure, drawing, figure
from pllab.show.theme import LIGHT

_WIDTH_IN = 9.6
_ROW_IN = 0.46
_BLOCK = 0.8  # heights within a row, whose height is 1 plus what follows
_RAN = 0.45
_STEP = 0.07  # between a prediction and its measurement
_MEMORY = 0.5
_GAP = 0.25


def draw_board(view: Mapping[str, Any], alt: str) -> Figure:
    """Draw a view of `view_of`: predicted blocks, measured ones below them, and the memory of each rank."""
    rows = view["rows"]
    ran = _RAN if any(row["measured"] for row in rows) else 0.0
    until = max((block["end"] for row in rows for block in row["blocks"]), default=0.0)
    pitch = _BLOCK + ran + _MEMORY + _GAP
    with drawing(_WIDTH_IN, _ROW_IN * pitch * len(rows) + 1.2, layout="constrained") as fig:
        axes = fig.add_subplot()
        axes.set_xlim(0, view["end"])
        axes.set_ylim(pitch * len(rows) - _GAP, -0.55)
        _name(axes, view, pitch)
        for rank, row in enumerate(rows):
            top = pitch * rank
            if view["has_times"]:
                draw_idle(axes, (0, until), (top, _BLOCK))
            _draw_blocks(axes, row["blocks"], (top, _BLOCK), view)
            _draw_blocks(axes, row["measured"], (top + _BLOCK + _STEP, ran - _STEP), view)
            _draw_memory(axes, row, view, top + _BLOCK + ran + _MEMORY)
        _draw_edges(axes, view, pitch)
        return figure(fig, alt)


def _name(axes: Axes, view: Mapping[str, Any], pitch: float) -> None:
    numbers = view["numbers"]
    outcome = f"{numbers[0]}, engine simulated" if numbers else "cannot run"
    parts = [outcome if view["is_legal"] else f"illegal, {outcome}", *([view["score"]] if view["score"] else [])]
    title = f"{view['title']}: {', '.join(parts)}"
    axes.set_title(title, **TITLE)
    middles = [pitch * rank + (0.0 if view["measured"] else _BLOCK / 2) for rank in range(len(view["rows"]))]
    names = [
        "\n".join(filter(None, (f"rank {rank}", row["held"], row["ran"]))) for rank, row in enumerate(view["rows"])
    ]
    axes.set_yticks(middles, names, fontsize=9, va="center" if not view["measured"] else "top")
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([tick["at"] for tick in view["ticks"]] if view["has_times"] else [])
    axes.set_xlabel(fill(view["axis"], 110), fontsize=10)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_blocks(
    axes: Axes, blocks: Sequence[Mapping[str, Any]], band: tuple[float, float], view: Mapping[str, Any]
) -> None:
    runs = [(block["start"], block["end"] - block["start"]) for block in blocks]
    boxes = [Box(run, band, block["kind"], block["is_later"]) for run, block in zip(runs, blocks, strict=True)]
    draw_work(axes, boxes, BAR_IN / _ROW_IN)
    for (start, length), block in zip(runs, blocks, strict=True):
        room = length / view["end"] * _WIDTH_IN * 0.86 * 72, band[1] * _ROW_IN * 72
        write_label(axes, (start + length / 2, band[0] + band[1] / 2), block["text"], room, view["digits"])


def _draw_memory(axes: Axes, row: Mapping[str, Any], view: Mapping[str, Any], floor: float) -> None:
    """The staircase of micro-batches held, on a floor, and the limit as a dotted line."""
    height = (_MEMORY - 0.1) / view["most"]
    held = {0.0: 0.0} | dict(row["memory"]) | {view["end"]: 0.0}  # what changes at one moment is one step
    limit = None if view["limit"] is None else floor - view["limit"] * height
    draw_held(axes, list(held), [floor - count * height for count in held.values()], floor, limit)


def _draw_edges(axes: Axes, view: Mapping[str, Any], pitch: float) -> None:
    """A dashed arrow from an action that must run first to one that is too early."""
    places = {
        block["id"]: (rank, (block["start"] + block["end"]) / 2)
        for rank, row in enumerate(view["rows"])
        for block in row["blocks"]
    }
    for needed, waiting in view["edges"]:
        if needed not in places or waiting not in places:
            continue
        (rank, x), (to_rank, to_x) = places[needed], places[waiting]
        start = (x, pitch * rank + (_BLOCK if rank < to_rank else 0.0))
        end = (to_x, pitch * to_rank + (_BLOCK if to_rank < rank else 0.0))
        bend = "arc3,rad=0.35" if rank == to_rank else "arc3,rad=0.1"
        style = {
            "arrowstyle": "-|>",
            "connectionstyle": bend,
            "linestyle": "--",
            "color": LIGHT.over,
            "linewidth": 2.2,
        }
        axes.annotate("", xy=end, xytext=start, arrowprops=style)
