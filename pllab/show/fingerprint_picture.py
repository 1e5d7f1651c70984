"""The fingerprint as a still picture: a column for each way, a row for each parameter, the ratio in every box."""

from collections.abc import Mapping, Sequence
from typing import Any

from pllab.show.figure import Figure, figure
from pllab.show.theme import IDLE, ILLEGAL, INK, PAINTS, Paint

KINDS: dict[str, Paint] = {"same": PAINTS["F"], "scaled": PAINTS["B"], "turned": ILLEGAL, "missing": IDLE}

_EDGES = {"same": (1.0, "-"), "scaled": (1.0, "-"), "turned": (2.5, "-"), "missing": (1.0, "--")}


def draw_fingerprints(ways: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Draw all ways; the text alternative is their verdicts."""
    from matplotlib.figure import Figure as Canvas  # it takes half a second, and a widget may never be printed
    from matplotlib.patches import Rectangle

    names = [cell["name"] for cell in ways[0]["cells"]]
    canvas = Canvas(figsize=(3.2 + 1.5 * len(ways), 0.8 + 0.24 * len(names)))
    axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
    for column, way in enumerate(ways):
        for row, cell in enumerate(way["cells"]):
            paint, (width, style) = KINDS[cell["kind"]], _EDGES[cell["kind"]]
            box = Rectangle((column + 0.04, row + 0.06), 0.92, 0.88, facecolor=paint.fill, edgecolor=INK)
            box.set(linewidth=width, linestyle=style)
            axes.add_patch(box)
            middle = (column + 0.5, row + 0.52)
            axes.annotate(cell["text"], middle, ha="center", va="center", color=paint.text, fontsize=9)
    axes.set_xlim(0, len(ways))
    axes.set_ylim(len(names), 0)
    axes.set_xticks([column + 0.5 for column in range(len(ways))], [way["name"] for way in ways])
    axes.set_yticks([row + 0.5 for row in range(len(names))], names, fontsize=9)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    said = " ".join(f"{way['name']}: {way['verdict']}" for way in ways)
    return figure(canvas, f"{title[:1].upper()}{title[1:]}. {said}", caption=title)
