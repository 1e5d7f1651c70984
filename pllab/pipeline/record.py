"""Write down when each action ran, cheaply enough to leave on."""

from typing import NamedTuple

from pllab.pipeline.stream import HostStream, Mark
from pllab.schedule import Action
from pllab.timeline import Engine, Span, Timeline


class _Entry(NamedTuple):
    rank: int
    action: Action
    stream: HostStream
    start: Mark
    end: Mark


class Record:
    """The actions of one batch, forward and backward, as they happen; workers add to it at the same time."""

    def __init__(self, engine: Engine, num_ranks: int) -> None:
        self._engine = engine
        self._num_ranks = num_ranks
        self._entries: list[_Entry] = []

    def add(self, rank: int, action: Action, stream: HostStream, start: Mark, end: Mark) -> None:
        """Add one action with its start and end."""
        self._entries.append(_Entry(rank, action, stream, start, end))

    def __len__(self) -> int:
        """How many actions have ended."""
        return len(self._entries)

    def timeline(self, *, from_zero: bool = True) -> Timeline:
        """The timeline so far, from time zero or on the host's clock; on a GPU this waits for the actions to end."""
        spans = [
            Span(entry.rank, entry.action, entry.stream.seconds(entry.start), entry.stream.seconds(entry.end))
            for entry in list(self._entries)
        ]
        timeline = Timeline.of(spans, self._engine, self._num_ranks)
        return timeline.from_zero() if from_zero else timeline
