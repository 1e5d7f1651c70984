"""The wires between lanes: each worker interprets its row, and packets wait in mailboxes until they are taken.

Nothing keeps the workers in step. They share a process, so packets pass by reference, and between GPUs as copies.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import Empty
from typing import NamedTuple, Self

import torch

from pllab import accelerator
from pllab.pipeline.engine import Record, Transport, Work, interpret, marked
from pllab.pipeline.packets import NOTHING, Name, Packet, made_by, taken_by
from pllab.pipeline.streams import HostStream, stream_for
from pllab.pipeline.workers import OutQueue, Result, Task, Upstream, Workers, create_workers, raise_first_cause
from pllab.schedule import Action, Schedule


class Mailbox:
    """A slot for each packet; other lanes put, one lane takes.

    Example: `put(name, packet)` never waits; `take(name)` waits for that packet, whatever else is there. The deadline
    is the run's, which alone sees whether any lane gets on, and ends the wait with `fail`.
    """

    def __init__(self) -> None:
        self._slots: dict[Name, Packet] = {}
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, name: Name, packet: Packet) -> None:
        """Put a packet into its slot."""
        with self._changed:
            self._slots[name] = packet
            self._changed.notify()

    def fail(self, error: BaseException) -> None:
        """End every wait, now and later, with this error as the cause."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify()

    def check(self) -> None:
        """Stop here if another lane has failed; for an action that takes no packet.

        Raises:
            Upstream: another lane failed.
        """
        if self._failure is not None:
            raise Upstream(f"another lane failed: {self._failure}") from self._failure

    def take(self, name: Name) -> Packet:
        """Wait for a packet and take it out.

        Raises:
            Upstream: another lane failed, or the run was stopped.
        """
        with self._changed:
            self._changed.wait_for(lambda: name in self._slots or self._failure is not None)
            if self._failure is not None:
                raise Upstream(f"the {name} never came: {self._failure}") from self._failure
            return self._slots.pop(name)

    def take_all(self) -> dict[Name, Packet]:
        """Take out all packets, without waiting."""
        with self._changed:
            slots, self._slots = self._slots, {}
            return slots


class LaneTransport:
    """The wires of one lane: packets go from mailbox to mailbox, by reference or, between GPUs, as copies."""

    def __init__(
        self, own: Mailbox, receivers: Mapping[int, Mailbox], outside: Mailbox, stream: HostStream, device: torch.device
    ) -> None:
        self._inbox = own
        self._receivers = receivers
        self._outside = outside
        self._stream = stream
        self._device = device

    def take(self, action: Action) -> Packet:
        """Wait for the packet in this lane's mailbox and bring it to this lane's device."""
        name = taken_by(action)
        if name is None:
            self._inbox.check()
            return NOTHING
        packet = self._inbox.take(name)
        return Packet(self._stream.fetch(packet, self._device), packet.needs_grad)

    def give(self, action: Action, packet: Packet) -> None:
        """Put the packet into the mailbox of its receiver, or outside."""
        name = made_by(action)
        if name is not None:
            receiver = self._receivers.get(name.stage, self._outside)
            receiver.put(name, packet._replace(ready=self._stream.ready()))


class Ambient(NamedTuple):
    """The grad mode and autocast of one thread, for another to enter: in torch both belong to a thread."""

    grad: bool
    autocast: tuple[tuple[str, torch.dtype], ...]

    @classmethod
    def of_this_thread(cls) -> Self:
        """The settings of the calling thread."""
        kinds = [kind for kind in ("cpu", accelerator.KIND) if torch.is_autocast_enabled(kind)]
        return cls(torch.is_grad_enabled(), tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Work under these settings, on any thread."""
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for kind, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield


class Lanes:
    """Worker threads that interpret the rows of schedules, one thread for each rank; they start with the first run.

    Example: `Lanes(["cpu:0", "cpu:1"]).run(gpipe(2, 8), works, entering, record, timeout_s=60)` runs the two rows at
    the same time and returns the packets that left the pipeline.
    """

    def __init__(self, devices: Sequence[torch.device | str]) -> None:
        self.devices = [torch.device(device) for device in devices]
        self._streams = [stream_for(device) for device in self.devices]
        self._workers: list[Workers] = []
        self._process = 0
        self._close_at_end = weakref.finalize(self, _close, [])
        self._at_work = threading.Lock()

    def __reduce__(self) -> tuple[type["Lanes"], tuple[list[torch.device]]]:
        return type(self), (self.devices,)  # a copy starts its own workers

    @property
    def opened(self) -> object:
        """The same object until the workers end."""
        return self._workers

    def run(
        self,
        schedule: Schedule,
        works: Mapping[int, Work],
        entering: Mapping[Name, Packet],
        record: Record,
        timeout_s: float,
        *,
        ambient: Ambient | None = None,
        through: Callable[[Transport], Transport] = lambda transport: transport,
    ) -> dict[Name, Packet]:
        """Interpret all rows, and wait for all of them to end.

        Args:
            schedule: a legal schedule, or the F's or the B's of one.
            works: the work of every stage.
            entering: the packets from outside the pipeline.
            record: where the times of actions are noted.
            timeout_s: the longest time in which no action ends.
            ambient: the torch settings to work under; by default those of the calling thread.
            through: a wrapper around each lane's transport, for emulated wires.

        Returns:
            The packets that leave the pipeline.

        Raises:
            TimeoutError: no action ended for `timeout_s` seconds; the lanes are closed.
            RuntimeError: another thread is in a run of these lanes.
            Exception: the failure of the lane that made the others fail.
        """
        with self._in_use() as workers:
            run = _Run(schedule, workers, self._streams, self.devices, record, timeout_s)
            return run.run(works, entering, ambient or Ambient.of_this_thread(), through)

    def each(self, work: Callable[[int], object], timeout_s: float) -> None:
        """Call `work(rank)` on the thread of every lane at the same time, and wait until all have returned.

        Raises:
            TimeoutError: a lane took longer than `timeout_s`; the lanes are closed.
            RuntimeError: another thread is in a run of these lanes.
            Exception: the first exception of a lane.
        """
        with self._in_use() as workers:
            end = time.monotonic() + timeout_s
            for rank, lane in enumerate(workers):
                lane.in_queues[0].put(Task(partial(work, rank)))
            try:
                outcomes = [lane.out_queues[0].get(timeout=max(0.0, end - time.monotonic())) for lane in workers]
            except Empty:
                raise TimeoutError(f"a lane is not done after {timeout_s:g} s; give it more with timeout_s=") from None
            raise_first_cause(outcomes)

    def close(self, patience_s: float = 10.0) -> None:
        """End the workers; the next run starts new ones."""
        self._close_at_end.detach()
        workers, self._workers = self._workers, []
        if self._process == os.getpid():
            _close(workers, patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _in_use(self) -> Iterator[list[Workers]]:
        """The workers, for one thread at a time."""
        if not self._at_work.acquire(blocking=False):
            raise RuntimeError("these lanes are at work on another thread; make a pipe or executor for each thread")
        try:
            yield self._started()
        except (KeyboardInterrupt, TimeoutError):
            self.close(patience_s=0.1)  # the workers may still be in their rows; they end by themselves
            raise
        finally:
            self._at_work.release()

    def _started(self) -> list[Workers]:
        if self._process != os.getpid():  # threads do not follow a process into its fork
            self._workers, self._process = [], os.getpid()
        if not self._workers:
            # One worker per rank, so that two ranks on one GPU have two.
            self._workers = [create_workers([device]) for device in self.devices]
            self._close_at_end = weakref.finalize(self, _close, self._workers)
        return self._workers


class _Run:
    """One run of the lanes; it owns the mailboxes and the packets in them."""

    def __init__(
        self,
        schedule: Schedule,
        workers: Sequence[Workers],
        streams: Sequence[HostStream],
        devices: Sequence[torch.device],
        record: Record,
        timeout_s: float,
    ) -> None:
        self._rows = schedule.rows
        self._workers = workers
        self._streams = streams
        self._record = record
        self._timeout_s = timeout_s
        self._mailboxes = [Mailbox() for _ in devices]
        self._outside = Mailbox()
        self._receivers = {stage: self._mailboxes[rank] for stage, rank in schedule.rank_of_stage.items()}
        self._transports: list[Transport] = [
            LaneTransport(mailbox, self._receivers, self._outside, stream, device)
            for mailbox, stream, device in zip(self._mailboxes, streams, devices, strict=True)
        ]

    def run(
        self,
        works: Mapping[int, Work],
        entering: Mapping[Name, Packet],
        ambient: Ambient,
        through: Callable[[Transport], Transport],
    ) -> dict[Name, Packet]:
        """Start the lanes and wait for all of them."""
        for name, packet in entering.items():
            self._receivers[name.stage].put(name, packet)
        try:
            with self._streams_open():
                for rank, workers in enumerate(self._workers):
                    walk = partial(self._walk, rank, works, ambient, through(self._transports[rank]))
                    workers.in_queues[0].put(Task(walk))
                outcomes = [self._outcome(workers.out_queues[0]) for workers in self._workers]
        except BaseException:
            self._fail(Upstream("the run was stopped"))
            raise
        raise_first_cause(outcomes)
        return self._outside.take_all()

    def _walk(self, rank: int, works: Mapping[int, Work], ambient: Ambient, transport: Transport) -> None:
        stream = self._streams[rank]
        try:
            with ambient.entered(), stream.running():
                interpret(self._rows[rank], works, transport, marked(self._record.timing(rank, stream)))
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        for mailbox in self._mailboxes:
            mailbox.fail(error)

    def _outcome(self, out_queue: OutQueue) -> Result:
        while True:
            ended = len(self._record)
            try:
                return out_queue.get(timeout=self._timeout_s)
            except Empty:
                if len(self._record) == ended:
                    raise TimeoutError(self._too_slow()) from None

    def _too_slow(self) -> str:
        late = [f"stage {each.stage} has not finished micro-batch {each.microbatch}" for each in self._record.running()]
        problem = " and ".join(late) or "no stage has finished an action"
        return f"{problem} after {self._timeout_s:g} s; give a slower stage more time with timeout_s="

    @contextmanager
    def _streams_open(self) -> Iterator[None]:
        """On GPUs: run after the work that the caller has queued, and before the work that it queues later."""
        base = None
        for stream in self._streams:
            stream.begin()
            base = stream.start_clock(base)
        try:
            yield
        finally:
            for stream in self._streams:
                stream.end()


def _close(workers: Sequence[Workers], patience_s: float = 10.0) -> None:
    end = time.monotonic() + patience_s
    for each in workers:
        each.close(max(0.0, end - time.monotonic()))
