"""The index map: which rank loads which sample in which step, for every world size, epoch and policy.

Every map is made once, in Python, when the widget is made. The browser only chooses among them, so the sliders work
while the kernel is busy and after it is gone.
"""

from collections.abc import Sequence
from typing import Any

import traitlets

from pllab.show.figure import Figure
from pllab.show.index_map_picture import RANK_PAINTS, draw_index_map
from pllab.show.index_map_text import Deal, map_of
from pllab.show.widget import Widget, read_source


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
        ValueError: there is nothing to choose from, or `deal` returned what is no epoch.
    """

    _esm = read_source("index_map.js")
    _css = read_source("index_map.css")

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
            paints=[{"fill": fill, "text": text} for fill, text in RANK_PAINTS],
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
        found: dict[str, Any] = self.maps[f"{self.world_size}/{self.remainder}"][self.epoch]
        return found

    def state(self) -> dict[str, Any]:
        """The map shown: what was chosen, the steps of every rank, who has each sample, and the sentences."""
        shown = self._shown
        return {
            "num_samples": self.num_samples,
            "world_size": self.world_size,
            "epoch": self.epoch,
            "remainder": self.remainder,
            "num_steps": shown["num_steps"],
            "owners": shown["owners"],
            "summary": shown["summary"],
            "sample": self.sample,
            "sentence": shown["sentences"][self.sample],
        }

    def static(self) -> Figure:
        """The map shown now as a figure."""
        shown = self._shown
        return draw_index_map(shown["owners"], self.num_columns, shown["summary"])

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
