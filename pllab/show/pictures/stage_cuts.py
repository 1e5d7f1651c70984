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
    def most(self) -> float:
        """The cost of the slowest stage."""
        return max(self.sums)

    @property
    def slowest(self) -> int:
        """The number of the slowest stage; the first of equals."""
        return self.sums.index(self.most)

    @property
    def bound(self) -> str:
        """How many times as fast as one device the stages are at most, in words."""
        return f"{sum(self.costs) / self.most:.2f}"

    def __str__(self) -> str:
        """`The slowest stage is stage 1, block 1 to head: 50 ms. 2 devices are at most 1.22 times as fast as one.`."""
        stage = self.stages[self.slowest]
        layers = self.names[stage[0]] if len(stage) == 1 else f"{self.names[stage[0]]} to {self.names[stage[-1]]}"
        said = f"The slowest stage is stage {self.slowest}, {layers}: {_write(self.most)}."
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
        for number, (stage, cost) in enumerate(zip(cut.stages, cut.sums, strict=True)):
            is_slowest = number == cut.slowest
            weight, words = ("bold", " (slowest)") if is_slowest else ("normal", "")
            bars = axes.barh(stage, costs_ms[stage.start : stage.stop], height=0.7, **_look(is_slowest))
            axes.bar_label(bars, fmt=_write, padding=5, fontweight=weight)
            label = f"stage {number}: {_write(cost)}{words}"
            axes.text(top * 1.22, (stage[0] + stage[-1]) / 2, label, va="center", fontweight=weight)
        axes.hlines([stage[-1] + 0.5 for stage in cut.stages[:-1]], 0, top * 1.75, color=LIGHT.over, linewidth=2.5)
        axes.set_xlim(0, top * 1.8)
        _finish(axes, title, "\n".join(below), names)
        return figure(fig, f"{title}. {cut}")


def draw_cuts(costs_ms: Sequence[float], names: Sequence[str]) -> Figure:
    """A row for each cut into two stages, as long as its stages cost; the slower stage and the best rows are bold.

    Example: `draw_cuts([1, 1, 4], ["embedding", "block", "head"])`, whose best row is `after block`.
    """
    cuts = [StageCut(costs_ms, (at, len(costs_ms) - at), names) for at in range(1, len(costs_ms))]
    rows = [f"after {name}" for name in names[:-1]]
    least = min(cut.most for cut in cuts)
    title = "each cut into two stages, calculated from the measured costs"
    with drawing(8.0, 0.34 * len(cuts) + 0.8, layout="constrained") as fig:
        axes = fig.add_subplot()
        for row, cut in enumerate(cuts):
            weight, words = ("bold", ", best") if cut.most <= least * (1 + 1e-9) else ("normal", "")
            first, second = cut.sums
            axes.barh(row, first, 0.78, **_look(cut.slowest == 0))
            axes.barh(row, second, 0.78, first, **_look(cut.slowest == 1))
            middle = first + second / 2 if cut.slowest else first / 2
            axes.text(middle, row, _write(cut.most), ha="center", va="center", fontweight=weight, fontsize=10)
            axes.text(first + second, row, f" {cut.bound}{words}", va="center", fontweight=weight)
        axes.set_xlim(0, sum(costs_ms) * 1.22)
        _finish(axes, title, "ms of both stages; at the end: the largest possible speed-up over one device", rows)
    told = [f"{row}: slowest {_write(cut.most)}, at most {cut.bound}" for row, cut in zip(rows, cuts, strict=True)]
    best = rows[[cut.most for cut in cuts].index(least)]
    return figure(fig, f"{title}. {'; '.join(told)}. The best cut is {best}: its slowest stage costs {_write(least)}.")


def _write(cost: float) -> str:
    return f"{write_number(cost)} ms"


def _look(is_slowest: bool) -> dict[str, Any]:
    return {**LIGHT.paint_of("B" if is_slowest else "F"), "linewidth": 2.2 if is_slowest else 0.8}


def _finish(axes: Axes, title: str, below: str, rows: Sequence[str]) -> None:
    axes.set_title(title, **TITLE)
    name_rows(axes, rows, ["left"])
    axes.set_xticks([])
    axes.set_xlabel(below, loc="left")
