"""What each rank holds of a training state, kind by kind, for several ways of sharding it.

The numbers are the caller's, measured and from a formula; all bars have one scale, so that the ways can be compared.
"""

from collections.abc import Iterable, Mapping, Sequence

from pllab.show.figures import Axes, Figure, drawing, figure
from pllab.show.theme import LIGHT

KINDS = {"parameters": "F", "gathered": "C", "gradients": "B", "optimizer": "W", "messages": "U"}
"""What can be held, in the order of the bar, and the look of each."""
_LETTERS = {"parameters": "P", "gathered": "whole", "gradients": "G", "optimizer": "O", "messages": "M"}

Bar = Mapping[str, float]  # an amount of each kind that is held


def draw_memory(
    measured: Mapping[str, Sequence[Bar]], form: Mapping[str, Bar], remarks: Mapping[str, str], unit: str
) -> Figure:
    """A stacked bar for each rank and one for the formula, way by way.

    Example, two ranks that hold the same:

        held = {"parameters": 4.0, "optimizer": 4.0}
        draw_memory({"ZeRO-1": [held, held]}, {"ZeRO-1": held}, {"ZeRO-1": "It sends 2."}, "bytes per parameter")

    Args:
        measured: of each way, by its name, what every rank holds.
        form: of each way what a formula says.
        remarks: of each way a sentence more, such as what it sends.
        unit: what the amounts count.
    """
    title = f"held at the fullest moment, {unit}, engine: real"
    every = [bar for name, bars in measured.items() for bar in (*bars, form[name])]
    top = max(sum(bar.values()) for bar in every)
    letters = "; ".join(f"{_LETTERS[kind]}: {kind}" for kind in _in_order({kind for bar in every for kind in bar}))
    told = [_sentence(name, bars, form[name], unit, remarks[name]) for name, bars in measured.items()]
    with drawing(8.0, 0.9 + 0.27 * len(every), layout="constrained") as fig:
        axes = fig.add_subplot()
        place, names = -0.4, {}
        for name, bars in measured.items():
            place += 0.4  # the ways stand apart
            for rank, bar in enumerate((*bars, form[name])):
                place += 1.0
                is_form = rank == len(bars)
                names[place] = "closed form" if is_form else f"rank {rank}" if rank else f"{name}, rank 0"
                _draw_bar(axes, place, bar, is_form, top)
        axes.set_yticks(list(names), list(names.values()))
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, top * 1.1)
        axes.set_ylim(place + 0.6, 0.3)
        axes.set_xlabel(title)
        axes.spines[["top", "right"]].set_visible(False)
        sentence = f"{title[:1].upper()}{title[1:]}. {' '.join(told)}"
        return figure(fig, sentence, caption=f"{letters}; dashed: closed form")


def _in_order(kinds: Iterable[str]) -> list[str]:
    """The kinds in the order of a bar; a ValueError if one of them is unknown."""
    return sorted(kinds, key=list(KINDS).index)


def _sentence(name: str, bars: Sequence[Bar], form: Bar, unit: str, remark: str) -> str:
    """Of the fullest rank: `ZeRO-1: a rank holds 8.0 bytes (parameters 4.0, optimizer 4.0); the closed form ...`."""
    fullest = max(bars, key=lambda bar: sum(bar.values()))
    parts = ", ".join(f"{kind} {fullest[kind]:.1f}" for kind in _in_order(fullest) if fullest[kind])
    held = f"{name}: a rank holds {sum(fullest.values()):.1f} {unit} ({parts})"
    return f"{held}; the closed form says {sum(form.values()):.1f}. {remark}"


def _draw_bar(axes: Axes, row: float, bar: Bar, is_form: bool, top: float) -> None:
    left, style = 0.0, "--" if is_form else "-"
    for kind in _in_order(bar):
        if width := bar[kind]:
            axes.barh(row, width, 0.84, left, **LIGHT.paint_of(KINDS[kind], is_form), linestyle=style)
            letter = _LETTERS[kind]
            if width > 0.02 * top * len(letter):
                axes.annotate(letter, (left + width / 2, row), ha="center", va="center", color=LIGHT.ink, fontsize=9)
            left += width
    axes.annotate(f" {left:.1f}", (left, row), va="center", fontsize=9)
