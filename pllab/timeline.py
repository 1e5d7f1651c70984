"""What happened when: the one record of a run, whichever engine made it.

Simulated, emulated and real runs all return a `Timeline`, so one picture can show a prediction above its
measurement. Times are seconds on one clock; only differences mean anything. Standard library only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Literal, NamedTuple, Protocol, Self

from pllab.memory import HasKind, Held

Engine = Literal["simulated", "emulated", "real"]


class ActionLike(HasKind, Protocol):
    """What a span needs of an action; `pllab.schedule.Action` has it."""

    @property
    def stage(self) -> int:
        """Number of the stage, from 0."""

    @property
    def microbatch(self) -> int:
        """Number of the micro-batch, from 0."""


class Span(NamedTuple):
    """An action with its rank and its times in seconds: `Span(0, Action(0, Kind.F, 0), 0.0, 1.5)`."""

    rank: int
    action: ActionLike
    start: float
    end: float

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """The spans of one run and the engine that made them.

    Example, two stages and two micro-batches forward, one second each:

        rank 0   F0 F1 ·         makespan 3 s, busy 4 s of 6 s,
        rank 1   ·  F0 F1        bubble fraction 2/6, bubble overhead 2/4
    """

    spans: tuple[Span, ...]
    engine: Engine
    num_ranks: int

    @classmethod
    def of(cls, spans: Iterable[Span], engine: Engine, num_ranks: int | None = None) -> Self:
        """Collect spans in order of start; the number of ranks defaults to the highest rank plus one."""
        by_rank = sorted(spans, key=itemgetter(0))
        num_seen = 1 + by_rank[-1].rank if by_rank else 0
        ordered = tuple(sorted(by_rank, key=itemgetter(2)))  # keeps the ranks in order where starts are the same
        return cls(ordered, engine, num_seen if num_ranks is None else num_ranks)

    def of_rank(self, rank: int) -> tuple[Span, ...]:
        """The spans of one rank, in order of start."""
        return self._by_rank.get(rank, ())

    @cached_property
    def _by_rank(self) -> dict[int, tuple[Span, ...]]:
        rows: dict[int, list[Span]] = {}
        for span in self.spans:
            rows.setdefault(span.rank, []).append(span)
        return {rank: tuple(row) for rank, row in rows.items()}

    @cached_property
    def start(self) -> float:
        """The earliest start, in seconds."""
        return min(map(itemgetter(2), self.spans), default=0.0)

    @cached_property
    def end(self) -> float:
        """The latest end, in seconds."""
        return max(map(itemgetter(3), self.spans), default=0.0)

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return self.end - self.start

    @cached_property
    def busy(self) -> float:
        """Device-seconds in which a rank was computing; overlapping spans of one rank count once."""
        return sum(self.busy_of_ranks)

    @cached_property
    def busy_of_ranks(self) -> tuple[float, ...]:
        """Per rank, the seconds in which it was computing."""
        works = (self.work_of(rank) for rank in range(self.num_ranks))
        return tuple(sum(max(0.0, span.end - max(span.start, free)) for free, span in work) for work in works)

    def idle_times(self, rank: int) -> Iterator[tuple[float, float, Span | None]]:
        """Each time in which a rank does no work: from when to when, and the span that ends it, None at the end.

        Example: a rank that works on `span` from 1 s to 3 s of a run of 4 s is idle in `(0, 1, span)` and
        `(3, 4, None)`.
        """
        reached = self.start
        for free, span in self.work_of(rank):
            if span.start > free:
                yield free, span.start, span
            reached = max(free, span.end)
        if self.end > reached:
            yield reached, self.end, None

    def work_of(self, rank: int) -> Iterator[tuple[float, Span]]:
        """The spans that keep a rank busy, in order, each with the time from which the rank was free for it."""
        free = self.start
        for span in self.of_rank(rank):
            if span.action.kind != "C":  # which occupies the wire and not the device, so it is drawn and is not work
                yield free, span
                free = max(free, span.end)

    @property
    def idle(self) -> float:
        """Device-seconds in which a rank was not computing."""
        return self.makespan * self.num_ranks - self.busy

    @property
    def bubble_fraction(self) -> float:
        """Idle over total device time; (p-1)/(m+p-1) for GPipe with p stages and m micro-batches."""
        total = self.makespan * self.num_ranks
        return self.idle / total if total else 0.0

    @property
    def bubble_overhead(self) -> float:
        """Idle over busy device time; (p-1)/m for GPipe with p stages and m micro-batches."""
        return self.idle / self.busy if self.busy else 0.0

    @cached_property
    def peak_in_flight(self) -> tuple[float, ...]:
        """Per rank, the most micro-batches whose activations it held at once; I and W release a half each."""
        steps = map(self.held_over_time, range(self.num_ranks))
        return tuple(max((held for _, held in held_after), default=0.0) for held_after in steps)

    def held_over_time(self, rank: int) -> list[tuple[float, float]]:
        """The memory staircase of one rank: `(seconds, micro-batches held from then on)`, in order.

        Example: `[(0.0, 1.0), (3.0, 0.0)]` for a forward that starts at 0 and its backward that ends at 3.
        """
        held = Held()
        counted = held.changes
        changes = [
            (span.start if span.action.kind == "F" else span.end, span.action)
            for span in self.of_rank(rank)
            if span.action.kind in counted
        ]
        changes.sort(key=itemgetter(0))  # at one instant the order of the row holds
        return list(zip(map(itemgetter(0), changes), held.after_each(map(itemgetter(1), changes)), strict=True))

    def from_zero(self) -> Self:
        """The same run on a clock that starts at zero."""
        moved = tuple(
            Span(span.rank, span.action, span.start - self.start, span.end - self.start) for span in self.spans
        )
        return type(self)(moved, self.engine, self.num_ranks)
