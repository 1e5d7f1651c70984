"""The picture of an index map: a square for each sample, with the colour and number of the rank that loads it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pllab.show.figure import Figure, figure
from pllab.show.theme import HATCH_GREY, INK, PANEL, matplotlib_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fill and text, rank by rank. Okabe and Ito's colours; the number of the rank is written in each square, so that
# nobody depends on them.
RANK_PAINTS = (
    ("#0072B2", "#FFFFFF"),
    ("#E69F00", "#000000"),
    ("#009E73", "#000000"),
    ("#F0E442", "#000000"),
    ("#CC79A7", "#000000"),
    ("#56B4E9", "#000000"),
    ("#D55E00", "#000000"),
    ("#DDDDDD", "#000000"),
)

Owners = Sequence[Sequence[Sequence[int]]]  # sample, its owners, [rank, step]


def draw_index_map(owners: Owners, num_columns: int, sentence: str) -> Figure:
    """Draw the samples in the order of the data set; `sentence` is the text alternative and the caption.

    A thick edge is a sample that is loaded more than once, a hatched square one that nobody loads.
    """
    import matplotlib
    from matplotlib.figure import Figure as Canvas  # a canvas of its own: pyplot keeps every figure it makes

    num_rows = -(-len(owners) // num_columns)
    with matplotlib.rc_context(matplotlib_style()):
        fig = Canvas(figsize=(0.8 * num_columns + 0.1, 0.62 * num_rows + 0.1), facecolor=PANEL)
        axes = fig.add_axes((0, 0, 1, 1))
        axes.set_xlim(-0.06, num_columns + 0.06)
        axes.set_ylim(num_rows + 0.06, -0.06)
        axes.axis("off")
        for sample, who in enumerate(owners):
            row, column = divmod(sample, num_columns)
            _draw_sample(axes, (column, row), sample, who)
        return figure(fig, sentence, caption=sentence)


def _draw_sample(axes: "Axes", corner: tuple[int, int], sample: int, who: Sequence[Sequence[int]]) -> None:
    from matplotlib.patches import Rectangle

    x, y = corner
    fill, ink = paint_of_rank(who[0][0]) if who else ("#FFFFFF", INK)
    box = Rectangle(
        (x + 0.04, y + 0.04), 0.92, 0.92, facecolor=fill, edgecolor=INK, linewidth=3 if len(who) > 1 else 0.8
    )
    if not who:
        box.set(hatch="////", edgecolor=HATCH_GREY)
    axes.add_patch(box)
    axes.text(x + 0.1, y + 0.12, str(sample), color=ink, size=8, ha="left", va="top")
    plate = None if who else {"facecolor": "#FFFFFF", "edgecolor": "none", "pad": 1.0}
    axes.text(x + 0.5, y + 0.64, mark_of(who), color=ink, size=10, weight="bold", ha="center", va="center", bbox=plate)


def paint_of_rank(rank: int) -> tuple[str, str]:
    """Fill and text colour of a rank; they begin anew after the eighth."""
    return RANK_PAINTS[rank % len(RANK_PAINTS)]


def mark_of(who: Sequence[Sequence[int]]) -> str:
    """What stands in a square: `r1 s2` for rank 1 in step 2, with `+1` for another visit, `none` without any."""
    if not who:
        return "none"
    more = f" +{len(who) - 1}" if len(who) > 1 else ""
    return f"r{who[0][0]} s{who[0][1]}{more}"
