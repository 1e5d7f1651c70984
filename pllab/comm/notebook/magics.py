"""`%%px` for `Ranks`: ipyparallel's magic, its blocking form carried out by a function that is handed in.

That form adds what a lesson needs: output in order of rank, no progress bar, one clear sentence for a rank
that fails or dies, and an interrupt that reaches a rank waiting inside gloo. Imported only by `Ranks`,
because it needs ipyparallel.
"""

from collections.abc import Callable
from typing import Any

from ipyparallel import DirectView
from ipyparallel.client.magics import ParallelMagics


class RanksMagics(ParallelMagics):
    """`%px`, `%%px`, `%pxresult`, `%pxconfig` and `%autopx` on the ranks of one `Ranks`."""

    def __init__(self, shell: Any, view: DirectView, executing: Callable[[], Callable[..., None]]) -> None:
        """`executing()` returns what runs a cell on chosen ranks, or raises if the ranks have been stopped."""
        super().__init__(shell, view)
        self._executing = executing

    def parallel_execute(self, cell: str, block: bool | None = None, **options: Any) -> Any:
        """Run the cell on the ranks; without blocking, or on chosen targets, as ipyparallel does it."""
        execute = self._executing()
        wait = self.view.block if block is None else block
        if not wait or options.get("save_name"):
            return super().parallel_execute(cell, block=block, **options)
        execute(cell, targets=self._targets())
        return None

    def _targets(self) -> list[int] | None:
        chosen = self.view.targets
        if isinstance(chosen, int):
            return [chosen]
        return None if chosen in (None, "all") else [int(rank) for rank in chosen]
