"""Worker threads that interpret the rows of a schedule, one for each rank: CPU lanes, or GPUs.

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
from pllab.pipeline.engine import Name, Packet, Packets, Record, Transport, Wire, Work, interpret, marked
from pllab.pipeline.streams import GpuStream, stream_for
from pllab.pipeline.workers import OutQueue, Result, Task, Upstream, Workers, create_workers, raise_first_cause
from pllab.schedule import Schedule


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
        packets, ambient = Packets(entering), ambient or Ambient.of_this_thread()
        with self._in_use() as workers:
            try:
                with self._gpus_ordered():
                    for rank, lane in enumerate(workers):
                        wire = through(Wire(packets, self._streams[rank], self.devices[rank]))
                        timing = record.timing(rank, self._streams[rank])
                        walk = partial(interpret, schedule.rows[rank], works, wire, marked(timing))
                        lane.in_queues[0].put(Task(partial(self._walk, rank, walk, ambient, packets)))
                    outcomes = [_outcome(lane.out_queues[0], record, timeout_s) for lane in workers]
            except BaseException:
                packets.fail(Upstream("the run was stopped"))
                raise
        raise_first_cause(outcomes)
        return packets.left()

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

    def _walk(self, rank: int, walk: Callable[[], None], ambient: Ambient, packets: Packets) -> None:
        try:
            with ambient.entered(), self._streams[rank].compute:
                walk()
        except BaseException as error:
            packets.fail(error)
            raise

    @contextmanager
    def _gpus_ordered(self) -> Iterator[None]:
        """Run after the work that the caller has queued on GPUs, and before the work that it queues later."""
        base, gpus = None, [stream for stream in self._streams if isinstance(stream, GpuStream)]
        for gpu in gpus:
            gpu.begin()
            base = gpu.start_clock(base)
        try:
            yield
        finally:
            for gpu in gpus:
                gpu.end()


def _outcome(out_queue: OutQueue, record: Record, timeout_s: float) -> Result:
    while True:
        ended = len(record)
        try:
            return out_queue.get(timeout=timeout_s)
        except Empty:
            if len(record) == ended:
                raise TimeoutError(_too_slow(record, timeout_s)) from None


def _too_slow(record: Record, timeout_s: float) -> str:
    late = [f"stage {each.stage} has not finished micro-batch {each.microbatch}" for each in record.running()]
    problem = " and ".join(late) or "no stage has finished an action"
    return f"{problem} after {timeout_s:g} s; give a slower stage more time with timeout_s="


def _close(workers: Sequence[Workers], patience_s: float = 10.0) -> None:
    end = time.monotonic() + patience_s
    for each in workers:
        each.close(max(0.0, end - time.monotonic()))
