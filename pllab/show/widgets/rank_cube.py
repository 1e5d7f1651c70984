"""The cube of ranks: their coordinates along pp, dp and tp, and for one axis the groups that share messages.

The groups are cut out of the list of ranks here; the browser draws them and sends back which axis and rank are chosen.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import LIGHT, count_of
from pllab.show.widget import Widget, check_place, sources_of

MOST_RANKS = 64
KINDS = ("F", "B", "W", "U", "C", "R")
"""The hues of groups, in turn; the letter of a group tells those of one hue apart."""


class RankCube(Widget):
    """Lay the ranks out by their coordinates, choose an axis and see its groups, by letter, colour and host.

    Keys while the cube has the focus: up and down choose an axis, left and right a rank, Home and End the first and the
    last.

    Example: `RankCube(pp=2, dp=2, tp=2, ranks_per_host=4)` at the end of a cell.

    Args:
        pp: ranks that share the layers as a pipeline.
        dp: ranks that share the batch.
        tp: ranks that split each layer.
        ranks_per_host: ranks 0 to g - 1 are on host 0, the next g on host 1; by default all are on one.
        order: the axes from the outermost to the innermost, as `pllab.comm.AXES` has them.

    Raises:
        ValueError: a size is below 1, the order does not name each axis once, or there are more ranks than there is
            room for.
    """

    _esm, _css = sources_of(__file__, "view.js")

    view = traitlets.Dict(help="ranks, axes, groups and words").tag(sync=True)
    axis = traitlets.Int(0, help="number of the axis whose groups are shown, from the outermost").tag(sync=True)
    cell = traitlets.Int(0, help="number of the rank spelled out").tag(sync=True)

    def __init__(
        self,
        *,
        pp: int = 1,
        dp: int = 1,
        tp: int = 1,
        ranks_per_host: int | None = None,
        order: Sequence[str] = ("pp", "dp", "tp"),
        projector: bool = False,
    ) -> None:
        sizes = {"pp": pp, "dp": dp, "tp": tp}
        if sorted(order) != sorted(sizes):
            raise ValueError(f"order is {tuple(order)}; name each of pp, dp and tp once")
        view = view_of({name: sizes[name] for name in order}, ranks_per_host)
        super().__init__(view=view, axis=len(sizes) - 1, projector=projector)

    def static(self) -> Figure:
        """The groups of all axes beside each other."""
        return _draw_axes(self.view)

    @traitlets.validate("axis")
    def _axis_exists(self, proposal: Any) -> int:
        return check_place("axis", proposal["value"], len(self.view.get("axes", ())))

    @traitlets.validate("cell")
    def _rank_exists(self, proposal: Any) -> int:
        return check_place("rank", proposal["value"], len(self.view.get("ranks", ())))


def view_of(sizes: Mapping[str, int], ranks_per_host: int | None = None) -> dict[str, Any]:
    """Everything the browser shows, as plain data; the axes come from the outermost to the innermost.

    Example of a summary, two by two ranks on hosts of two: `dp: 2 groups of 2 ranks, all of them across hosts`.

    Raises:
        ValueError: a size is below 1, or there are more ranks than there is room for.
    """
    num_ranks = prod(sizes.values())
    each = num_ranks if ranks_per_host is None else ranks_per_host
    for name, size in {**sizes, "ranks_per_host": each}.items():
        if size < 1:
            raise ValueError(f"{name} is {size}; give 1 or more")
    if num_ranks > MOST_RANKS:
        raise ValueError(
            f"these sizes make {num_ranks} ranks, and the cube has room for {MOST_RANKS}; give smaller ones"
        )
    places = list(product(*map(range, sizes.values())))  # the last axis is the fastest, as ranks are counted
    ranks = [{"place": place, "host": rank // each} for rank, place in enumerate(places)]
    axes = [_axis_of(number, name, places, each) for number, name in enumerate(sizes)]
    title = " x ".join(f"{name} {size}" for name, size in sizes.items())
    hosts = count_of(-(-num_ranks // each), "host")
    return {
        "sizes": list(sizes.values()),
        "ranks": ranks,
        "axes": axes,
        "title": title,
        "summary": f"{num_ranks} ranks on {hosts}",
    }


def _axis_of(number: int, name: str, places: Sequence[tuple[int, ...]], ranks_per_host: int) -> dict[str, Any]:
    """The groups along one axis: the ranks that differ in no other coordinate, lettered by their first rank."""
    members: dict[tuple[int, ...], list[int]] = {}
    for rank, place in enumerate(places):
        members.setdefault(place[:number] + place[number + 1 :], []).append(rank)
    groups = list(members.values())
    across = [group for group in groups if group[0] // ranks_per_host != group[-1] // ranks_per_host]
    share = {0: "none of them", len(groups): "all of them"}.get(len(across), f"{len(across)} of them")
    sizes = f"{count_of(len(groups), 'group')} of {count_of(len(groups[0]), 'rank')}"
    return {
        "name": name,
        "groups": groups,
        "letters": [letter_of(at) for at in range(len(groups))],
        "kinds": [KINDS[at % len(KINDS)] for at in range(len(groups))],
        "across": [group in across for group in groups],
        "sentence": f"{name}: {sizes}, {share} across hosts",
    }


def letter_of(number: int) -> str:
    """A, B, ..., Z, then AA, AB, ..."""
    return (letter_of(number // 26 - 1) if number >= 26 else "") + chr(ord("A") + number % 26)


def _draw_axes(view: Mapping[str, Any]) -> Figure:
    """A panel for each axis: blocks for the outermost coordinate, rows and columns for the others."""
    outer, rows, columns = view["sizes"]
    words = [f"{axis['sentence']}: {_listed(axis)}" for axis in view["axes"]]
    width, height = max(1.9, 0.55 * columns), 0.4 * outer * (rows + 0.5) + 0.9
    with drawing(3 * width + 0.6, height, layout="constrained") as fig:
        for axis, axes in zip(view["axes"], fig.subplots(1, 3, squeeze=False)[0], strict=True):
            for rank, one in enumerate(view["ranks"]):
                block, row, column = one["place"]
                at = next(number for number, group in enumerate(axis["groups"]) if rank in group)
                kind, text = axis["kinds"][at], f"{rank} {axis['letters'][at]}"
                box = {
                    "boxstyle": "square,pad=0.3",
                    "facecolor": LIGHT.fill_of(kind),
                    "edgecolor": LIGHT.outline_of(kind),
                }
                where = (column, block * (rows + 0.5) + row)
                axes.text(*where, text, ha="center", va="center", color=LIGHT.ink, fontsize=9, bbox=box)
            axes.set_title(f"groups of {axis['name']}", fontsize=10)
            axes.set_xlim(-0.6, columns - 0.4)
            axes.set_ylim(outer * (rows + 0.5) - 0.5, -0.6)
            axes.axis("off")
        caption = f"{view['title']}: {view['summary']}. A box is a rank and the letter of its group."
        return figure(fig, f"{view['title']}: {view['summary']}. " + ". ".join(words), caption=caption)


def _listed(axis: Mapping[str, Any]) -> str:
    groups = zip(axis["letters"], axis["groups"], strict=True)
    return ", ".join(f"{letter} {' '.join(map(str, group))}" for letter, group in groups)
