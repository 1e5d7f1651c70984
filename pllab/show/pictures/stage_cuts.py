"""Layers cut into stages: the cost of each layer as a bar, and what the slowest stage allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from textwrap import wrap
from typing import Any

from pllab.arguments import require
from pllab.show.figures import TITLE, Axes, Figure, drawing, figure, name_rows
from pllab.show.theme import LIGHT, count_of, write_number

_LINE = 88  # letters in a line below the picture


@dataclass(frozen=True)
class StageCut:
    """A chain of layers and the number of layers of each stage.

    Raises:
        ValueError: the sizes do not describe a cut of these layers.
    """

    costs: Sequence[float]
    sizes: Sequence[int]
    names: Sequence[str]

    def __post_init__(self) -> None:
        count, sizes = len(self.costs), list(self.sizes)
        is_cut = min(sizes, default=0) >= 1 and sum(sizes) == count
        require(is_cut, f"sizes {sizes} do not cut {count} layers; each is at least 1 and their sum {count}")

    @property
    def stages(self) -> list[range]:
        """The layers of each stage."""
        return [range(*ends) for ends in pairwise([0, *accumulate(self.sizes)])]

    @property
    def sums(self) -> list[float]:
        """The cost of each stage."""
        return [float(sum(self.costs[layer] for layer in stage)) for stage in self.stages]

    @property
    def slowest(self) -> int:
        """The number of the slowest stage; the first of equals."""
        return self.sums.index(max(self.sums))

    @property
    def bound(self) -> str:
        """How many times as fast as one device the stages are at most, in words."""
        return f"{sum(self.costs) / max(self.sums):.2f}"

    @property
    def last(self) -> str:
        """The last layer of the first stage."""
        return self.names[self.sizes[0] - 1]

    def __str__(self) -> str:
        """`The slowest stage is stage 1, block 1 to head: 50 ms. 2 devices are at most 1.22 times as fast as one.`."""
        stage = self.stages[self.slowest]
        layers = self.names[stage[0]] if len(stage) == 1 else f"{self.names[stage[0]]} to {self.names[stage[-1]]}"
        said = f"The slowest stage is stage {self.slowest}, {layers}: {_write(max(self.sums))}."
        devices = f"{count_of(len(self.sizes), 'device')} {'is' if len(self.sizes) == 1 else 'are'}"
        return f"{said} {devices} at most {self.bound} times as fast as one."


def draw_cut(costs_ms: Sequence[float], sizes: Sequence[int], names: Sequence[str], title: str) -> Figure:
    """A bar for each layer and a line for each cut; the slowest stage is bold, the sentence below says what it allows.

    Example: `draw_cut([1, 1, 4], [2, 1], ["embedding", "block", "head"], "forward of one batch")`. `sizes` are the
    numbers of layers of the stages.

    Raises:
        ValueError: the sizes do not describe a cut of these layers.
    """
    cut = StageCut(costs_ms, sizes, names)
    top, title = max(costs_ms), f"{title}, engine: real"
    below = ["ms per layer; a line is a cut between two stages", *wrap(str(cut), _LINE)]
    with drawing(8.0, 0.3 * len(costs_ms) + 0.9 + 0.2 * len(below), layout="constrained") as fig:
        axes = fig.add_subplot()
        _draw_stages(axes, cut, top)
        axes.hlines([stage[-1] + 0.5 for stage in cut.stages[:-1]], 0, top * 1.75, color=LIGHT.over, linewidth=2.5)
        axes.set_xlim(0, top * 1.8)
        _finish(axes, title, "\n".join(below), cut.names)
        return figure(fig, f"{title}. {cut}")


def draw_cuts(costs_ms: Sequence[float], names: Sequence[str]) -> Figure:
    """A row for each cut into two stages, as long as its stages cost; the slower stage and the best rows are bold.

    Example: `draw_cuts([1, 1, 4], ["embedding", "block", "head"])`, whose best row is `after block`.
    """
    sizes = [(first, len(costs_ms) - first) for first in range(1, len(costs_ms))]
    cuts = [StageCut(costs_ms, each, names) for each in sizes]
    best = min(cuts, key=lambda cut: max(cut.sums))
    title = "each cut into two stages, calculated from the measured costs"
    with drawing(8.0, 0.34 * len(cuts) + 0.8, layout="constrained") as fig:
        axes = fig.add_subplot()
        for row, cut in enumerate(cuts):
            _draw_row(axes, row, cut, is_best=max(cut.sums) <= max(best.sums) * (1 + 1e-9))
        axes.set_xlim(0, sum(costs_ms) * 1.22)
        below = "ms of both stages; at the end: the largest possible speed-up over one device"
        _finish(axes, title, below, [f"after {cut.last}" for cut in cuts])
    rows = [f"after {cut.last}: slowest {_write(max(cut.sums))}, at most {cut.bound}" for cut in cuts]
    told = f"The best cut is after {best.last}: its slowest stage costs {_write(max(best.sums))}."
    return figure(fig, f"{title}. {'; '.join(rows)}. {told}")


def _write(cost: float) -> str:
    return f"{write_number(cost)} ms"


def _draw_stages(axes: Axes, cut: StageCut, top: float) -> None:
    """A bar for each layer, and beside each stage its sum."""
    for number, (stage, cost) in enumerate(zip(cut.stages, cut.sums, strict=True)):
        is_slowest = number == cut.slowest
        look, weight = _look(is_slowest), "bold" if is_slowest else "normal"
        costs = [cut.costs[layer] for layer in stage]
        bars = axes.barh(stage, costs, height=0.7, **look)
        axes.bar_label(bars, list(map(_write, costs)), padding=5, fontweight=weight)
        label = f"stage {number}: {_write(cost)}" + (" (slowest)" if is_slowest else "")
        axes.text(top * 1.22, (stage[0] + stage[-1]) / 2, label, va="center", fontweight=weight)


def _draw_row(axes: Axes, row: int, cut: StageCut, *, is_best: bool) -> None:
    left, weight = 0.0, "bold" if is_best else "normal"
    for number, cost in enumerate(cut.sums):
        is_slowest = number == cut.slowest
        axes.barh(row, cost, 0.78, left, **_look(is_slowest))
        if is_slowest:
            axes.text(left + cost / 2, row, _write(cost), ha="center", va="center", fontweight=weight, fontsize=10)
        left += cost
    words = f" {cut.bound}, best" if is_best else f" {cut.bound}"
    axes.text(left, row, words, va="center", fontweight=weight)


def _look(is_slowest: bool) -> dict[str, Any]:
    return {**LIGHT.paint_of("B" if is_slowest else "F"), "linewidth": 2.2 if is_slowest else 0.8}


def _finish(axes: Axes, title: str, below: str, rows: Sequence[str]) -> None:
    axes.set_title(title, **TITLE)
    name_rows(axes, rows, ["left"])
    axes.set_xticks([])
    axes.set_xlabel(below, loc="left")
