"""The fingerprint of a gradient: per parameter, by which factor does it differ from the right one?

A constant factor is a forgotten division, one parameter that stands out is a special case (tied, frozen, unused),
and no factor at all is another batch or another model. The numbers come in as plain lists: this room knows no torch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from pllab.show.figures import Figure, figure
from pllab.show.theme import LIGHT, write_number, write_percent
from pllab.show.widget import Widget, check_place, sources_of

Gradients = Mapping[str, Sequence[float] | None]

_LOOKS = {  # fill, outline, width and style of a cell's edge
    "same": (LIGHT.fill_of("F"), LIGHT.outline_of("F"), 1.0, "-"),
    "scaled": (LIGHT.fill_of("B"), LIGHT.outline_of("B"), 1.0, "-"),
    "turned": (LIGHT.fill_of("!"), LIGHT.over, 2.5, "-"),
    "missing": (LIGHT.ground, LIGHT.soft, 1.5, "--"),
}
_SAME = 1e-3  # a ratio this close to 1, and a rest this small, is rounding


class GradientFingerprint(Widget):
    """Compare gradients with a reference, parameter by parameter; several ways to compute them share the widget.

    Example, two ranks whose gradients were summed and not averaged:

        GradientFingerprint({"w": [1.0, 2.0]}, {"summed": {"w": [2.0, 4.0]}}, num_ranks=2)

    shows `x 2` and says that every gradient is the sum over 2 ranks, not the mean. Keys while the grid has the focus:
    left and right choose a parameter, Home and End the first and the last, up and down another way.

    Args:
        reference: the right gradients by parameter, each as a flat list, or None if it has none.
        ways: the gradients to compare, by the name of the way they were computed.
        num_ranks: how many ranks took part; it explains the factors.

    Raises:
        ValueError: there is nothing to compare, or parameters or lengths differ from the reference.
    """

    _esm, _css = sources_of(__file__, "view.js")

    ways = traitlets.List(traitlets.Dict(), help="one dict per way: name, verdict, cells").tag(sync=True)
    way = traitlets.Int(0, help="number of the way shown, from 0").tag(sync=True)
    cell = traitlets.Int(0, help="number of the parameter spelled out, from 0").tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        reference: Gradients,
        ways: Mapping[str, Gradients],
        *,
        num_ranks: int = 2,
        title: str = "ratio to the gradient of one process",
        projector: bool = False,
    ) -> None:
        if not reference or not ways:
            raise ValueError("a fingerprint needs a reference with parameters and at least one way to compare")
        super().__init__(
            ways=[_judged(name, gradients, reference, num_ranks) for name, gradients in ways.items()],
            title=title,
            projector=projector,
        )

    def static(self) -> Figure:
        """All ways beside each other, a row for each parameter."""
        return _draw_ways(self.ways, self.title)

    @traitlets.validate("way")
    def _way_exists(self, proposal: Any) -> int:
        return check_place("way", proposal["value"], len(self.ways))

    @traitlets.validate("cell")
    def _cell_exists(self, proposal: Any) -> int:
        return check_place("cell", proposal["value"], len(self.ways[0]["cells"]) if self.ways else 0)


def _judged(way: str, gradients: Gradients, reference: Gradients, num_ranks: int) -> dict[str, Any]:
    """One way: a cell for each parameter, and the verdict over all of them."""
    if odd := set(gradients) ^ set(reference):
        raise ValueError(f"{way!r} and the reference differ in parameter {min(odd)!r}; compare the same model")
    cells = [_compared(way, name, gradients[name], reference[name]) for name in reference]
    return {"name": way, "verdict": _verdict(cells, num_ranks), "cells": cells}


def _compared(way: str, name: str, mine: Sequence[float] | None, right: Sequence[float] | None) -> dict[str, Any]:
    """One parameter: the factor, the part that no factor explains, and both in words."""
    if mine is None or right is None:
        return _without(name, mine, right)
    if len(mine) != len(right):
        raise ValueError(f"{name!r} has {len(mine)} numbers in {way!r} and {len(right)} in the reference")
    squares = sum(r * r for r in right)
    ratio = sum(m * r for m, r in zip(mine, right, strict=True)) / squares if squares else 1.0
    off = math.sqrt(sum((m - ratio * r) ** 2 for m, r in zip(mine, right, strict=True)))
    size = math.sqrt(sum(m * m for m in mine))
    rest = off / size if size else 0.0
    if not math.isfinite(ratio) or not math.isfinite(rest):
        return _cell(name, "turned", 0.0, "! nan", "is not a number")
    if rest > _SAME:
        text = f"is no multiple of the right one: {write_percent(rest)} of it points elsewhere"
        return _cell(name, "turned", ratio, f"! {write_number(ratio)}", text)
    if abs(ratio - 1) <= _SAME:
        return _cell(name, "same", 1.0, "1", "equals the right one")
    return _cell(name, "scaled", ratio, f"x {write_number(ratio)}", f"is {write_number(ratio)} times the right one")


def _without(name: str, mine: Sequence[float] | None, right: Sequence[float] | None) -> dict[str, Any]:
    if mine is None and right is None:
        return _cell(name, "same", 0.0, "none", "is None, as it should be")
    if mine is None:
        return _cell(name, "missing", 0.0, "! none", "is None, and one process has one")
    return _cell(name, "missing", 0.0, "! extra", "is there, and one process has none")


def _cell(name: str, kind: str, ratio: float, text: str, words: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "ratio": ratio, "text": text, "words": f"{name}: the gradient {words}"}


def _verdict(cells: Sequence[Mapping[str, Any]], num_ranks: int) -> str:
    """The whole fingerprint in a sentence that names the class of the bug."""
    odd = [cell for cell in cells if cell["kind"] != "same"]
    if not odd:
        return f"All {len(cells)} gradients equal those of one process."
    ratios = [cell["ratio"] for cell in odd]
    are_alike = max(ratios) - min(ratios) <= 1e-2 * max(map(abs, ratios))
    constant = are_alike and all(cell["kind"] == "scaled" for cell in odd)
    factor = _factor(ratios[0], num_ranks) if constant else ""
    if len(odd) <= len(cells) / 2:
        names = ", ".join(str(cell["name"]) for cell in odd[:3]) + (" and others" if len(odd) > 3 else "")
        what = factor or "a special case such as a tied, frozen or unused parameter"
        verb = "differ" if len(odd) > 1 else "differs"
        return f"Only {names} {verb} ({len(odd)} of {len(cells)}): {what}."
    if constant:
        return f"{len(odd)} of {len(cells)} gradients differ by one factor: {factor}."
    return f"{len(odd)} of {len(cells)} gradients differ, by no common factor: another batch, or nothing was averaged."


def _factor(ratio: float, num_ranks: int) -> str:
    if abs(ratio - num_ranks) < 1e-2:
        return f"{num_ranks} times, the sum over {num_ranks} ranks and not the mean"
    if abs(ratio * num_ranks - 1) < 1e-2:
        return f"{write_number(ratio)} times, divided by {num_ranks} ranks once too often"
    return f"{write_number(ratio)} times"


def _draw_ways(ways: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """A column for each way, a row for each parameter, the ratio in every box; the verdicts are the text."""
    from matplotlib.figure import Figure as Canvas  # it takes half a second, and a widget may never be printed
    from matplotlib.patches import Rectangle

    names = [cell["name"] for cell in ways[0]["cells"]]
    canvas = Canvas(figsize=(3.2 + 1.5 * len(ways), 0.8 + 0.24 * len(names)))
    axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
    for column, way in enumerate(ways):
        for row, cell in enumerate(way["cells"]):
            fill, line, width, style = _LOOKS[cell["kind"]]
            edge: dict[str, Any] = {"edgecolor": line, "linewidth": width, "linestyle": style}
            axes.add_patch(Rectangle((column + 0.04, row + 0.06), 0.92, 0.88, facecolor=fill, **edge))
            middle = (column + 0.5, row + 0.52)
            axes.annotate(cell["text"], middle, ha="center", va="center", color=LIGHT.ink, fontsize=9)
    axes.set_xlim(0, len(ways))
    axes.set_ylim(len(names), 0)
    axes.set_xticks([column + 0.5 for column in range(len(ways))], [way["name"] for way in ways])
    axes.set_yticks([row + 0.5 for row in range(len(names))], names, fontsize=9)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    verdicts = " ".join(f"{way['name']}: {way['verdict']}" for way in ways)
    return figure(canvas, f"{title[:1].upper()}{title[1:]}. {verdicts}", caption=title)
