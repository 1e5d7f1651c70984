"""`%%px` for `Ranks`: ipyparallel's magic, its blocking form carried out by `Ranks.execute`.

That form adds what a lesson needs: output in order of rank, no progress bar, one clear sentence for a rank
that fails or dies, and an interrupt that reaches a rank waiting inside gloo. Imported only by `Ranks`,
because it needs ipyparallel.
"""

import weakref
from typing import TYPE_CHECKING, Any

from ipyparallel import DirectView
from ipyparallel.client.magics import ParallelMagics

if TYPE_CHECKING:
    from pllab.comm.notebook.cells import Ranks


class RanksMagics(ParallelMagics):
    """`%px`, `%%px`, `%pxresult`, `%pxconfig` and `%autopx` on the ranks of one `Ranks`."""

    def __init__(self, shell: Any, view: DirectView, ranks: "Ranks") -> None:
        super().__init__(shell, view)
        self._ranks = weakref.ref(ranks)  # the shell keeps the magics; the group must still end with its name

    def parallel_execute(self, cell: str, block: bool | None = None, **options: Any) -> Any:
        """Run the cell on the ranks; without blocking, or on chosen targets, as ipyparallel does it."""
        ranks = self._ranks()
        if ranks is None or ranks.stopped:
            raise RuntimeError("these ranks have been stopped; make new ones, for example ranks = Ranks(2)")
        wait = self.view.block if block is None else block
        if not wait or options.get("save_name"):
            return super().parallel_execute(cell, block=block, **options)
        ranks.execute(cell, targets=self._targets())
        return None

    def _targets(self) -> list[int] | None:
        chosen = self.view.targets
        if isinstance(chosen, int):
            return [chosen]
        return None if chosen in (None, "all") else [int(rank) for rank in chosen]
