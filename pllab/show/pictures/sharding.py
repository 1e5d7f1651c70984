"""A model spread over ranks: which numbers of its matrices each has, how much it holds, and with whom it talks.

The first weight is split by columns and the second by rows, so that the ranks meet twice: in the forward for the output
and in the backward for the gradient of the input. What is held is measured by the caller, and said by a formula.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from textwrap import wrap
from typing import Any

from pllab.show.figures import Axes, Figure, draw_cell, drawing, figure
from pllab.show.theme import INK, LIGHT, count_of

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
        if rank and matrices[-1].has == "sum":
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


# What each rank holds

_HELD = {"parameters": "F", "gathered": "C", "gradients": "B", "optimizer": "W", "messages": "U"}
"""What can be held, in the order of the bar, and the look of each."""
_LETTERS = {"parameters": "P", "gathered": "whole", "gradients": "G", "optimizer": "O", "messages": "M"}

Bar = Mapping[str, float]  # an amount of each kind that is held


def draw_memory(
    measured: Mapping[str, Sequence[Bar]], form: Mapping[str, Bar], remarks: Mapping[str, str], unit: str
) -> Figure:
    """A stacked bar for each rank and one for the formula, way by way.

    Example, two ranks that hold the same:

        held = {"parameters": 4.0, "optimizer": 4.0}
        draw_memory({"ZeRO-1": [held, held]}, {"ZeRO-1": held}, {"ZeRO-1": "It sends 2."}, "bytes per parameter")

    Args:
        measured: of each way, by its name, what every rank holds.
        form: of each way what a formula says.
        remarks: of each way a sentence more, such as what it sends.
        unit: what the amounts count.
    """
    title = f"held at the fullest moment, {unit}, engine: real"
    every = [bar for name, bars in measured.items() for bar in (*bars, form[name])]
    top = max(sum(bar.values()) for bar in every)
    letters = "; ".join(f"{_LETTERS[kind]}: {kind}" for kind in _in_order({kind for bar in every for kind in bar}))
    told = [_sentence(name, bars, form[name], unit, remarks[name]) for name, bars in measured.items()]
    with drawing(8.0, 0.9 + 0.27 * len(every), layout="constrained") as fig:
        axes = fig.add_subplot()
        place, names = -0.4, {}
        for name, bars in measured.items():
            place += 0.4  # the ways stand apart
            for rank, bar in enumerate((*bars, form[name])):
                place += 1.0
                is_form = rank == len(bars)
                names[place] = "closed form" if is_form else f"rank {rank}" if rank else f"{name}, rank 0"
                _draw_bar(axes, place, bar, is_form, top)
        axes.set_yticks(list(names), list(names.values()))
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, top * 1.1)
        axes.set_ylim(place + 0.6, 0.3)
        axes.set_xlabel(title)
        axes.spines[["top", "right"]].set_visible(False)
        sentence = f"{title[:1].upper()}{title[1:]}. {' '.join(told)}"
        return figure(fig, sentence, caption=f"{letters}; dashed: closed form")


def _in_order(kinds: Iterable[str]) -> list[str]:
    """The kinds in the order of a bar; a ValueError if one of them is unknown."""
    return sorted(kinds, key=list(_HELD).index)


def _sentence(name: str, bars: Sequence[Bar], form: Bar, unit: str, remark: str) -> str:
    """Of the fullest rank: `ZeRO-1: a rank holds 8.0 bytes (parameters 4.0, optimizer 4.0); the closed form ...`."""
    fullest = max(bars, key=lambda bar: sum(bar.values()))
    parts = ", ".join(f"{kind} {fullest[kind]:.1f}" for kind in _in_order(fullest) if fullest[kind])
    held = f"{name}: a rank holds {sum(fullest.values()):.1f} {unit} ({parts})"
    return f"{held}; the closed form says {sum(form.values()):.1f}. {remark}"


def _draw_bar(axes: Axes, row: float, bar: Bar, is_form: bool, top: float) -> None:
    left, style = 0.0, "--" if is_form else "-"
    for kind in _in_order(bar):
        if width := bar[kind]:
            axes.barh(row, width, 0.84, left, **LIGHT.paint_of(_HELD[kind], is_form), linestyle=style)
            letter = _LETTERS[kind]
            if width > 0.02 * top * len(letter):
                axes.annotate(letter, (left + width / 2, row), ha="center", va="center", color=LIGHT.ink, fontsize=9)
            left += width
    axes.annotate(f" {left:.1f}", (left, row), va="center", fontsize=9)


# Groups of ranks

_HUES = ("F", "B", "W", "U", "C", "R")
"""The hues of groups, in turn; the letter of a group tells those of one hue apart."""

Place = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """The groups along one axis, and for each whether its ranks are on several hosts."""

    name: str
    groups: list[list[int]]
    across: list[bool]

    def __str__(self) -> str:
        """`dp: 2 groups of 2 ranks, all of them across hosts: A 0 2, B 1 3`."""
        share = {0: "none", len(self.groups): "all"}.get(sum(self.across), sum(self.across))
        sizes = f"{count_of(len(self.groups), 'group')} of {count_of(len(self.groups[0]), 'rank')}"
        listed = ", ".join(f"{letter_of(at)} {' '.join(map(str, group))}" for at, group in enumerate(self.groups))
        return f"{self.name}: {sizes}, {share} of them across hosts: {listed}"


def draw_mesh(*, pp: int, dp: int, tp: int, ranks_per_host: int, order: Sequence[str] = ("pp", "dp", "tp")) -> Figure:
    """A panel for each axis: ranks in the boxes of their hosts, with a line through the ranks of each group.

    A line is dashed if its group needs several hosts. Example: `draw_mesh(pp=2, dp=2, tp=2, ranks_per_host=4)`.

    Args:
        pp: ranks that share the layers as a pipeline.
        dp: ranks that share the batch.
        tp: ranks that split each layer.
        ranks_per_host: ranks 0 to g - 1 are on host 0, the next g on host 1.
        order: the axes from the outermost to the innermost, as `pllab.comm.AXES` has them.
    """
    given = {"pp": pp, "dp": dp, "tp": tp}
    sizes = {name: given[name] for name in order}
    num_ranks = prod(sizes.values())
    shown = axes_of(sizes, ranks_per_host)
    hosts = count_of(-(-num_ranks // ranks_per_host), "host")
    title = f"{' x '.join(f'{name} {size}' for name, size in sizes.items())}: {count_of(num_ranks, 'rank')} on {hosts}"
    caption = f"{title}. A box is a rank and the letter of its group; dashed: between hosts."
    places = _places(sizes, num_ranks, ranks_per_host)
    width, height = (max(side) + 1 for side in zip(*places, strict=True))
    with drawing(max(9.0, 1.8 * width), 0.55 * height + 1.0, layout="constrained") as fig:
        for axis, axes in zip(shown, fig.subplots(1, 3), strict=True):
            _draw_hosts(axes, places, ranks_per_host)
            for number, group in enumerate(axis.groups):
                _draw_group(axes, {rank: places[rank] for rank in group}, number, is_dashed=axis.across[number])
            axes.set_title(f"groups of {axis.name}", fontsize=11)
            axes.set_xlim(-1.0, width)
            axes.set_ylim(height - 0.2, -1.0)
            axes.axis("off")
        return figure(fig, ". ".join([title, *map(str, shown)]), caption=caption)


def axes_of(sizes: Mapping[str, int], ranks_per_host: int) -> list[Axis]:
    """The axes from the outermost to the innermost; a group is the ranks that differ in no other coordinate."""
    coordinates = list(product(*map(range, sizes.values())))  # the last axis is the fastest, as ranks are counted
    axes = []
    for number, name in enumerate(sizes):
        members: dict[tuple[int, ...], list[int]] = {}
        for rank, place in enumerate(coordinates):
            members.setdefault(place[:number] + place[number + 1 :], []).append(rank)
        groups = list(members.values())
        axes.append(Axis(name, groups, [group[0] // ranks_per_host != group[-1] // ranks_per_host for group in groups]))
    return axes


def letter_of(number: int) -> str:
    """A, B, ..., Z, then AA, AB, ..."""
    return (letter_of(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def _places(sizes: Mapping[str, int], num_ranks: int, each: int) -> list[Place]:
    """Column and row of each rank: hosts one above the other, in each as many columns as the innermost axis has."""
    inner = next((size for size in reversed(list(sizes.values())) if size > 1), 1)
    columns = min(inner, each)
    rows = -(-each // columns) + 0.9  # and the name of the host
    return [(rank % each % columns, rank % each // columns + rank // each * rows) for rank in range(num_ranks)]


def _draw_hosts(axes: Axes, places: Sequence[Place], each: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {"boxstyle": "round,pad=0.1", "facecolor": LIGHT.ground, "edgecolor": LIGHT.held_line}
    for host, first in enumerate(range(0, len(places), each)):
        mine = places[first : first + each]
        right, below = map(max, zip(*mine, strict=True))
        top = mine[0][1] - 0.4
        axes.add_patch(FancyBboxPatch((-0.75, top), right + 1.3, below - top + 0.4, **look))
        axes.text(right + 0.6, top - 0.14, f"host {host}", fontsize=9, color=LIGHT.soft, ha="right", va="bottom")


def _draw_group(axes: Axes, places: Mapping[int, Place], number: int, *, is_dashed: bool) -> None:
    """A box for each rank, and lines from rank to rank; one that would run over other ranks goes round them."""
    from matplotlib.patches import FancyArrowPatch

    kind, letter = _HUES[number % len(_HUES)], letter_of(number)
    look: dict[str, Any] = {"color": LIGHT.outline_of(kind), "linewidth": 2.2, "zorder": 1}
    look |= {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 0, "linestyle": (0, (4, 2)) if is_dashed else "-"}
    for start, end in pairwise(places.values()):
        far = abs(end[0] - start[0]) + abs(end[1] - start[1])
        bend = f"arc3,rad={1.25 / far if far > 1.5 else 0}"
        axes.add_patch(FancyArrowPatch(start, end, connectionstyle=bend, **look))
    box = {"boxstyle": "square,pad=0.3", **LIGHT.paint_of(kind)}
    for rank, place in places.items():
        axes.text(
            *place, f"{rank} {letter}", ha="center", va="center", fontsize=10, color=LIGHT.ink, bbox=box, zorder=2
        )
