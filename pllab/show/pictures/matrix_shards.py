"""Two matrix products split over ranks, moment by moment: which numbers each rank has, and where the ranks meet.

The first weight is split by columns and the second by rows, so that the ranks meet twice: in the forward for the output
and in the backward for the gradient of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from pllab.show.figures import Axes, Figure, draw_cell, drawing, figure
from pllab.show.theme import INK, LIGHT

Matrix = list[list[int]]
MOST_RANKS, MOST_SIDE = 4, 8
_LOOKS = {"whole": "F", "slice": "W", "term": "B", "sum": "C"}  # what a rank has of a matrix, and the kind it wears
_GAP, _NAME, _ARROW = 1.1, 2.3, 1.3  # cells between two matrices, for the name of a rank, and for an all-reduce
_ROOM = 2.0  # and above a matrix, for its words
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
    def left(self) -> float:
        """Cells before the first matrix."""
        return _NAME + _ARROW * self.is_exchange

    @property
    def width(self) -> float:
        """Cells from the name of a rank to its last matrix."""
        return self.left + sum(len(held.cells[0]) + _GAP for held in self.ranks[0])

    @property
    def pitch(self) -> float:
        """Cells from rank to rank."""
        return _ROOM + max(len(held.cells) for held in self.ranks[0])


def draw_shards(x: Matrix, a: Matrix, b: Matrix, num_ranks: int = 2, *, moment: int | None = None) -> Figure:
    """All moments of y = relu(x A) B on several ranks, or one of them, 0 to 5, in large.

    Example, for two ranks: `draw_shards([[1, 2]], [[1, 0, 2, -1], [0, 1, -1, 1]], [[1, 0], [0, 1], [2, 1], [1, 3]])`.
    x is (rows, in), A is (in, hidden) and B is (hidden, out), lists of whole numbers; relu keeps them whole. The
    gradient that arrives at y is 1 everywhere.

    Raises:
        ValueError: the shapes do not fit, the ranks cannot share the hidden features, there is no room, or there is no
            such moment.
    """
    moments = moments_of(x, a, b, num_ranks)
    if moment is not None and not 0 <= moment < len(moments):
        raise ValueError(f"moment {moment} does not exist; choose 0 to {len(moments) - 1}")
    shown = moments if moment is None else [moments[moment]]
    columns, cell = (3, 0.22) if moment is None else (1, 0.4)
    widths = [max(9.0, *(one.width for one in shown[column::columns])) for column in range(columns)]
    lines = [shown[first : first + columns] for first in range(0, len(shown), columns)]
    heights = [num_ranks * max(one.pitch for one in line) for line in lines]
    size = cell * sum(widths), cell * sum(heights) + 0.75 * len(lines)
    with drawing(*size, layout="constrained") as fig:
        grid = fig.subplots(len(lines), columns, squeeze=False, width_ratios=widths, height_ratios=heights)
        for number, (axes, one) in enumerate(zip(grid.flat, shown, strict=True)):
            line, column = divmod(number, columns)
            _draw_moment(axes, one)
            axes.set_title("\n".join(wrap(one.sentence, int(widths[column] * cell / 0.075))), loc="left", fontsize=9)
            axes.set_xlim(0, widths[column])
            axes.set_ylim(heights[line] - _ROOM + 0.1, -_ROOM)
    told = [f"y = relu(x A) B on {num_ranks} ranks", "whole numbers, calculated"]
    return figure(fig, ". ".join([*told, *(one.sentence for one in shown)]) + ".")


def moments_of(x: Matrix, a: Matrix, b: Matrix, num_ranks: int) -> list[ShardMoment]:
    """The six moments, with the numbers of every rank.

    Raises:
        ValueError: the shapes do not fit, the ranks cannot share the hidden features, or there is no room.
    """
    import numpy as np

    _check(x, a, b, num_ranks)
    given, columns, rows = np.array(x), np.array(a), np.array(b)
    product = given @ columns
    hidden, passed = np.maximum(product, 0), (np.ones((len(x), len(b[0])), int) @ rows.T) * (product > 0)
    held = []
    for part in np.split(np.arange(len(b)), num_ranks):
        rank = [
            RankMatrix("x", "whole", x),
            *(_slice(name, cells.tolist(), part) for name, cells in (("A", columns), ("h", hidden))),
            RankMatrix("B", "slice", [row if k in part else [None] * len(row) for k, row in enumerate(b)]),
            RankMatrix("y", "term", (hidden[:, part] @ rows[part]).tolist()),
            RankMatrix("dx", "term", (passed[:, part] @ columns[:, part].T).tolist()),
        ]
        held.append({one.name: one for one in rank})
    sums = {f"sum of {name}": _sum([rank[name] for rank in held]) for name in ("y", "dx")}
    return [_moment(words, [[(rank | sums)[name] for name in names] for rank in held]) for words, names in _STEPS]


def _sum(terms: Sequence[RankMatrix]) -> RankMatrix:
    """What an all-reduce makes of the terms of all ranks."""
    import numpy as np

    return RankMatrix(terms[0].name, "sum", np.sum([np.array(term.cells) for term in terms], axis=0).tolist())


def _moment(words: str, ranks: list[list[RankMatrix]]) -> ShardMoment:
    """What the ranks read and make; its sentence ends with the first numbers of the terms, `3 + (-4) = -1`."""
    terms = [held.cells[0][0] for rank in ranks for held in rank if held.has == "term"]
    firsts = [first for first in terms if first is not None]
    moment = ShardMoment(words, ranks)
    if not firsts:
        return moment
    added = " + ".join(f"({first})" if first < 0 else str(first) for first in firsts)
    told = f"first number: {added} = {sum(firsts)}" if moment.is_exchange else f"first numbers: {firsts}"
    return replace(moment, sentence=f"{words}; {told}")


def _check(x: Matrix, a: Matrix, b: Matrix, num_ranks: int) -> None:
    for name, matrix in (("x", x), ("A", a), ("B", b)):
        if not matrix or not matrix[0] or any(len(row) != len(matrix[0]) for row in matrix):
            raise ValueError(f"{name} is no matrix; give rows of equal length")
        if max(len(matrix), len(matrix[0])) > MOST_SIDE:
            raise ValueError(f"{name} is {len(matrix)} by {len(matrix[0])}; the picture has room for {MOST_SIDE}")
    if (len(x[0]), len(a[0])) != (len(a), len(b)):
        raise ValueError(f"x has {len(x[0])} columns, A is {len(a)} by {len(a[0])}, B has {len(b)} rows; they must fit")
    if not 2 <= num_ranks <= MOST_RANKS or len(b) % num_ranks:
        raise ValueError(f"{num_ranks} ranks cannot share {len(b)} features; give 2 to {MOST_RANKS} that divide them")


def _slice(name: str, cells: Matrix, part: Any) -> RankMatrix:
    """Some columns of a matrix."""
    return RankMatrix(name, "slice", [[number if k in part else None for k, number in enumerate(row)] for row in cells])


def _draw_moment(axes: Axes, moment: ShardMoment) -> None:
    """The ranks one above the other; an arrow joins those that add up their terms."""
    for rank, matrices in enumerate(moment.ranks):
        top, left = rank * moment.pitch, moment.left
        middle = top + len(matrices[0].cells) / 2
        axes.text(0, middle, f"rank {rank}", va="center", fontsize=9)
        for held in matrices:
            if held is matrices[-1] and not moment.sentence.startswith("start"):
                axes.text(left - _GAP / 2, top + len(held.cells) / 2, "→", ha="center", va="center", fontsize=10)
            _draw_matrix(axes, held, left, top)
            left += len(held.cells[0]) + _GAP
        if rank and moment.is_exchange:
            _draw_exchange(axes, moment.left - 0.4, middle - moment.pitch, middle)
    axes.set_axis_off()
    axes.set_aspect("equal", anchor="NW")


def _draw_exchange(axes: Axes, left: float, top: float, foot: float) -> None:
    color = LIGHT.outline_of("C")
    axes.annotate("", (left, foot), (left, top), arrowprops={"arrowstyle": "<->", "color": color, "linewidth": 2})
    words: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 8.5, "color": color}
    axes.text(left - 0.2, (top + foot) / 2, "all-reduce", **words)


def _draw_matrix(axes: Axes, held: RankMatrix, left: float, top: float) -> None:
    axes.text(left, top - 0.15, f"{held.name} {held.shape}\n{held.has}", fontsize=8, color=INK, va="bottom")
    kind = _LOOKS[held.has]
    for i, row in enumerate(held.cells):
        for k, number in enumerate(row):
            is_here = number is not None
            fill, edge = (LIGHT.fill_of(kind), LIGHT.outline_of(kind)) if is_here else (LIGHT.ground, LIGHT.soft)
            style = "-" if is_here else ":"
            draw_cell(axes, (left + k, top + i), 1, 1, facecolor=fill, edgecolor=edge, linestyle=style)
            words = str(number) if is_here else ""
            axes.text(left + k + 0.5, top + i + 0.5, words, ha="center", va="center", fontsize=8.5, color=LIGHT.ink)
