"""The printed twin of the ring player: time from left to right, a row for each rank, an arrow for each message."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pllab.show.figure import Figure, figure
from pllab.show.theme import INK, PAINTS, PANEL, matplotlib_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_ring(view: Mapping[str, Any]) -> Figure:
    """Draw the moments of a `RingPlayer`; its sentences are the text alternative."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    moments = view["moments"]
    num_ranks = len(moments[0]["held"])
    with matplotlib.rc_context(matplotlib_style()):
        size = (min(10.0, 1.6 + 2.2 * len(moments)), 0.8 + 0.75 * num_ranks)
        fig = Canvas(figsize=size, facecolor=PANEL, layout="constrained")
        axes = fig.add_subplot()
        axes.set_title(f"{view['title']}: {view['summary']}", loc="left", fontsize=11.5, fontweight="bold")
        for step, moment in enumerate(moments):
            _draw_held(axes, step, moment["held"])
            for hop in moment["hops"]:
                _draw_hop(axes, step, hop)
        axes.set_xlim(-0.35, len(moments) - 0.65)
        axes.set_ylim(num_ranks - 0.5, -0.5)
        axes.set_xticks(range(len(moments)), ["start", *(f"step {step}" for step in range(1, len(moments)))])
        axes.set_yticks(range(num_ranks), [f"rank {rank}" for rank in range(num_ranks)])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return figure(fig, ". ".join([view["title"], view["summary"], *(one["sentence"] for one in moments)]))


def _draw_held(axes: "Axes", step: int, held: list[str]) -> None:
    paint = PAINTS["F"]
    box = {"boxstyle": "round,pad=0.45", "facecolor": paint.fill, "edgecolor": INK}
    for rank, text in enumerate(held):
        axes.text(step, rank, text, ha="center", va="center", color=paint.text, fontweight="bold", bbox=box, zorder=3)


def _draw_hop(axes: "Axes", step: int, hop: Mapping[str, Any]) -> None:
    """An arrow from the sender before the step to the receiver after it, with the number that it carries.

    An arrow down has it near its start and one up near its end, where no other number is.
    """
    start, end = (step - 1, hop["source"]), (step, hop["to"])
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 18, "shrinkB": 18}
    axes.annotate("", end, start, arrowprops=arrow, zorder=1)
    share = 0.25 if hop["to"] > hop["source"] else 0.78
    at = start[0] + share, start[1] + share * (end[1] - start[1])
    box = {"boxstyle": "square,pad=0.25", "facecolor": PAINTS["C"].fill, "edgecolor": INK, "linewidth": 0.8}
    axes.text(*at, hop["text"], ha="center", va="center", color=PAINTS["C"].text, fontsize=9, bbox=box, zorder=2)
