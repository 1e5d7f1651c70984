"""The bench of exercise 09.2: real workers, late ones when asked, and a call of the student's function as written.

A method as in the course, `compute(self, batches, schedule)` with the rest on `self`, is called as one, so that
student work can be carried over.
"""

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from types import SimpleNamespace
from typing import Any

import torch

from pllab.lesson.exercise import Wrong
from pllab.pipeline import Task, Workers, create_workers

Compute = Callable[..., Any]
Schedule = list[tuple[int, int]]
Stage = Callable[[torch.Tensor], torch.Tensor]


class Bench:
    """Workers for the stages, and the student's function called the way it is written."""

    def __init__(self, compute: Compute, stages: Sequence[Stage], held: bool = False) -> None:
        self._compute = compute
        self._stages = list(stages)
        self._devices = [torch.device("cpu", stage) for stage in range(len(stages))]
        self.workers = create_workers(self._devices)
        self.threads = self.workers.threads
        ins: list[Any] = list(self.workers.in_queues)
        outs: list[Any] = list(self.workers.out_queues)
        self._queues = _held(ins, outs) if held else (ins, outs)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.workers.close()

    def cycle(self, batches: list[Any], schedule: Schedule) -> None:
        """One call of the student's function."""
        ins, outs = self._queues
        if is_method(self._compute):
            owner = SimpleNamespace(
                partitions=self._stages, devices=self._devices, in_queues=ins, out_queues=outs, split_size=1
            )
            self._compute(owner, batches, list(schedule))
        else:
            self._compute(batches, list(schedule), self._stages, self._devices, ins, outs)


def judge_leftovers(workers: Workers) -> None:
    """Refuse answers that a failed call left behind, once the workers are through with all that they were given."""
    end = object()
    for ins, outs, thread in zip(*workers, strict=True):
        ins.put(Task(lambda: end))
        answers = [_answer(outs, thread)]
        while answers[-1] is not end:
            answers.append(_answer(outs, thread))
        if len(answers) > 1:
            raise Wrong(
                "stale_result",
                "After an exception a result of the failed call was still in a queue, or came into it later, and the "
                "next call takes it for its own: wait for the results of all tasks you gave out, then raise.",
            )


def _answer(outs: Any, thread: threading.Thread) -> Any:
    while True:
        is_alive = thread.is_alive()
        try:
            return outs.get(timeout=0.1)[1]
        except Empty:
            if not is_alive:
                raise Wrong(
                    "dead_worker",
                    "After an exception a worker was gone: None in its in-queue ends it. Workers belong to the caller, "
                    "who needs them for the next call.",
                ) from None


def is_method(function: Callable[..., Any]) -> bool:
    """Whether it is written as a method of the course: its first argument is `self`."""
    return next(iter(inspect.signature(function).parameters), "") == "self"


class _HeldIn:
    """An in-queue that hands its tasks on when somebody waits for a result: the latest a worker can be."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._kept: list[Any] = []

    def put(self, item: Any, *_: object, **__: object) -> None:
        self._kept.append(item)

    def release(self) -> None:
        kept, self._kept = self._kept, []
        for item in kept:
            self._queue.put(item)


class _HeldOut:
    """The out-queue beside it: any look at it lets the workers go."""

    def __init__(self, queue: Any, held: Sequence[_HeldIn]) -> None:
        self._queue = queue
        self._held = held

    def __getattr__(self, name: str) -> Any:
        for queue in self._held:
            queue.release()
        return getattr(self._queue, name)


def _held(ins: list[Any], outs: list[Any]) -> tuple[list[Any], list[Any]]:
    held = [_HeldIn(queue) for queue in ins]
    return list(held), [_HeldOut(queue, held) for queue in outs]


@contextmanager
def started_threads() -> Iterator[list[threading.Thread]]:
    """Note every thread that starts inside; in the process of the check nothing else starts one."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def noting(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    threading.Thread.start = noting  # type: ignore[assignment, method-assign]
    try:
        yield started
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
