"""How many micro-batches of activations a rank holds: the one count, for schedules before a run and timelines after it.

A forward keeps its activations and a backward releases them. In a split backward, the input gradient releases one
part and the weight gradient the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol


class HasKind(Protocol):
    """What a count of memory needs of an action."""

    @property
    def kind(self) -> str:
        """One of the letters F B I W C U R."""


@dataclass(frozen=True)
class Held:
    """How much the activations of one micro-batch on one stage count, and which part each half of its backward frees.

    Example: `Held()` is a half for each; `Held(input_share=0.0)` keeps everything until the weight gradient.

    Raises:
        ValueError: the share is outside 0 to 1.
    """

    input_share: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.input_share <= 1.0:
            raise ValueError(f"input_share is {self.input_share}; it is the part I frees, from 0 to 1")

    @property
    def changes(self) -> Mapping[str, float]:
        """What one action adds, by kind: F +1, B -1, I minus its share, W minus the rest; other kinds nothing."""
        return {"F": 1.0, "B": -1.0, "I": -self.input_share, "W": self.input_share - 1.0}

    def after_each(self, actions: Iterable[HasKind]) -> list[float]:
        """The micro-batches held after each action: `[1, 2, 1, 0]` for `0F0 0F1 0B0 0B1`."""
        changes = self.changes
        return list(accumulate(changes.get(action.kind, 0.0) for action in actions))


def is_over(held: float, limit: float | None) -> bool:
    """Whether more is held than a limit allows, beyond rounding; None is no limit. `is_over(4.0, 4)` -> False."""
    return limit is not None and not held <= limit + 1e-9
