"""A schedule is a value: per rank, the ordered list of its actions.

Everything else reads this one object: it is checked, drawn, simulated, emulated and run. What can be derived from
the rows (which rank has which stage, how many micro-batches there are) is derived, so it cannot disagree with them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat
from operator import itemgetter
from typing import Self

from pllab.schedule.action import Action, Kind
from pllab.schedule.text import read_csv, write_csv


@dataclass(frozen=True)
class Schedule:
    """What every rank does, in order; when it happens is for an engine to say.

    Example, two stages and two micro-batches (1F1B):

        >>> print(Schedule.of([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]]))
        rank 0  0F0 0F1 0B0 0B1
        rank 1  1F0 1B0 1F1 1B1

    Two schedules are equal when their rows are; the name is only for people.

    Source: `pipeline_order` in torch.distributed.pipelining; lesson 10.
    """

    rows: tuple[tuple[Action, ...], ...]
    name: str = field(default="schedule", compare=False)

    @classmethod
    def of(cls, rows: Iterable[Iterable[Action | str]], name: str = "schedule") -> Self:
        """A schedule from rows of actions, or of their text forms.

        Raises:
            ValueError: a text is no action.
        """
        read = (tuple(Action.parse(item) if isinstance(item, str) else item for item in row) for row in rows)
        return cls(tuple(read), name)

    @property
    def num_ranks(self) -> int:
        """One row is one rank."""
        return len(self.rows)

    @cached_property
    def num_stages(self) -> int:
        """The highest stage plus one."""
        return 1 + max(map(itemgetter(0), self.actions()), default=-1)

    @cached_property
    def num_microbatches(self) -> int:
        """The highest micro-batch plus one."""
        return 1 + max(map(itemgetter(2), self.actions()), default=-1)

    @property
    def num_actions(self) -> int:
        """The actions of all ranks together."""
        return sum(map(len, self.rows))

    @cached_property
    def rank_of_stage(self) -> dict[int, int]:
        """The rank that runs each stage; in a legal schedule every stage has one."""
        rows = enumerate(self.rows)
        return dict(chain.from_iterable(zip(map(itemgetter(0), row), repeat(rank)) for rank, row in rows))

    def stages_of_rank(self, rank: int) -> tuple[int, ...]:
        """The stages one rank runs, lowest first: `(0, 3)` for rank 0 of a V of two ranks."""
        return tuple(sorted({action.stage for action in self.rows[rank]}))

    @cached_property
    def is_split(self) -> bool:
        """Whether a backward is split into I and W anywhere."""
        return any(action.kind is Kind.I for action in self.actions())

    def actions(self) -> Iterator[Action]:
        """All actions, rank by rank."""
        return chain.from_iterable(self.rows)

    def to_csv(self) -> str:
        """The compute-only CSV of torch.distributed.pipelining: a line per rank, `0F0,0F1,0B0,0B1`."""
        return write_csv(self.rows)

    @classmethod
    def from_csv(cls, text: str, name: str = "schedule") -> Self:
        """Read what `to_csv` or torch.distributed.pipelining wrote; blank cells are idle slots and are dropped.

        Raises:
            ValueError: a cell is no action; the sentence names its line and column.
        """
        return cls(read_csv(text), name)

    def __str__(self) -> str:
        width = len(str(self.num_ranks - 1))
        return "\n".join(f"rank {rank:>{width}}  {' '.join(map(str, row))}" for rank, row in enumerate(self.rows))
