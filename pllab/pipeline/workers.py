"""One thread per device, and how it gets work: clock cycles as in lessons 08 and 09, or whole rows as in `lanes.py`.

A worker takes tasks from its queue, runs them in order and puts the results in another. Torch releases Python's lock
while it computes, so two workers that each run half of a GPT-2 really run at the same time. A worker survives an
exception: it sends it back and takes the next task.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import torch

from pllab.arguments import require
from pllab.comm.devices import is_gpu
from pllab.pipeline.split import checked_device

Result = tuple[bool, Any]  # (True, what the task returned) or (False, the exception as of `sys.exc_info()`)


class Task:
    """Work for a worker: a function without arguments.

    Bind what the function needs at once, with `functools.partial(work, i)`. A bare `lambda: work(i)` looks `i`
    up when the worker runs it, and by then the loop has moved on.

    Example: `Task(partial(torch.add, a, b)).compute()` -> `a + b`. Lesson 09.
    """

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute

    def compute(self) -> Any:
        """Run the function and return its result."""
        return self._compute()


InQueue = SimpleQueue["Task | None"]
OutQueue = SimpleQueue[Result]


class Workers(NamedTuple):
    """The queues of a set of workers, one pair per device: unpack them, and close them when done.

    Example:

        with create_workers(devices) as (in_queues, out_queues):
            in_queues[1].put(Task(partial(stage, x)))
            ok, result = out_queues[1].get(timeout=10)
    """

    in_queues: list[InQueue]
    out_queues: list[OutQueue]
    threads: list[threading.Thread]

    def close(self, timeout_s: float = 10.0) -> None:
        """Tell every worker to end after the tasks it already has, and wait for them."""
        for queue in set(self.in_queues):
            queue.put(None)
        end = time.monotonic() + timeout_s
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))

    def __enter__(self) -> tuple[list[InQueue], list[OutQueue]]:
        return self.in_queues, self.out_queues

    def __exit__(self, *_: object) -> None:
        self.close()


def create_workers(devices: Sequence[torch.device | str]) -> Workers:
    """Start one worker per device; a device named twice shares its worker and its queues.

    Example: `create_workers(["cpu:0", "cpu:1"])` -> two threads, `in_queues[0]` feeds the first.

    Raises:
        ValueError: a device is not on this machine.

    Source: torchgpipe's `spawn_workers`. Lesson 09.
    """
    num_threads = torch.get_num_threads()
    places = [checked_device(device) for device in devices]
    started = {place: _start(place) for place in dict.fromkeys(places)}
    # A lane takes one compute thread for itself; threads started later keep this thread's number.
    torch.set_num_threads(num_threads)
    in_queues, out_queues = [started[place][0] for place in places], [started[place][1] for place in places]
    return Workers(in_queues, out_queues, [thread for _, _, thread in started.values()])


def _start(device: torch.device) -> tuple[InQueue, OutQueue, threading.Thread]:
    in_queue: InQueue = SimpleQueue()
    out_queue: OutQueue = SimpleQueue()
    ready = threading.Event()
    arguments = (device, in_queue, out_queue, ready)
    thread = threading.Thread(target=_work, args=arguments, name=f"pllab-{device}", daemon=True)
    thread.start()
    ready.wait(timeout=30.0)
    return in_queue, out_queue, thread


def _work(device: torch.device, in_queue: InQueue, out_queue: OutQueue, ready: threading.Event) -> None:
    """The loop of a worker; `None` in the queue ends it."""
    torch.get_num_threads()  # the first such call on a thread sets torch up, and would undo the next line
    torch.set_num_threads(1)
    if is_gpu(device):
        torch.accelerator.set_device_index(device)
    ready.set()
    while (task := in_queue.get()) is not None:
        try:
            out_queue.put((True, task.compute()))
        except BaseException:  # noqa: B036 - the caller gets every exception and raises it again
            out_queue.put((False, sys.exc_info()))
        del task  # a waiting worker holds no activation


def clock_cycles(num_batches: int, num_partitions: int) -> Iterator[list[tuple[int, int]]]:
    """Yield, tick by tick, the pairs (micro-batch, partition) that run at the same time.

    Example, 3 micro-batches on 2 partitions take 3 + 2 - 1 = 4 ticks:

        tick 0   (0, 0)
        tick 1   (1, 0) (0, 1)
        tick 2   (2, 0) (1, 1)
        tick 3          (2, 1)

    Every pair comes once, and (i, j) comes one tick after (i, j - 1). Read by partition these are the forwards of
    `pllab.schedule.gpipe`, whose backwards come in the same order of micro-batches.

    Raises:
        ValueError: there is no micro-batch or no partition.

    Source: GPipe (Huang et al. 2019), figure 2c. Lesson 08.
    """
    told = f"{num_batches} micro-batches on {num_partitions} partitions are no work; give at least one of each"
    require(min(num_batches, num_partitions) >= 1, told)
    for tick in range(num_batches + num_partitions - 1):
        first = max(0, tick - num_batches + 1)
        last = min(tick, num_partitions - 1)
        yield [(tick - partition, partition) for partition in range(first, last + 1)]


class Upstream(RuntimeError):
    """A task did not run because one before it failed; the first failure is the one to report."""


class Overdue(TimeoutError):
    """A worker has not answered in time, and may still be at its task."""


def compute(
    tasks: Sequence[Task],
    in_queues: Sequence[InQueue],
    out_queues: Sequence[OutQueue],
    timeout_s: float,
    *,
    num_ended: Callable[[], int] = lambda: 0,
    late: Callable[[], str] = lambda: "a lane is not done",
) -> list[Any]:
    """Give each worker its task, then wait for every answer; return the results in the order of the tasks.

    Example: `compute([Task(partial(stage, i)) for i, stage in enumerate(stages)], *queues, timeout_s=10)` runs all
    stages at the same time. Lesson 09 gives out one clock cycle like this; `Lanes` gives each worker its whole row.

    The deadline starts again whenever `num_ended()` grows, and `late()` says what has not come in time. If several
    fail, the cause is raised, not a consequence: micro-batch 0 fails in stage 1, so stage 2 never gets it and
    fails with `Upstream`.

    Raises:
        Overdue: nothing ended for `timeout_s` seconds.
        Exception: the first exception of a worker, with its traceback, when all have answered.
    """
    for task, in_queue in zip(tasks, in_queues, strict=True):
        in_queue.put(task)
    answers: list[Result] = []
    ended, end = num_ended(), time.monotonic() + timeout_s
    while len(answers) < len(tasks):
        try:
            answers.append(out_queues[len(answers)].get(timeout=max(0.0, end - time.monotonic())))
        except Empty:
            if num_ended() == ended:
                raise Overdue(f"{late()} after {timeout_s:g} s; allow more time with timeout_s=") from None
            ended, end = num_ended(), time.monotonic() + timeout_s
    failures = (value for ok, value in answers if not ok)
    for _, error, traceback in sorted(failures, key=lambda failure: isinstance(failure[1], Upstream)):
        raise error.with_traceback(traceback)
    return [result for _, result in answers]
