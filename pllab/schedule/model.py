"""A schedule is a value: per rank, the ordered list of its actions.

Everything else reads this one object: it is checked, drawn, simulated, emulated and run. What can be derived from
the rows (which rank has which stage, how many micro-batches there are) is derived, so it cannot disagree with them.
Its text is the CSV of torch.distributed.pipelining: one line per rank, one cell per action.
"""

import gc
import re
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain, pairwise, repeat
from math import inf, prod
from operator import itemgetter
from typing import NamedTuple, Self

from pllab.arguments import whole_number

_MOST_ACTIONS = 10**7  # more would fill the memory


class Kind(StrEnum):
    """What an action does.

    F forward, B whole backward, I gradient of the input, W gradient of the weights: the four of a pipeline.
    C communication, U optimizer update, R recomputed forward: also drawn, never scheduled.
    """

    F = "F"
    B = "B"
    I = "I"  # noqa: E741 - the field's letter for the input gradient
    W = "W"
    C = "C"
    U = "U"
    R = "R"


class Action(NamedTuple):
    """One kind of work by one stage on one micro-batch, written `2F0`.

    Example: `str(Action(2, Kind.F, 0))` is `"2F0"`, and `Action.parse("2F0")` gives it back.

    Source: `_Action` in torch.distributed.pipelining.schedules.
    """

    stage: int
    kind: Kind
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form: `"2F0"` -> `Action(2, Kind.F, 0)`.

        Raises:
            ValueError: the text is not a stage number, one of FBIWCUR and a micro-batch number.
        """
        match = _ACTION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no action; write stage, kind and micro-batch, for example 2F0")
        stage, kind, microbatch = match.groups()
        return cls(int(stage), Kind(kind), int(microbatch))


@dataclass(frozen=True)
class Schedule:
    """What every rank does, in order; an engine decides when.

    Example, two stages and two micro-batches (1F1B):

        >>> print(Schedule.of([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]]))
        rank 0  0F0 0F1 0B0 0B1
        rank 1  1F0 1B0 1F1 1B1

    `overlaps` has the forwards that may run together with the whole backward right behind them, as DualPipeV's do. Two
    schedules are equal when their rows are: overlaps only hint at how to run them, and the name is for people.

    Source: `pipeline_order` in torch.distributed.pipelining; lesson 10.
    """

    rows: tuple[tuple[Action, ...], ...]
    name: str = field(default="schedule", compare=False)
    overlaps: frozenset[Action] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, rows: Iterable[Iterable[Action | str]], name: str = "schedule") -> Self:
        """A schedule from rows of actions, or of their text forms.

        Raises:
            ValueError: a text is not an action.
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

    @property
    def stages_per_rank(self) -> float:
        """How many stages make a rank's share of the model, on average: 2.0 for `interleaved(2, 4)`."""
        return max(1.0, self.num_stages / max(1, self.num_ranks))

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

    def pairs(self) -> Iterator[tuple[Action, Action]]:
        """Every forward of `overlaps` with its backward; one that no backward follows is not in a pair."""
        for before, after in chain.from_iterable(map(pairwise, self.rows)) if self.overlaps else ():
            if before in self.overlaps and after.kind is Kind.B:
                yield before, after

    def only(self, kinds: Container[str], num_microbatches: float = inf) -> Self:
        """A part of a schedule: the actions of some kinds, of all micro-batches or of the first ones.

        Example: `gpipe(2, 4).only("F")` is what a pipe runs forward, and `only("BIW")` what it runs backward.
        """

        def keeps(action: Action) -> bool:
            return action.kind in kinds and action.microbatch < num_microbatches

        rows = tuple(tuple(filter(keeps, row)) for row in self.rows)
        return type(self)(rows, self.name, frozenset(pair[0] for pair in self.pairs() if all(map(keeps, pair))))

    def to_csv(self) -> str:
        """The compute-only CSV of torch.distributed.pipelining: a line per rank, `0F0,0F1,0B0,0B1`.

        A pair is one cell, `(0F1;3B0)OVERLAP_F_B`.
        """
        pairs = set(self.pairs())
        return "".join(",".join(_cells(row, pairs)) + "\n" for row in self.rows)

    @classmethod
    def from_csv(cls, text: str, name: str = "schedule") -> Self:
        """Read the CSV that `to_csv` or torch.distributed.pipelining wrote.

        Blank cells are idle slots and are dropped; so are messages, and FSDP's gathering and freeing of parameters.
        `(0F1;3B0)OVERLAP_F_B` becomes its two actions in order, and `overlaps` has the forward.

        Example: `0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD` is the row `0F0 0B0`.

        Raises:
            ValueError: a cell is not an action; the sentence names its line and column.
        """
        rows: list[tuple[Action, ...]] = []
        overlaps = set()
        for line, cells in enumerate(text.splitlines(), 1):
            read = [_read_cell(cell, line, column) for column, cell in enumerate(cells.split(","), 1)]
            rows.append(tuple(chain.from_iterable(read)))
            overlaps |= {actions[0] for actions in read if [each.kind for each in actions] == [Kind.F, Kind.B]}
        return cls(tuple(rows), name, frozenset(overlaps))

    def __str__(self) -> str:
        width = len(str(self.num_ranks - 1))
        return "\n".join(f"rank {rank:>{width}}  {' '.join(map(str, row))}" for rank, row in enumerate(self.rows))


def check_sizes(**sizes: int) -> tuple[int, ...]:
    """The sizes of a schedule as Python ints, in the same order.

    Example: `check_sizes(num_stages=4, num_microbatches=numpy.int64(8))` -> (4, 8).

    Raises:
        ValueError: a size is not a whole number of at least 1, or there are more actions than memory holds.
    """
    checked = tuple(whole_number(name, value) for name, value in sizes.items())
    if prod(checked) > _MOST_ACTIONS:
        product = " x ".join(f"{name} {value}" for name, value in zip(sizes, checked, strict=True))
        raise ValueError(f"{product} are more than {_MOST_ACTIONS:,} actions; give smaller sizes")
    return checked


def series(stage: int, kind: Kind, microbatches: Iterable[int]) -> list[Action]:
    """The same work on one micro-batch after another: `2F0 2F1 2F2` for stage 2, F and `range(3)`.

    A loop over `Action(...)` gives the same and takes twice as long, which shows in schedules of 100,000 actions.
    """
    return list(map(Action._make, zip(repeat(stage), repeat(kind), microbatches, strict=False)))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while very many lasting values are made; afterwards it is as it was.

    Example: `with collector_paused(): spans = make_many()`, or `@collector_paused()` above a function.

    The collector searches all objects of the process repeatedly while their number grows. In a process with torch
    that takes several times as long as making a large schedule, and frees nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def split_backwards(schedule: Schedule) -> Schedule:
    """Replace every B by I and W, in this order: `0F0 0B0` becomes `0F0 0I0 0W0`.

    A legal schedule stays legal; nothing is gained until a W is moved into a gap (lesson 11).
    """
    rows = ([part for action in row for part in _halves(action)] for row in schedule.rows)
    return Schedule.of(rows, f"{schedule.name}, split")


def _halves(action: Action) -> tuple[Action, ...]:
    return tuple(action._replace(kind=kind) for kind in (Kind.I, Kind.W)) if action.kind is Kind.B else (action,)


_ACTION = re.compile(r"([0-9]{1,18})([FBIWCUR])([0-9]{1,18})")
_ADDED = re.compile(r"[0-9]+((SEND|RECV)_[FB][0-9]+|UNSHARD|RESHARD|REDUCE_GRAD)")
_OVERLAPPED = re.compile(r"\((?P<parts>[^()]*)\)OVERLAP_F_B")


def _cells(row: tuple[Action, ...], pairs: Container[tuple[Action, ...]]) -> Iterator[str]:
    places = iter(range(len(row)))
    for at in places:
        is_pair = row[at : at + 2] in pairs
        yield f"({row[at]};{row[next(places)]})OVERLAP_F_B" if is_pair else str(row[at])


def _read_cell(cell: str, line: int, column: int) -> list[Action]:
    cell = cell.strip().removeprefix('"').removesuffix('"')
    overlapped = _OVERLAPPED.fullmatch(cell)
    parts = overlapped["parts"].split(";") if overlapped else [cell]
    try:
        return [Action.parse(part) for part in parts if part.strip() and not _ADDED.fullmatch(part.strip())]
    except ValueError as error:
        raise ValueError(f"line {line}, column {column} of the schedule: {error}") from None
