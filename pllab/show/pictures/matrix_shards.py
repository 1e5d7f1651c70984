"""Two matrix products split over ranks, moment by moment: which numbers each rank has, and where the ranks meet.

The first weight is split by columns and the second by rows, so that the ranks meet twice: in the forward for the output
and in the backward for the gradient of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from pllab.show.figures import Axes, Figure, draw_cell, drawing, figure
from pllab.show.theme import INK, LIGHT

Matrix = list[list[int]]
_LOOKS = {"whole": "F", "slice": "W", "term": "B", "sum": "C"}  # what a rank has of a matrix, and the kind it wears
_ABSENT = {"facecolor": LIGHT.ground, "edgecolor": LIGHT.soft, "linestyle": ":"}
_GAP, _LEFT, _ROOM = 1.1, 3.2, 2.0  # cells between two matrices, before the first one, and for the words above one
_STEPS = (  # what is told, and which matrices are read and made
    ("start: every rank has all of x, its columns of A and its rows of B", ("x", "A", "B")),
    ("step 1: each rank makes its columns of h = relu(x A), alone: relu needs no other column", ("x", "A", "h")),
    ("step 2: h times the rows of B gives each rank a term of every number of y; no rank has y", ("h", "B", "y")),
    ("step 3: all-reduce: the terms are added up, and every rank has all of y", ("y", "sum of y")),
    ("step 4, backward: from the gradient of y each rank makes a term of the gradient of x, dx", ("h", "B", "A", "dx")),
    ("step 5, backward: all-reduce: the terms are added up, and every rank has all of dx", ("dx", "sum of dx")),
)


@dataclass(frozen=True)
class RankMatrix:
    """What a rank has of a matrix, "whole", "slice", "term" or "sum"; a number that it has not is None."""

    name: str
    has: str
    cells: Sequence[Sequence[int | None]]

    @property
    def shape(self) -> list[int]:
        """Rows and columns of what the rank has."""
        rows = [[cell for cell in row if cell is not None] for row in self.cells]
        return [sum(map(bool, rows)), max(map(len, rows))]


@dataclass(frozen=True)
class ShardMoment:
    """A sentence, and for each rank the matrices that it reads and, last, the one it makes."""

    sentence: str
    ranks: list[list[RankMatrix]]

    @property
    def is_exchange(self) -> bool:
        """Whether the ranks add up their terms."""
        return self.ranks[0][-1].has == "sum"

    @property
    def width(self) -> float:
        """Cells from the name of a rank to its last matrix."""
        return _LEFT + sum(len(held.cells[0]) + _GAP for held in self.ranks[0])


def draw_shards(x: Matrix, a: Matrix, b: Matrix, num_ranks: int = 2, *, moment: int | None = None) -> Figure:
    """All moments of y = relu(x A) B on several ranks, or one of them, 0 to 5, in large.

    Example, for two ranks: `draw_shards([[1, 2]], [[1, 0, 2, -1], [0, 1, -1, 1]], [[1, 0], [0, 1], [2, 1], [1, 3]])`.
    x is (rows, in), A is (in, hidden) and B is (hidden, out), lists of whole numbers; relu keeps them whole. The
    gradient that arrives at y is 1 everywhere.

    Raises:
        ValueError: the shapes do not fit, or the ranks cannot share the hidden features.
    """
    moments = moments_of(x, a, b, num_ranks)
    shown = moments if moment is None else [moments[moment]]
    columns, cell = (3, 0.22) if moment is None else (1, 0.4)
    widths = [max(9.0, *(one.width for one in shown[column::columns])) for column in range(columns)]
    pitch = _ROOM + max(len(held.cells) for one in shown for held in one.ranks[0])  # from rank to rank
    lines, height = -(-len(shown) // columns), num_ranks * pitch
    size = cell * sum(widths), (cell * height + 0.75) * lines
    with drawing(*size, layout="constrained") as fig:
        grid = fig.subplots(lines, columns, squeeze=False, width_ratios=widths)
        for number, (axes, one) in enumerate(zip(grid.flat, shown, strict=True)):
            width = widths[number % columns]
            _draw_moment(axes, one, pitch)
            axes.set_title("\n".join(wrap(one.sentence, int(width * cell / 0.075))), loc="left", fontsize=9)
            axes.set_xlim(0, width)
            axes.set_ylim(height - _ROOM + 0.1, -_ROOM)
    told = [f"y = relu(x A) B on {num_ranks} ranks", "whole numbers, calculated"]
    return figure(fig, ". ".join([*told, *(one.sentence for one in shown)]) + ".")


def moments_of(x: Matrix, a: Matrix, b: Matrix, num_ranks: int) -> list[ShardMoment]:
    """The six moments, with the numbers of every rank.

    Raises:
        ValueError: the shapes do not fit, or the ranks cannot share the hidden features.
    """
    import numpy as np

    columns, rows, absent = np.array(a), np.array(b), np.array(None)
    product = np.array(x) @ columns
    hidden, passed = np.maximum(product, 0), (np.ones((len(x), len(b[0])), int) @ rows.T) * (product > 0)
    held = []
    for part in np.split(np.arange(len(b)), num_ranks):
        mine = np.isin(np.arange(len(b)), part)
        held.append(
            {
                "x": RankMatrix("x", "whole", x),
                "A": RankMatrix("A", "slice", np.where(mine, columns, absent).tolist()),
                "h": RankMatrix("h", "slice", np.where(mine, hidden, absent).tolist()),
                "B": RankMatrix("B", "slice", np.where(mine[:, None], rows, absent).tolist()),
                "y": RankMatrix("y", "term", (hidden[:, part] @ rows[part]).tolist()),
                "dx": RankMatrix("dx", "term", (passed[:, part] @ columns[:, part].T).tolist()),
                "sum of y": RankMatrix("y", "sum", (hidden @ rows).tolist()),
                "sum of dx": RankMatrix("dx", "sum", (passed @ columns.T).tolist()),
            }
        )
    return [_moment(words, [[rank[name] for name in names] for rank in held]) for words, names in _STEPS]


def _moment(words: str, ranks: list[list[RankMatrix]]) -> ShardMoment:
    """What the ranks read and make; its sentence ends with the first numbers of the terms, `3 + (-4) = -1`."""
    terms = [held.cells[0][0] for rank in ranks for held in rank if held.has == "term"]
    made = ranks[0][-1]
    if made.has == "sum":
        added = " + ".join(f"({first})" if str(first).startswith("-") else str(first) for first in terms)
        words = f"{words}; first number: {added} = {made.cells[0][0]}"
    elif terms:
        words = f"{words}; first numbers: {terms}"
    return ShardMoment(words, ranks)


def _draw_moment(axes: Axes, moment: ShardMoment, pitch: float) -> None:
    """The ranks one above the other; an arrow joins those that add up their terms."""
    for rank, matrices in enumerate(moment.ranks):
        top, left = rank * pitch, _LEFT
        middle = top + len(matrices[0].cells) / 2
        axes.text(0, middle, f"rank {rank}", va="center", fontsize=9)
        for held in matrices:
            if held is matrices[-1] and not moment.sentence.startswith("start"):
                axes.text(left - _GAP / 2, top + len(held.cells) / 2, "→", ha="center", va="center", fontsize=10)
            _draw_matrix(axes, held, left, top)
            left += len(held.cells[0]) + _GAP
        if rank and moment.is_exchange:
            color, ends = LIGHT.outline_of("C"), ((_LEFT - 0.4, middle), (_LEFT - 0.4, middle - pitch))
            axes.annotate("", *ends, arrowprops={"arrowstyle": "<->", "color": color, "linewidth": 2})
            words: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 8.5, "color": color}
            axes.text(_LEFT - 0.6, middle - pitch / 2, "all-reduce", **words)
    axes.set_axis_off()
    axes.set_aspect("equal", anchor="NW")


def _draw_matrix(axes: Axes, held: RankMatrix, left: float, top: float) -> None:
    axes.text(left, top - 0.15, f"{held.name} {held.shape}\n{held.has}", fontsize=8, color=INK, va="bottom")
    for i, row in enumerate(held.cells):
        for k, number in enumerate(row):
            look = _ABSENT if number is None else LIGHT.paint_of(_LOOKS[held.has])
            draw_cell(axes, (left + k, top + i), 1, 1, **look)
            if number is not None:
                place = left + k + 0.5, top + i + 0.5
                axes.text(*place, str(number), ha="center", va="center", fontsize=8.5, color=LIGHT.ink)
