"""The printed twin of the cut editor: bars, cut lines, and the sum of each stage."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from pllab.show.figure import Figure, figure
from pllab.show.theme import ILLEGAL, INK, PAINTS, PANEL, matplotlib_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE = 88  # letters in a line below the picture


def draw_cut(
    layers: Sequence[Mapping[str, Any]],
    ends: Sequence[int],
    stages: Sequence[Mapping[str, Any]],
    dashed: Sequence[int],
    title: str,
    unit: str,
    sentence: str,
) -> Figure:
    """Draw one bar per layer, cuts as lines (`dashed`: the best cut), the slowest stage in bold, the sentence below.

    `ends` are the boundaries of the stages, 0 and the number of layers included; `stages` have `cost` and `text`.
    """
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    slowest = max(range(len(stages)), key=lambda stage: (stages[stage]["cost"], -stage))
    with matplotlib.rc_context(matplotlib_style()):
        below = [f"{unit} per layer; a line is a cut between two stages", *wrap(sentence, _LINE)]
        fig = Canvas(figsize=(8.0, 0.3 * len(layers) + 0.9 + 0.2 * len(below)), facecolor=PANEL, layout="constrained")
        axes = fig.add_subplot()
        axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold")
        top = max(layer["cost"] for layer in layers)
        for stage, (start, end) in enumerate(pairwise(ends)):
            _draw_stage(axes, layers, range(start, end), stage == slowest)
            label = f"stage {stage}: {stages[stage]['text']}" + (" (slowest)" if stage == slowest else "")
            weight = "bold" if stage == slowest else "normal"
            axes.text(top * 1.22, (start + end - 1) / 2, label, va="center", fontweight=weight)
        axes.hlines([end - 0.5 for end in ends[1:-1]], 0, top * 1.75, color=ILLEGAL.fill, linewidth=2.5)
        axes.hlines([cut - 0.5 for cut in dashed], 0, top * 1.2, color=INK, linewidth=1.5, linestyle="--")
        axes.set_xlim(0, top * 1.8)
        axes.set_ylim(len(layers) - 0.5, -0.5)
        axes.set_yticks(range(len(layers)), [layer["name"] for layer in layers])
        axes.tick_params(axis="y", length=0)
        axes.set_xticks([])
        axes.set_xlabel("\n".join(below), loc="left")
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        return figure(fig, f"{title}. {sentence}")


def _draw_stage(axes: "Axes", layers: Sequence[Mapping[str, Any]], rows: range, slowest: bool) -> None:
    paint = PAINTS["B" if slowest else "F"]
    costs = [layers[row]["cost"] for row in rows]
    axes.barh(rows, costs, height=0.7, color=paint.fill, edgecolor=INK, linewidth=2.2 if slowest else 0.8)
    for row, cost in zip(rows, costs, strict=True):
        weight = "bold" if slowest else "normal"
        axes.annotate(
            layers[row]["text"], (cost, row), xytext=(5, 0), textcoords="offset points", va="center", fontweight=weight
        )
