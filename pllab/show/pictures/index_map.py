"""The index map: which rank loads which sample in which step, for each policy and epoch side by side.

An epoch is dealt to the ranks, its samples are counted, and the words follow from the counts.
"""

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import NamedTuple

from pllab.show.figures import Axes, Figure, draw_cell, drawing, figure
from pllab.show.theme import INK, LIGHT, count_of

Dealt = Sequence[Sequence[Sequence[int]]]  # rank, step, numbers of the samples
Deal = Callable[[int, int, str], Dealt]  # (world_size, epoch, remainder) -> one epoch
Owners = Sequence[Sequence[tuple[int, int]]]  # for each sample, the rank and the step of each time it is loaded

# Rank by rank; each square also has the number of its rank.
_RANK_FILLS = (*(LIGHT.hues[kind] for kind in "FBWRUC"), LIGHT.over, "#DDDDDD")
_COLUMNS = 20  # of squares, over all epochs
_SQUARE_IN, _HEAD_IN = (0.5, 0.42), 0.8
_KEY = (
    "r1 s2: rank 1 loads the sample in step 2. Thick edge: loaded more than once, +1 for once more. "
    "Dashed edge: loaded by nobody."
)


class _Panel(NamedTuple):
    """An epoch under a policy: what was counted, in words, and who loads each sample."""

    remainder: str
    epoch: int
    counted: str
    owners: Owners


def draw_index_map(
    num_samples: int,
    deal: Deal,
    world_size: int,
    *,
    epochs: Sequence[int] = (0, 1, 2),
    remainders: Sequence[str] = ("pad", "drop"),
) -> Figure:
    """See who loads which sample: a panel for each policy and epoch, the samples in the order of the data set.

    `deal(world_size, epoch, remainder)` returns, for each rank, its steps, and for each step the numbers of the
    samples. Example, where each rank makes two steps of one sample:

        def deal(world_size, epoch, remainder):
            return [[[rank], [world_size + rank]] for rank in range(world_size)]

        draw_index_map(8, deal, 4, epochs=[0], remainders=["in turn"])

    Args:
        num_samples: how many the data set has.
        deal: deals one epoch.
        world_size: how many ranks.
        epochs: those that are shown, in ascending order; the epochs before them count in what was loaded so far.
        remainders: the policies, a row of panels each.

    Raises:
        KeyError: `deal` dealt a sample that the data set does not have.
    """
    panels = []
    for remainder in remainders:
        visits = [0] * num_samples
        for epoch in range(max(epochs) + 1):
            dealt = deal(world_size, epoch, remainder)
            owners = _owners_of(dealt, num_samples)
            visits = [count + len(who) for count, who in zip(visits, owners, strict=True)]
            if epoch in epochs:
                counted = f"{_steps_of(dealt)}, {_counts_of(owners)}. {_spread_of(visits, epoch)}"
                panels.append(_Panel(remainder, epoch, counted, owners))
    sizes = f"{count_of(num_samples, 'sample')}, {count_of(world_size, 'rank')}"
    told = [f"{sizes}, epoch {one.epoch}, {one.remainder}: {one.counted}" for one in panels]
    in_row, num_rows = len(epochs), len(remainders)
    columns = min(num_samples, _COLUMNS // in_row)
    lines = -(-num_samples // columns)
    across, down = columns * _SQUARE_IN[0] + 0.2, lines * _SQUARE_IN[1] + _HEAD_IN
    with drawing(in_row * across, num_rows * down) as fig:
        for number, panel in enumerate(panels):
            row, column = divmod(number, in_row)
            place = (column / in_row, 1 - (row + 1) / num_rows, 1 / in_row, (1 - _HEAD_IN / down) / num_rows)
            axes = fig.add_axes(place)
            words = wrap(panel.counted, int(across * 15))  # letters of an inch at this size
            axes.text(0.05, -0.08, "\n".join(words), size=8, va="bottom")
            name = f"{panel.remainder}, epoch {panel.epoch}"
            axes.text(0.05, -0.2 - 0.3 * len(words), name, size=11, weight="bold", va="bottom")
            axes.set_xlim(-0.06, across / _SQUARE_IN[0] - 0.06)
            axes.set_ylim(lines + 0.06, -0.06)
            axes.axis("off")
            for sample, who in enumerate(panel.owners):
                _draw_sample(axes, divmod(sample, columns), sample, who)
        return figure(fig, "\n".join(told), caption=_KEY)


def _owners_of(dealt: Dealt, num_samples: int) -> Owners:
    """For each sample, the (rank, step) pairs that load it; steps count from 1, as people count them.

    Example: `_owners_of([[[0, 2]], [[1, 0]]], 3)` -> `[[(0, 1), (1, 1)], [(1, 1)], [(0, 1)]]`.
    """
    owners: dict[int, list[tuple[int, int]]] = {sample: [] for sample in range(num_samples)}
    for rank, steps in enumerate(dealt):
        for step, samples in enumerate(steps, start=1):
            for sample in samples:
                owners[sample].append((rank, step))
    return list(owners.values())


def _counts_of(owners: Owners) -> str:
    """The counts of samples, and of loads beyond the first of each.

    Example: `2 samples loaded more than once (3 loads too many), 0 left out`.
    """
    again, left_out = sum(len(who) > 1 for who in owners), sum(not who for who in owners)
    surplus = sum(max(0, len(who) - 1) for who in owners)
    loads = f" ({count_of(surplus, 'load')} too many)" if surplus else ""
    return f"{count_of(again, 'sample')} loaded more than once{loads}, {left_out} left out"


def _spread_of(visits: Sequence[int], epoch: int) -> str:
    fewest, most = min(visits), max(visits)
    once = {0: "never loaded", 1: "loaded once", 2: "loaded twice"}.get(most, f"loaded {most} times")
    spread = once if fewest == most else f"loaded {fewest} to {most} times"
    return f"In {'epoch 0' if epoch == 0 else f'epochs 0 to {epoch}'} a sample was {spread}."


def _steps_of(dealt: Dealt) -> str:
    steps = [len(one) for one in dealt]
    if len(set(steps)) > 1:
        return f"{', '.join(map(str, steps))} steps on ranks 0 to {len(steps) - 1}, so those with more wait for ever"
    return count_of(steps[0], "step") + ("" if len(steps) == 1 else " on every rank")


def _draw_sample(axes: Axes, place: tuple[int, int], sample: int, who: Sequence[tuple[int, int]]) -> None:
    """A square: the number of the sample, `+1` for another time it is loaded, and `r1 s2` or `none`."""
    y, x = place
    fill = _RANK_FILLS[who[0][0] % len(_RANK_FILLS)] if who else LIGHT.ground
    ink = {_RANK_FILLS[0]: "#FFFFFF", LIGHT.ground: INK}.get(fill, "#000000")
    edge, width, style = (INK, 2.5 if len(who) > 1 else 0.6, "-") if who else (LIGHT.soft, 1.5, "--")
    draw_cell(axes, (x + 0.05, y + 0.06), 0.9, 0.88, facecolor=fill, edgecolor=edge, linewidth=width, linestyle=style)
    axes.text(x + 0.12, y + 0.14, str(sample), color=ink, size=7, va="top")
    if len(who) > 1:
        axes.text(x + 0.88, y + 0.14, f"+{len(who) - 1}", color=ink, size=7.5, weight="bold", ha="right", va="top")
    mark = f"r{who[0][0]} s{who[0][1]}" if who else "none"
    axes.text(x + 0.5, y + 0.68, mark, color=ink, size=8.5, weight="bold", ha="center", va="center")
