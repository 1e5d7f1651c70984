"""The shard viewer: two matrix products split over ranks, step by step, with the numbers that each rank has.

The first weight is split by columns and the second by rows, so that the ranks meet twice: in the forward for the output
and in the backward for the gradient of the input. Numbers, marks and words are made here; the browser draws them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import INK, LIGHT
from pllab.show.widget import Widget, check_place, sources_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Matrix = list[list[int]]
MOST_RANKS, MOST_SIDE = 4, 8
_NAMES = ("x", "A", "h", "B", "y", "dx")
_LOOKS = {"whole": "F", "slice": "W", "term": "B", "sum": "C"}  # what a rank has of a matrix, and the kind it wears


class ShardViewer(Widget):
    """Step through y = relu(x A) B on several ranks: who has which numbers, and where the ranks meet.

    Keys while the picture has the focus: left and right step, Home and End jump, space plays.

    Example: `ShardViewer([[1, 2]], [[1, 0, 2, -1], [0, 1, -1, 1]], [[1, 0], [0, 1], [2, 1], [1, 3]])` for two ranks.
    x is (rows, in), A is (in, hidden) and B is (hidden, out), lists of whole numbers; relu keeps them whole. The
    gradient that arrives at y is 1 everywhere.

    Raises:
        ValueError: the shapes do not fit, or the ranks cannot share the hidden features, or there is no room.
    """

    _esm, _css = sources_of(__file__, "view.js", "stepping.js")

    view = traitlets.Dict(help="moments, words and numbers").tag(sync=True)
    step = traitlets.Int(0, help="number of the moment shown, from 0").tag(sync=True)

    def __init__(self, x: Matrix, a: Matrix, b: Matrix, num_ranks: int = 2, *, projector: bool = False) -> None:
        super().__init__(view=view_of(x, a, b, num_ranks), projector=projector)

    def static(self) -> Figure:
        """The last moment as a picture, and all moments as its text."""
        return _draw(self.view)

    @traitlets.validate("step")
    def _step_exists(self, proposal: Any) -> int:
        return check_place("step", proposal["value"], len(self.view.get("moments", ())))


def view_of(x: Matrix, a: Matrix, b: Matrix, num_ranks: int) -> dict[str, Any]:
    """Everything the browser shows, as plain data: a moment has a sentence, and for each rank its matrices.

    A matrix of a rank is `{"name": "A", "has": "slice", "new": False, "cells": [["1", ""], ["0", ""]]}`; what the rank
    does not have is an empty cell. `has` is "whole", "slice", "term", "sum" or "" for not yet.
    """
    _check(x, a, b, num_ranks)
    each = len(b) // num_ranks
    mine = [range(rank * each, (rank + 1) * each) for rank in range(num_ranks)]
    product = _times(x, a)
    hidden = [[max(0, number) for number in row] for row in product]
    ones = [[1] * len(b[0]) for _ in x]
    passed = [
        [g * (p > 0) for g, p in zip(*rows, strict=True)] for rows in zip(_times(ones, _turn(b)), product, strict=True)
    ]
    outputs = [_times(_columns(hidden, part), [b[k] for k in part]) for part in mine]
    gradients = [_times(_columns(passed, part), _turn(_columns(a, part))) for part in mine]
    kept = [
        [("whole", x), ("slice", _only(a, part)), ("slice", _only(hidden, part)), ("slice", _rows_only(b, part))]
        for part in mine
    ]
    return {
        "title": f"y = relu(x A) B on {num_ranks} ranks",
        "summary": "whole numbers, engine: simulated",
        "moments": [_moment(number, kept, outputs, gradients) for number in range(len(_STEPS))],
    }


_STEPS = (
    (2, "start: every rank has all of x, its columns of A and its rows of B"),
    (3, "step 1: each rank makes its columns of h = relu(x A), alone: relu needs no other column"),
    (4, "step 2: h times the rows of B gives each rank a term of every number of y; no rank has y"),
    (5, "step 3: all-reduce: the terms are added up, and every rank has all of y"),
    (6, "step 4, backward: from the gradient of y each rank makes a term of the gradient of x, dx"),
    (7, "step 5, backward: all-reduce: the terms are added up, and every rank has all of dx"),
)


def _moment(number: int, kept: Any, outputs: list[Matrix], gradients: list[Matrix]) -> dict[str, Any]:
    """What all ranks have at a step."""
    ranks = []
    for rank, (x, a, h, b) in enumerate(kept):
        y = ("sum", _total(outputs)) if number >= 3 else ("term", outputs[rank])
        dx = ("sum", _total(gradients)) if number >= 5 else ("term", gradients[rank])
        hidden, output, gradient = (
            one if number >= first else ("", one[1]) for one, first in ((h, 1), (y, 2), (dx, 4))
        )
        new = {1: "h", 2: "y", 3: "y", 4: "dx", 5: "dx"}.get(number)
        matrices = zip(_NAMES, (x, a, hidden, b, output, gradient), strict=True)
        ranks.append([_matrix(name, *one, is_new=name == new) for name, one in matrices])
    totals = _written(number, outputs, gradients)
    return {"sentence": _STEPS[number][1] + totals, "ranks": ranks}


def _matrix(name: str, has: str, cells: Any, *, is_new: bool) -> dict[str, Any]:
    texts = [["" if cell is None or not has else str(cell) for cell in row] for row in cells]
    return {"name": name, "has": has, "new": is_new, "cells": texts}


def _written(number: int, outputs: list[Matrix], gradients: list[Matrix]) -> str:
    """The first number of the terms, and their sum: `; first number: 3 + 4 = 7`."""
    terms = {2: outputs, 3: outputs, 4: gradients, 5: gradients}.get(number)
    if terms is None:
        return ""
    firsts = [term[0][0] for term in terms]
    told = " + ".join(f"({first})" if first < 0 else str(first) for first in firsts)
    return f"; first number: {told} = {sum(firsts)}" if number in (3, 5) else f"; first numbers: {firsts}"


def _check(x: Matrix, a: Matrix, b: Matrix, num_ranks: int) -> None:
    for name, matrix in (("x", x), ("A", a), ("B", b)):
        if not matrix or not matrix[0] or any(len(row) != len(matrix[0]) for row in matrix):
            raise ValueError(f"{name} is no matrix; give rows of equal length")
        if max(len(matrix), len(matrix[0])) > MOST_SIDE:
            raise ValueError(f"{name} is {len(matrix)} by {len(matrix[0])}; the viewer has room for {MOST_SIDE}")
    if (len(x[0]), len(a[0])) != (len(a), len(b)):
        raise ValueError(f"x has {len(x[0])} columns, A is {len(a)} by {len(a[0])}, B has {len(b)} rows; they must fit")
    if not 2 <= num_ranks <= MOST_RANKS or len(b) % num_ranks:
        raise ValueError(f"{num_ranks} ranks cannot share {len(b)} features; give 2 to {MOST_RANKS} that divide them")


def _times(left: Matrix, right: Matrix) -> Matrix:
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in _turn(right)] for row in left]


def _turn(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _columns(matrix: Matrix, part: range) -> Matrix:
    return [[row[k] for k in part] for row in matrix]


def _only(matrix: Matrix, part: range) -> list[list[int | None]]:
    return [[number if k in part else None for k, number in enumerate(row)] for row in matrix]


def _rows_only(matrix: Matrix, part: range) -> list[list[int | None]]:
    return [[number if k in part else None for number in row] for k, row in enumerate(matrix)]


def _total(terms: Sequence[Matrix]) -> Matrix:
    return [[sum(numbers) for numbers in zip(*rows, strict=True)] for rows in zip(*terms, strict=True)]


def _draw(view: dict[str, Any]) -> Figure:
    """The moment in which the terms stand beside each other, the middle one; the sentences are the text."""
    moments = view["moments"]
    ranks = moments[2]["ranks"]
    rows = max(len(matrix["cells"]) for matrix in ranks[0])
    with drawing(9.0, 0.9 + 0.42 * (rows + 1) * len(ranks), layout="constrained") as fig:
        axes = fig.add_subplot()
        axes.set_title(f"{view['title']}, before the ranks meet", loc="left", fontsize=11.5, fontweight="bold")
        for number, matrices in enumerate(ranks):
            top, left = number * (rows + 1.3), 1.6
            axes.text(0, top + rows / 2, f"rank {number}", va="center")
            for matrix in matrices[:-1]:
                _draw_matrix(axes, matrix, left, top)
                left += len(matrix["cells"][0]) + 0.9
        axes.set_xlim(-0.1, left)
        axes.set_ylim(len(ranks) * (rows + 1.3), -1.0)
        axes.set_axis_off()
        axes.set_aspect("equal")
        return figure(fig, ". ".join([view["title"], view["summary"], *(one["sentence"] for one in moments)]) + ".")


def _draw_matrix(axes: "Axes", matrix: dict[str, Any], left: float, top: float) -> None:
    from matplotlib.patches import Rectangle

    axes.text(left, top - 0.25, f"{matrix['name']} {matrix['has']}", fontsize=9, color=INK)
    kind = _LOOKS.get(matrix["has"], "")
    for i, row in enumerate(matrix["cells"]):
        for k, text in enumerate(row):
            fill, edge = (LIGHT.fill_of(kind), LIGHT.outline_of(kind)) if text else (LIGHT.ground, LIGHT.soft)
            style = "-" if text else ":"
            axes.add_patch(Rectangle((left + k, top + i), 1, 1, facecolor=fill, edgecolor=edge, linestyle=style))
            axes.text(left + k + 0.5, top + i + 0.5, text, ha="center", va="center", fontsize=9, color=LIGHT.ink)
