"""The one engine: a row of a schedule, the stages' work, and the packets between them.

A schedule is data. GPipe, 1F1B, ZB-H1 and the rest differ only in their rows. How a row is run is written here, once:
for real and for sleeping stages, for an executor and for each half of a pipe.

An action takes one packet and makes one. A packet is named by the stage that takes it, so that both ends know its name
from the schedule alone:

    batch --> [0F0] --> [1F0] --> [2F0] --> outputs, or the loss        names (stage, forward, micro-batch):
              (0,F,0)   (1,F,0)   (2,F,0)   (3,F,0)                     the upper row goes up
    (-1,B,0)  (0,B,0)   (1,B,0)   (2,B,0)                               the lower row comes down
    input  <-- [0B0] <-- [1B0] <-- [2B0] <-- gradients of the outputs

A pipe or an executor puts in the packets that enter at both ends, and takes out those that leave.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import NamedTuple, Protocol

import torch

from pllab.comm.devices import event_after, is_gpu
from pllab.pipeline.streams import GpuStream, HostStream, Mark
from pllab.pipeline.workers import Upstream
from pllab.schedule import Action, Kind
from pllab.timeline import Engine, Span, Timeline


class Packet(NamedTuple):
    """Tensors on their way, which of them need a gradient, and the event of a GPU after which they may be read."""

    tensors: Sequence[torch.Tensor | None]
    needs_grad: Sequence[bool] = ()
    ready: torch.Event | None = None


NOTHING = Packet(())


class Name(NamedTuple):
    """The name of a packet: the stage that takes it, activations (forward) or their gradients, micro-batch."""

    stage: int
    forward: bool
    microbatch: int


def taken_by(action: Action) -> Name | None:
    """The packet an action takes; None for W, whose stage kept all it needs from I.

    Example: `2F0` takes the activations for stage 2 that `1F0` makes.
    """
    return None if action.kind is Kind.W else Name(action.stage, action.kind is Kind.F, action.microbatch)


def made_by(action: Action) -> Name | None:
    """The packet an action makes; None for W.

    Example: `1B0` and `1I0` make the gradients for stage 0.
    """
    receiver = action.stage + 1 if action.kind is Kind.F else action.stage - 1
    return None if action.kind is Kind.W else Name(receiver, action.kind is Kind.F, action.microbatch)


def as_packet(tensors: Sequence[torch.Tensor], needs_grad: Sequence[bool] | None = None) -> Packet:
    """The caller's tensors as a packet: detached, with the event after which they may be read."""
    return Packet([tensor.detach() for tensor in tensors], needs_grad or [False] * len(tensors), queued(tensors))


def queued(tensors: Sequence[torch.Tensor | None]) -> torch.Event | None:
    """An event after all that this thread has queued on the GPUs of these tensors; none if they are on the CPU."""
    gpus = dict.fromkeys(tensor.device for tensor in tensors if tensor is not None and is_gpu(tensor.device))
    streams = [*map(torch.accelerator.current_stream, gpus)]
    for other in streams[1:]:
        streams[0].wait_stream(other)
    return event_after(streams[0]) if streams else None


class Packets:
    """The packets of one run that no lane has taken yet: each a future, which one lane sets and another waits for.

    Example: `put(name, packet)` never waits; `take(name)` waits for that packet, whatever else is there. The deadline
    belongs to the run, which alone sees whether any lane makes progress, and which ends the wait with `fail`.
    """

    def __init__(self, entering: Mapping[Name, Packet]) -> None:
        self._futures: dict[Name, Future[Packet]] = {}
        self._failure: BaseException | None = None
        for name, packet in entering.items():
            self.put(name, packet)

    def put(self, name: Name, packet: Packet) -> None:
        """Hand over a packet; after a failure it is dropped."""
        with suppress(InvalidStateError):
            self._future(name).set_result(packet)

    def take(self, name: Name | None) -> Packet:
        """Wait for a packet and take it out; without a name there is nothing to wait for.

        Raises:
            Upstream: another lane failed, or the run was stopped.
        """
        future = None if name is None else self._future(name)
        with suppress(CancelledError):
            if self._failure is None:  # asked once the future is there: `fail` sees one of the two
                packet = NOTHING if future is None else future.result()
                if name is not None:
                    del self._futures[name]
                return packet
        raise Upstream("another lane failed, or the run was stopped") from self._failure

    def fail(self, error: BaseException) -> None:
        """End every wait, now and later, with this error as the cause."""
        self._failure = self._failure or error
        for future in list(self._futures.values()):
            future.cancel()

    def left(self) -> dict[Name, Packet]:
        """The packets that no lane took, once all lanes have ended."""
        return {name: future.result() for name, future in self._futures.items()}

    def _future(self, name: Name) -> Future[Packet]:
        return self._futures.setdefault(name, Future())  # one step of the interpreter, so both ends get the same


class Transport:
    """Brings each action of one lane its packet, and carries away the packet it makes.

    Packets pass by reference or, where a GPU is at one end, as copies.
    """

    def __init__(self, packets: Packets, stream: HostStream) -> None:
        self._packets = packets
        self._stream = stream
        self._gpu = stream if isinstance(stream, GpuStream) else None

    def take(self, action: Action) -> Packet:
        """Wait for this action's packet and bring it to the lane's device; `NOTHING` if it takes none."""
        packet = self._packets.take(taken_by(action))
        if packet.ready is None and self._stream.device.type == "cpu":
            return packet
        return Packet(self._stream.fetch(packet.tensors, packet.ready), packet.needs_grad)

    def give(self, action: Action, packet: Packet) -> None:
        """Pass on the packet that this action made, without waiting."""
        if (name := made_by(action)) is not None:
            self._packets.put(name, packet if self._gpu is None else packet._replace(ready=self._gpu.ready()))


class Work(Protocol):
    """What a stage does with an action: `StageWork` computes, `SleepWork` sleeps."""

    def parts(self, action: Action) -> tuple[Action, ...]:
        """The action itself, after an R if its forward is computed again."""

    def perform(self, action: Action, packet: Packet) -> Packet:
        """Run one part on the packet that the action takes; return the packet that it makes."""


Timing = Callable[[Action], AbstractContextManager[None]]
Named = Callable[[str], AbstractContextManager[object]]


def interpret(row: Iterable[Action], works: Mapping[int, Work], transport: Transport, timing: Timing) -> None:
    """Run one rank's actions in order: take, perform, give.

    Nothing here keeps ranks in step. An action waits for its packet; its time starts only after that. A checked
    schedule has no circle of such waits, so every row ends.

    Source: `_step_microbatches` of torch.distributed.pipelining's schedules. Lessons 09 and 10.
    """
    for action in row:
        packet = transport.take(action)
        for part in works[action.stage].parts(action):
            with timing(part):
                packet = works[action.stage].perform(part, packet)
        transport.give(action, packet)
        del packet  # hold no memory while waiting for the next packet


@cache
def _span_name(action: Action) -> str:
    return f"PP:{action}"  # as torch's own runtime names it; `pllab.traces` reads it


class ActionTimes:
    """When each action of one batch ran, forward and backward; several workers may write at once."""

    def __init__(self, engine: Engine, num_ranks: int) -> None:
        self._engine = engine
        self._num_ranks = num_ranks
        self._entries: list[tuple[int, Action, HostStream, Mark, Mark]] = []
        self._running: dict[int, Action] = {}

    def __len__(self) -> int:
        """How many actions have ended."""
        return len(self._entries)

    def running(self) -> list[Action]:
        """The actions that run now, lowest rank first."""
        return [action for _, action in sorted(self._running.copy().items())]

    def timing(self, rank: int, stream: HostStream, span: Named = nullcontext) -> Timing:
        """The stopwatch of one rank: for each action, a context manager around its work.

        Within it stands a span with the name of the action, `PP:0F1`, for example torch's `record_function`.
        """
        return partial(self._timed, rank, stream, span)

    def timeline(self, *, from_zero: bool = True) -> Timeline:
        """The timeline so far, from time zero or on the host's clock; on a GPU this waits for the actions to end."""
        spans = [
            Span(rank, action, stream.seconds(start), stream.seconds(end))
            for rank, action, stream, start, end in list(self._entries)
        ]
        timeline = Timeline.of(spans, self._engine, self._num_ranks)
        return timeline.from_zero() if from_zero else timeline

    @contextmanager
    def _timed(self, rank: int, stream: HostStream, span: Named, action: Action) -> Iterator[None]:
        self._running[rank], start = action, stream.mark()
        try:
            with span(_span_name(action)):
                yield
        except Exception as error:
            error.add_note(f"raised in {action}: stage {action.stage}, micro-batch {action.microbatch}, on rank {rank}")
            raise
        finally:
            del self._running[rank]
        self._entries.append((rank, action, stream, start, stream.mark()))
