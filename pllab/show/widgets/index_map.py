"""The index map: which rank loads which sample in which step, for every world size, epoch and policy.

Every map is made once, in Python, when the widget is made: an epoch is dealt to the ranks, its samples are counted, and
the sentences follow from the counts. The browser only chooses among the maps, so the sliders work while the kernel is
busy and after it is gone.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from pllab.show.figures import Figure, drawing, figure
from pllab.show.theme import INK, LIGHT, count_of
from pllab.show.widget import Widget, sources_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Dealt = Sequence[Sequence[Sequence[int]]]  # rank, step, numbers of the samples
Deal = Callable[[int, int, str], Dealt]  # (world_size, epoch, remainder) -> one epoch

# Fill and text, rank by rank: Okabe and Ito's colours. Each square also has the number of its rank.
_RANK_PAINTS = (
    ("#0072B2", "#FFFFFF"),
    ("#E69F00", "#000000"),
    ("#009E73", "#000000"),
    ("#F0E442", "#000000"),
    ("#CC79A7", "#000000"),
    ("#56B4E9", "#000000"),
    ("#D55E00", "#000000"),
    ("#DDDDDD", "#000000"),
)


class IndexMap(Widget):
    """See who loads which sample: sliders choose the number of ranks and the epoch, a list the policy.

    `deal(world_size, epoch, remainder)` returns, for each rank, its steps, and for each step the numbers of the
    samples. With `partition_dataset` from `pllab.data`:

        def deal(world_size, epoch, remainder):
            ranks = []
            for rank in range(world_size):
                loader = partition_dataset(rank, world_size, range(29), 4 * world_size, list, remainder=remainder)
                loader.set_epoch(epoch)
                ranks.append(list(loader))
            return ranks

        IndexMap(29, deal, world_sizes=range(1, 5))

    Keys while the grid has the focus: arrows choose the sample that is spelled out, Home and End jump.

    Raises:
        ValueError: there is nothing to choose from, or `deal` did not return an epoch.
    """

    _esm, _css = sources_of(__file__, "view.js")

    maps = traitlets.Dict(help="'world_size/remainder' -> its epochs").tag(sync=True)
    paints = traitlets.List(traitlets.Dict(), help="one for each rank").tag(sync=True)
    num_samples = traitlets.Int().tag(sync=True)
    num_columns = traitlets.Int().tag(sync=True)
    world_sizes = traitlets.List(traitlets.Int()).tag(sync=True)
    remainders = traitlets.List(traitlets.Unicode()).tag(sync=True)
    num_epochs = traitlets.Int().tag(sync=True)
    world_size = traitlets.Int().tag(sync=True)
    epoch = traitlets.Int(0).tag(sync=True)
    remainder = traitlets.Unicode().tag(sync=True)
    sample = traitlets.Int(0, help="the sample that is spelled out").tag(sync=True)

    def __init__(
        self,
        num_samples: int,
        deal: Deal,
        *,
        world_sizes: Sequence[int] = (1, 2, 3, 4),
        num_epochs: int = 3,
        remainders: Sequence[str] = ("pad", "drop"),
        world_size: int | None = None,
        projector: bool = False,
    ) -> None:
        worlds = list(world_sizes)
        if not worlds or not remainders or num_epochs < 1 or num_samples < 1:
            raise ValueError(
                f"{num_samples} samples, {len(worlds)} world sizes, {num_epochs} epochs and {len(remainders)} policies "
                "leave nothing to show; give at least one of each"
            )
        maps = {
            f"{world}/{remainder}": map_of(deal, num_samples, world, num_epochs, remainder)
            for world in worlds
            for remainder in remainders
        }
        super().__init__(
            maps=maps,
            paints=[{"fill": fill, "text": text} for fill, text in _RANK_PAINTS],
            num_samples=num_samples,
            num_columns=min(num_samples, 10 if num_samples <= 50 else 16),
            world_sizes=worlds,
            remainders=list(remainders),
            num_epochs=num_epochs,
            world_size=worlds[-1] if world_size is None else world_size,
            remainder=remainders[0],
            projector=projector,
        )

    @property
    def _shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.maps[f"{self.world_size}/{self.remainder}"][self.epoch]
        return shown

    def static(self) -> Figure:
        """The map shown now, the samples in the order of the data set.

        A thick edge marks a sample that is loaded more than once, a dashed one that no rank loads.
        """
        columns, rows = self.num_columns, -(-self.num_samples // self.num_columns)
        with drawing(0.8 * columns + 0.1, 0.62 * rows + 0.1) as fig:
            axes = fig.add_axes((0, 0, 1, 1))
            axes.set_xlim(-0.06, columns + 0.06)
            axes.set_ylim(rows + 0.06, -0.06)
            axes.axis("off")
            for sample, owners in enumerate(self._shown["owners"]):
                row, column = divmod(sample, columns)
                _draw_sample(axes, (column, row), sample, owners)
            return figure(fig, self._shown["summary"], caption=self._shown["summary"])

    @traitlets.validate("world_size", "remainder", "epoch", "sample")
    def _is_a_choice(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        allowed: dict[str, Sequence[Any]] = {
            "world_size": self.world_sizes,
            "remainder": self.remainders,
            "epoch": range(self.num_epochs),
            "sample": range(self.num_samples),
        }
        choices = allowed[name]
        if value not in choices:
            raise traitlets.TraitError(f"{name} {value!r} is not in this map; choose from {list(choices)}")
        return value


def map_of(deal: Deal, num_samples: int, world_size: int, num_epochs: int, remainder: str) -> list[dict[str, Any]]:
    """All epochs of one world, in order: owners, marks, table and words of each.

    Raises:
        ValueError: the function dealt to another number of ranks, or samples that do not exist.
    """
    visits = [0] * num_samples
    epochs = []
    for epoch in range(num_epochs):
        dealt = deal(world_size, epoch, remainder)
        if len(dealt) != world_size:
            raise ValueError(f"{world_size} ranks were asked for and {len(dealt)} dealt; return one list for each rank")
        owners = owners_of(dealt, num_samples)
        visits = [count + len(who) for count, who in zip(visits, owners, strict=True)]
        ranks = f"{num_samples} samples, {count_of(world_size, 'rank')}, epoch {epoch}, {remainder}"
        epochs.append(
            {
                "owners": owners,
                "marks": [mark_of(who) for who in owners],
                "rows": _rows_of(dealt),
                "summary": f"{ranks}: {_steps_of(dealt)}, {_summary_of(owners, visits, epoch)}",
                "sentences": [_sentence_of(i, who, visits[i], epoch) for i, who in enumerate(owners)],
            }
        )
    return epochs


def owners_of(dealt: Dealt, num_samples: int) -> list[list[list[int]]]:
    """For each sample, the [rank, step] pairs that load it; steps count from 1, as people count them.

    Example: `owners_of([[[0, 2]], [[1, 0]]], 3)` -> `[[[0, 1], [1, 1]], [[1, 1]], [[0, 1]]]`.

    Raises:
        ValueError: a number is not a sample of the data set.
    """
    owners: list[list[list[int]]] = [[] for _ in range(num_samples)]
    for rank, steps in enumerate(dealt):
        for step, samples in enumerate(steps, start=1):
            for sample in samples:
                if not 0 <= sample < num_samples:
                    raise ValueError(
                        f"rank {rank} loads sample {sample}, and the data set has {num_samples}; "
                        "deal the numbers of the samples, from 0"
                    )
                owners[sample].append([rank, step])
    return owners


def mark_of(who: Sequence[Sequence[int]]) -> str:
    """The text of a square: `r1 s2` for rank 1 in step 2, with `+1` for another visit, `none` without any."""
    if not who:
        return "none"
    more = f" +{len(who) - 1}" if len(who) > 1 else ""
    return f"r{who[0][0]} s{who[0][1]}{more}"


def _rows_of(dealt: Dealt) -> list[list[str]]:
    """The table: a row for each rank and step with its samples, `["rank 0", "step 1", "5 2 6 0"]`."""
    return [
        [f"rank {rank}", f"step {step}", " ".join(map(str, samples))]
        for rank, steps in enumerate(dealt)
        for step, samples in enumerate(steps, start=1)
    ]


def _sentence_of(sample: int, owners: Sequence[Sequence[int]], num_visits: int, epoch: int) -> str:
    """One sample: `sample 7: rank 1 in step 2; loaded 3 times in epochs 0 to 2`."""
    who = " and ".join(f"rank {rank} in step {step}" for rank, step in owners) or "loaded by nobody"
    return f"sample {sample}: {who}; {_times(num_visits)} in {_epochs(epoch)}"


def _summary_of(owners: Sequence[Sequence[Any]], visits: Sequence[int], epoch: int) -> str:
    """The counts of samples, and of loads beyond the first of each.

    Example: `2 samples loaded more than once (3 loads too many), 0 left out. In epoch 0 a sample was loaded 1 to 3
    times.`
    """
    again, left_out = sum(len(who) > 1 for who in owners), sum(not who for who in owners)
    surplus = sum(max(0, len(who) - 1) for who in owners)
    loads = f" ({count_of(surplus, 'load')} too many)" if surplus else ""
    fewest, most = min(visits), max(visits)
    spread = _times(most) if fewest == most else f"loaded {fewest} to {most} times"
    told = f"{count_of(again, 'sample')} loaded more than once{loads}, {left_out} left out"
    return f"{told}. In {_epochs(epoch)} a sample was {spread}."


def _steps_of(dealt: Dealt) -> str:
    steps = [len(one) for one in dealt]
    if len(set(steps)) == 1:
        return count_of(steps[0], "step") + ("" if len(steps) == 1 else " on every rank")
    longest = [str(rank) for rank, one in enumerate(steps) if one == max(steps)]
    who = f"rank {longest[0]} waits" if len(longest) == 1 else f"ranks {', '.join(longest)} wait"
    listed = f"{', '.join(map(str, steps[:-1]))} and {steps[-1]}"
    return f"{listed} steps, so {who} for ever in step {max(steps)}"


def _times(number: int) -> str:
    return {0: "never loaded", 1: "loaded once", 2: "loaded twice"}.get(number, f"loaded {number} times")


def _epochs(last: int) -> str:
    return "epoch 0" if last == 0 else f"epochs 0 to {last}"


def _draw_sample(axes: "Axes", corner: tuple[int, int], sample: int, who: Sequence[Sequence[int]]) -> None:
    from matplotlib.patches import Rectangle

    x, y = corner
    fill, ink = _RANK_PAINTS[who[0][0] % len(_RANK_PAINTS)] if who else ("#FFFFFF", INK)
    edge: dict[str, Any] = {"edgecolor": INK, "linewidth": 3 if len(who) > 1 else 0.8}
    box = Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, facecolor=fill, **edge)
    if not who:
        box.set(linestyle="--", edgecolor=LIGHT.soft, linewidth=1.5)
    axes.add_patch(box)
    axes.text(x + 0.1, y + 0.12, str(sample), color=ink, size=8, ha="left", va="top")
    axes.text(x + 0.5, y + 0.64, mark_of(who), color=ink, size=10, weight="bold", ha="center", va="center")
