"""The one engine: a row of a schedule, the stages' work, and the wires between them.

A schedule is data. GPipe, 1F1B, ZB-H1 and the rest differ only in their rows. How a row is run is written here, once:
for lanes and for ranks, for real and for sleeping stages, for an executor and for each half of a pipe.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from torch.profiler import record_function

from pllab.pipeline.packets import Packet
from pllab.pipeline.streams import HostStream, Mark
from pllab.schedule import Action
from pllab.timeline import Engine, Span, Timeline


class Work(Protocol):
    """What a stage does with an action: `StageWork` computes, `SleepWork` sleeps."""

    def parts(self, action: Action) -> tuple[Action, ...]:
        """The action itself, after an R if its forward is computed again."""

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Run one part on the packet that the action takes; return the packet that it makes."""


class Transport(Protocol):
    """Brings each action its packet, and carries away the packet it makes."""

    def take(self, action: Action) -> Packet:
        """Wait for this action's packet; `NOTHING` if it takes none."""

    def give(self, action: Action, packet: Packet) -> None:
        """Pass on the packet that this action made, without waiting."""


Timing = Callable[[Action], AbstractContextManager[None]]


def interpret(row: Iterable[Action], works: Mapping[int, Work], transport: Transport, timing: Timing) -> None:
    """Run one rank's actions in order: take, perform, give.

    Nothing here keeps ranks in step. An action waits for its one packet; its time starts only after that. A checked
    schedule has no circle of such waits, so every row ends.

    Source: `_step_microbatches` of torch.distributed.pipelining's schedules. Lesson 10.
    """
    for action in row:
        packet = transport.take(action)
        for part in works[action.stage].parts(action):
            with timing(part):
                packet = works[action.stage].perform(part, packet)
        transport.give(action, packet)
        del packet  # hold no memory while waiting for the next packet


def marked(timing: Timing) -> Timing:
    """The stopwatch, and a span of torch's profiler around each action, named as torch's own runtime names it.

    Example: `PP:0F1`, which `pllab.traces` reads.
    """

    @contextmanager
    def around(action: Action) -> Iterator[None]:
        with record_function(f"PP:{action}"), timing(action):
            yield

    return around


class _Entry(NamedTuple):
    rank: int
    action: Action
    stream: HostStream
    start: Mark
    end: Mark


class Record:
    """When each action of one batch ran, forward and backward; several workers may write at once."""

    def __init__(self, engine: Engine, num_ranks: int) -> None:
        self._engine = engine
        self._num_ranks = num_ranks
        self._entries: list[_Entry] = []
        self._running: dict[int, Action] = {}

    def __len__(self) -> int:
        """How many actions have ended."""
        return len(self._entries)

    def running(self) -> list[Action]:
        """The actions that run now, lowest rank first."""
        return [action for _, action in sorted(self._running.copy().items())]

    def timing(self, rank: int, stream: HostStream) -> Timing:
        """The stopwatch of one rank: for each action, a context manager around its work."""
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
