"""How many micro-batches of activations a rank holds, from its order of actions alone.

A forward keeps its activations and a backward frees them. In a split backward, the input gradient frees one part and
the weight gradient the rest. The order of a row decides this; the times do not.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pllab.schedule.model import Action, Kind, Schedule


@dataclass(frozen=True)
class Held:
    """How the activations of one micro-batch are counted: which part each half of its backward frees.

    Example: `Held()` is a half for each; `Held(input_share=0.0)` keeps everything until the weight gradient.

    Raises:
        ValueError: the share is outside 0 to 1.
    """

    input_share: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.input_share <= 1.0:
            raise ValueError(f"input_share is {self.input_share}; it is the part I frees, from 0 to 1")

    def change(self, kind: Kind) -> float:
        """What one action adds: F +1, B -1, I minus its share, W minus the rest."""
        changes = {Kind.F: 1.0, Kind.B: -1.0, Kind.I: -self.input_share, Kind.W: self.input_share - 1.0}
        return changes.get(kind, 0.0)

    def after_each(self, row: Iterable[Action]) -> list[float]:
        """The micro-batches held after each action: `[1, 2, 1, 0]` for `0F0 0F1 0B0 0B1`."""
        held, steps = 0.0, []
        for action in row:
            held += self.change(action.kind)
            steps.append(held)
        return steps


def peak_in_flight(schedule: Schedule, held: Held | None = None) -> tuple[float, ...]:
    """Per rank, the most micro-batches whose activations it holds at once.

    Example: 1F1B holds `min(m, p - s)` on stage s; `(4, 3, 2, 1)` for four stages and many micro-batches.
    """
    held = held or Held()
    return tuple(max(held.after_each(row), default=0.0) for row in schedule.rows)
