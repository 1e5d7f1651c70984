"""Worker threads that interpret the rows of a schedule, one for each rank: CPU lanes, or GPUs.

Nothing keeps the workers in step. They share a process, so packets pass by reference, and between GPUs as copies.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Self

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import record_function

from pllab import accelerator
from pllab.comm.devices import is_gpu
from pllab.pipeline.engine import ActionTimes, Name, Packet, Packets, Transport, Work, interpret
from pllab.pipeline.streams import Base, GpuStream, HostStream
from pllab.pipeline.workers import Overdue, Task, Upstream, Workers, compute, create_workers
from pllab.schedule import Schedule

Ambient = Callable[[], AbstractContextManager[None]]


def ambient_here() -> Ambient:
    """The grad mode and autocast of this thread, for others to enter: in torch both belong to a thread.

    Example: `with ambient():` on a worker computes as here, after `ambient = ambient_here()`.
    """
    grad = torch.is_grad_enabled()
    dtypes = {k: torch.get_autocast_dtype(k) for k in ("cpu", accelerator.KIND) if torch.is_autocast_enabled(k)}

    @contextmanager
    def entered() -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(grad))
            for kind, dtype in dtypes.items():
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield

    return entered


class Lanes:
    """Worker threads that interpret the rows of schedules, one thread for each rank; they start with the first run.

    Example: `Lanes(["cpu:0", "cpu:1"]).run(gpipe(2, 8), works, entering, record, timeout_s=60)` runs the two rows at
    the same time and returns the packets that left the pipeline.
    """

    def __init__(self, devices: Sequence[torch.device | str]) -> None:
        self.devices = [torch.device(device) for device in devices]
        self._streams = [GpuStream(device) if is_gpu(device) else HostStream(device) for device in self.devices]
        self._gpus = [stream for stream in self._streams if isinstance(stream, GpuStream)]
        self._workers: Workers | None = None
        self._process = 0  # whose threads they are: threads do not follow a process into its fork
        self._at_work = threading.Lock()

    def __reduce__(self) -> tuple[type["Lanes"], tuple[list[torch.device]]]:
        return type(self), (self.devices,)  # a copy starts its own workers

    def run(
        self,
        schedule: Schedule,
        works: Mapping[int, Work],
        entering: Mapping[Name, Packet],
        record: ActionTimes,
        timeout_s: float,
        *,
        ambient: Ambient | None = None,
        transport: Callable[[Packets, HostStream], Transport] = Transport,
    ) -> dict[Name, Packet]:
        """Give each worker its row, and wait for all of them to end.

        Args:
            schedule: a legal schedule, or the F's or the B's of one.
            works: the work of every stage.
            entering: the packets from outside the pipeline.
            record: where the times of actions are noted.
            timeout_s: the longest time in which no action ends.
            ambient: the torch settings to work under; by default those of the calling thread.
            transport: what brings each lane its packets; emulated ones take their time.

        Returns:
            The packets that leave the pipeline.

        Raises:
            TimeoutError: no action ended for `timeout_s` seconds; the lanes are closed.
            RuntimeError: another thread is in a run of these lanes.
            Exception: the failure of the lane that made the others fail.
        """
        packets, ambient = Packets(entering), ambient or ambient_here()
        tasks = []
        for rank, stream in enumerate(self._streams):
            timing = record.timing(rank, stream, record_function)
            row = partial(interpret, schedule.rows[rank], works, transport(packets, stream), timing)
            tasks.append(Task(partial(_walk, row, ambient, stream, packets)))
        with self._in_use() as workers:
            try:
                with self._gpus_ordered():
                    compute(tasks, *workers[:2], timeout_s, num_ended=record.__len__, late=partial(_late, record))
            except BaseException:
                packets.fail(Upstream("the run was stopped"))
                raise
        leaving = packets.left()
        for gpu in self._gpus:
            gpu.lend(tensor for packet in leaving.values() for tensor in packet.tensors)
        return leaving

    def close(self, patience_s: float = 10.0) -> None:
        """End the workers; the next run starts new ones."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.close(patience_s)

    @contextmanager
    def _in_use(self) -> Iterator[Workers]:
        """The workers, for one thread at a time."""
        if not self._at_work.acquire(blocking=False):
            raise RuntimeError("these lanes are at work on another thread; make a pipe or executor for each thread")
        try:
            if self._workers is None or self._process != os.getpid():
                self._workers, self._process = _one_for_each(self.devices), os.getpid()
                # Also when Python ends: a thread that is inside torch then aborts the process. Answers are not kept.
                weakref.finalize(self, self._workers._replace(out_queues=[]).close)
            yield self._workers
        except (KeyboardInterrupt, Overdue):
            self.close(patience_s=0.1)  # the workers may still be in their rows; they end by themselves
            raise
        finally:
            self._at_work.release()

    @contextmanager
    def _gpus_ordered(self) -> Iterator[None]:
        """Run after the work that the caller has queued on GPUs, and before the work that it queues later."""
        bases: dict[torch.device, Base] = {}
        for gpu in self._gpus:
            gpu.begin()
            bases[gpu.device] = gpu.start_clock(bases.get(gpu.device))
        try:
            yield
        finally:
            for gpu in self._gpus:
                gpu.end()


class RunsOnLanes:
    """What a pipe and an executor share: they have lanes, and end their workers when they are closed."""

    _lanes: Lanes

    def close(self) -> None:
        """End the workers; the next run starts new ones."""
        self._lanes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _one_for_each(devices: Sequence[torch.device]) -> Workers:
    """A worker for each rank, so that two ranks on one GPU have two."""
    apart = [create_workers([device]) for device in devices]
    return Workers(*(list(chain.from_iterable(parts)) for parts in zip(*apart, strict=True)))


def _walk(row: Callable[[], None], ambient: Ambient, stream: HostStream, packets: Packets) -> None:
    try:
        with ambient(), stream.compute:
            row()
    except BaseException as error:
        packets.fail(error)
        raise


def _late(record: ActionTimes) -> str:
    late = [f"stage {each.stage} has not finished micro-batch {each.microbatch}" for each in record.running()]
    return " and ".join(late) or "no stage has finished an action"


def every_lane() -> _ExperimentalConfig:
    """The option that makes torch.profiler record lanes too: they are threads of this process."""
    return _ExperimentalConfig(profile_all_threads=True)
