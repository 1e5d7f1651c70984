"""The fingerprint of a gradient: per parameter, by which factor does it differ from the right one?

A constant factor is a forgotten division, one parameter that stands out is a special case (tied, frozen, unused),
and no factor at all is another batch or another model. The numbers come in as plain lists: this room knows no torch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pllab.show.figures import Figure, draw_cell, drawing, figure
from pllab.show.theme import LIGHT, write_number

Gradients = Mapping[str, Sequence[float] | None]

_LOOKS: dict[str, dict[str, Any]] = {  # how a box looks, for matplotlib's patches
    "same": LIGHT.paint_of("F"),
    "scaled": LIGHT.paint_of("B"),
    "turned": LIGHT.paint_of("!") | {"linewidth": 1.8},
    "missing": {"facecolor": LIGHT.ground, "edgecolor": LIGHT.soft, "linewidth": 1.5, "linestyle": "--"},
}
_SAME = 1e-3  # a ratio this close to 1, and a rest this small, is rounding


@dataclass(frozen=True)
class _Cell:
    """One parameter of one way: how it compares, its factor (0 without one), and what stands in its box."""

    name: str
    kind: str
    ratio: float
    text: str


def draw_fingerprint(reference: Gradients, ways: Mapping[str, Gradients], *, num_ranks: int, title: str) -> Figure:
    """Compare gradients with a reference: a column for each way to compute them, a row for each parameter.

    Example, two ranks whose gradients were summed and not averaged:

        draw_fingerprint({"w": [1.0, 2.0]}, {"summed": {"w": [2.0, 4.0]}}, num_ranks=2, title="ratio, engine: real")

    shows `x 2` and says that every gradient is the sum over 2 ranks, not the mean.

    Args:
        reference: the right gradients by parameter, each as a flat list, or None if it has none.
        ways: the gradients to compare, by the name of the way they were computed.
        num_ranks: how many ranks took part; it explains the factors.
        title: what the numbers are, and which engine made them.

    Raises:
        ValueError: the parameters differ from those of the reference, or their lengths do.
    """
    columns = {}
    for way, gradients in ways.items():
        if odd := set(gradients) ^ set(reference):
            raise ValueError(f"{way!r} and the reference differ in parameter {min(odd)!r}; compare the same model")
        columns[way] = [_compare(name, gradients[name], right) for name, right in reference.items()]
    verdicts = " ".join(f"{way}: {_verdict(cells, num_ranks)}" for way, cells in columns.items())
    sentence = f"{title[:1].upper()}{title[1:]}. {verdicts}"
    with drawing(3.2 + 1.5 * len(columns), 0.8 + 0.21 * len(reference)) as fig:
        axes = fig.add_axes((0.0, 0.0, 1.0, 1.0))
        for column, cells in enumerate(columns.values()):
            for row, cell in enumerate(cells):
                draw_cell(axes, (column + 0.04, row + 0.06), 0.92, 0.88, **_LOOKS[cell.kind])
                middle = (column + 0.5, row + 0.52)
                axes.annotate(cell.text, middle, ha="center", va="center", color=LIGHT.ink, fontsize=9)
        axes.set_xlim(0, len(columns))
        axes.set_ylim(len(reference), 0)
        axes.set_xticks([column + 0.5 for column in range(len(columns))], list(columns))
        axes.set_yticks([row + 0.5 for row in range(len(reference))], list(reference), fontsize=9)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)
        return figure(fig, sentence, caption=sentence)


def _compare(name: str, mine: Sequence[float] | None, right: Sequence[float] | None) -> _Cell:
    """The factor by least squares, unless one has no gradient, or too much is left that no factor explains."""
    if mine is None and right is None:
        return _Cell(name, "same", 0.0, "none")
    if mine is None or right is None:
        return _Cell(name, "missing", 0.0, "! none" if mine is None else "! extra")
    squares = sum(r * r for r in right)
    ratio = sum(m * r for m, r in zip(mine, right, strict=True)) / squares if squares else 1.0
    off, size = math.dist(mine, [ratio * r for r in right]), math.hypot(*mine)
    if not math.isfinite(ratio + off + size):
        return _Cell(name, "turned", 0.0, "! nan")
    if off > _SAME * size:
        return _Cell(name, "turned", ratio, f"! {write_number(ratio)}")
    if abs(ratio - 1) <= _SAME:
        return _Cell(name, "same", 1.0, "1")
    return _Cell(name, "scaled", ratio, f"x {write_number(ratio)}")


def _verdict(cells: Sequence[_Cell], num_ranks: int) -> str:
    """The whole fingerprint in a sentence that names the class of the bug."""
    odd = [cell for cell in cells if cell.kind != "same"]
    if not odd:
        all_of = "The one gradient equals that" if len(cells) == 1 else f"All {len(cells)} gradients equal those"
        return f"{all_of} of one process."
    ratios = [cell.ratio for cell in odd]
    are_alike = max(ratios) - min(ratios) <= 1e-2 * max(map(abs, ratios))
    constant = are_alike and all(cell.kind == "scaled" for cell in odd)
    factor = _factor(ratios[0], num_ranks) if constant else ""
    if len(odd) <= len(cells) / 2:
        names = ", ".join(cell.name for cell in odd[:3]) + (" and others" if len(odd) > 3 else "")
        what = factor or "a special case such as a tied, frozen or unused parameter"
        verb = "differ" if len(odd) > 1 else "differs"
        return f"Only {names} {verb} ({len(odd)} of {len(cells)}): {what}."
    if constant:
        return f"{len(odd)} of {len(cells)} gradients differ by one factor: {factor}."
    return f"{len(odd)} of {len(cells)} gradients differ, by no common factor: each is another gradient."


def _factor(ratio: float, num_ranks: int) -> str:
    if abs(ratio - num_ranks) < 1e-2:
        return f"{num_ranks} times, the sum over {num_ranks} ranks and not the mean"
    if abs(ratio * num_ranks - 1) < 1e-2:
        return f"{write_number(ratio)} times, divided by {num_ranks} ranks once too often"
    return f"{write_number(ratio)} times"
