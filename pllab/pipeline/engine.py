"""The one engine: a row of a schedule, the stages' work, and the wires between them.

A schedule is data. What GPipe, 1F1B, ZB-H1 and the rest do differently is in their rows; what it takes to run a row is
here, once: for lanes and for ranks, for real and for sleeping stages, for an executor and for each half of a pipe.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from pllab.pipeline.packets import Packet
from pllab.pipeline.streams import HostStream, Mark
from pllab.schedule import Action
from pllab.timeline import Engine, Span, Timeline


class Work(Protocol):
    """What a stage does with an action: `StageWork` computes, `SleepWork` sleeps."""

    def parts(self, action: Action) -> tuple[Action, ...]:
        """What the action is made of: itself, and before it R where its forward is computed again."""

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Run one part on what the action took; return what it made."""


class Transport(Protocol):
    """Brings an action what it takes, and carries away what it made."""

    def take(self, action: Action) -> Packet:
        """Wait for the packet this action takes; `NOTHING` where it takes none."""

    def give(self, action: Action, packet: Packet) -> None:
        """Pass the packet this action made to whoever takes it; never waits."""


Timing = Callable[[Action], AbstractContextManager[None]]


def interpret(row: Iterable[Action], works: Mapping[int, Work], transport: Transport, timing: Timing) -> None:
    """Run one rank's actions in order: take, perform, give.

    Nothing here keeps ranks in step. An action waits for the one packet it takes, as long as that takes, and the
    clock only runs while it performs. A checked schedule has no circle of such waits, so every row ends.

    Source: `_step_microbatches` of torch.distributed.pipelining's schedules; lesson 11.
    """
    for action in row:
        packet = transport.take(action)
        for part in works[action.stage].parts(action):
            with timing(part):
                packet = works[action.stage].perform(part, packet)
        transport.give(action, packet)
        del packet  # a rank that waits for its next packet holds none


class _Entry(NamedTuple):
    rank: int
    action: Action
    stream: HostStream
    start: Mark
    end: Mark


class Record:
    """What ran when in one batch, forward and backward; workers add to it at the same time."""

    def __init__(self, engine: Engine, num_ranks: int) -> None:
        self._engine = engine
        self._num_ranks = num_ranks
        self._entries: list[_Entry] = []
        self._running: dict[int, Action] = {}

    def __len__(self) -> int:
        """How many actions have ended."""
        return len(self._entries)

    def running(self) -> list[Action]:
        """The actions that have begun and not ended, lowest rank first."""
        return [action for _, action in sorted(self._running.copy().items())]

    def timing(self, rank: int, stream: HostStream) -> Timing:
        """A context manager for each action of one rank, from the start to the end of its work."""
        return partial(self._timed, rank, stream)

    def timeline(self, *, from_zero: bool = True) -> Timeline:
        """The timeline so far, from time zero or on the host's clock; on a GPU this waits for the actions to end."""
        spans = [
            Span(entry.rank, entry.action, entry.stream.seconds(entry.start), entry.stream.seconds(entry.end))
            for entry in list(self._entries)
        ]
        timeline = Timeline.of(spans, self._engine, self._num_ranks)
        return timeline.from_zero() if from_zero else timeline

    @contextmanager
    def _timed(self, rank: int, stream: HostStream, action: Action) -> Iterator[None]:
        self._running[rank], start = action, stream.mark()
        try:
            yield
        except Exception as error:
            error.add_note(f"raised in {action}: stage {action.stage}, micro-batch {action.microbatch}, on rank {rank}")
            raise
        finally:
            del self._running[rank]
        self._entries.append(_Entry(rank, action, stream, start, stream.mark()))
