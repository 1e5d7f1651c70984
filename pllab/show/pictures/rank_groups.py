"""Ranks by coordinate along pp, dp and tp, on their hosts, and the groups of each axis that share messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

from pllab.show.figures import Axes, Figure, drawing, figure
from pllab.show.theme import LIGHT, count_of

KINDS = ("F", "B", "W", "U", "C", "R")
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

    kind, letter = KINDS[number % len(KINDS)], letter_of(number)
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
