"""Progress bars for `train`: one per rank, fed by the trainer's events."""

import sys
from typing import Any, Self

from tqdm import tqdm

from pllab.cli.options import is_terminal


class Bars:
    """Show the events of `pllab.train.train` as bars on stderr: `train(config, on_progress=bars)`.

    A context manager, so that the bars are closed whatever happens. In a log file they are drawn every few
    seconds only.
    """

    def __init__(self, num_epochs: int, is_hidden: bool = False) -> None:
        self._num_epochs = num_epochs
        self._is_hidden = is_hidden
        self._bars: dict[int, tqdm[Any]] = {}
        self._epochs: dict[int, int] = {}

    def __call__(self, event: dict[str, Any]) -> None:
        """Move the bar of the event's rank."""
        bar = self._bar_of(event)
        bar.n = event["step"]
        rate = event["tokens"] / event["seconds"] if event["seconds"] else 0.0
        bar.set_postfix_str(f"loss {event['loss']:.3f}, {rate:,.0f} tokens/s", refresh=False)
        bar.update(0)
        if event["step"] == event["num_steps"]:
            bar.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()

    def _bar_of(self, event: dict[str, Any]) -> "tqdm[Any]":
        """The bar of a rank; a new epoch starts it again."""
        rank, epoch = event["rank"], event["epoch"]
        if rank not in self._bars:
            self._bars[rank] = tqdm(
                total=event["num_steps"],
                desc=self._description(rank, epoch),
                position=rank,
                disable=self._is_hidden,
                file=sys.stderr,
                unit="step",
                mininterval=0.1 if is_terminal() else 5.0,
                dynamic_ncols=True,
            )
        if self._epochs.get(rank) != epoch:
            self._epochs[rank] = epoch
            self._bars[rank].set_description_str(self._description(rank, epoch), refresh=False)
            self._bars[rank].reset(event["num_steps"])
        return self._bars[rank]

    def _description(self, rank: int, epoch: int) -> str:
        return f"rank {rank} epoch {epoch + 1}/{self._num_epochs}"
