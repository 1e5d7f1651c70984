"""The cases of exercise 09.4: `shutdown(in_queues, threads)` ends the workers and waits for them."""

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from pllab.lesson.exercise import Wrong, case

Shutdown = Callable[[Sequence[Any], Sequence[threading.Thread]], Any]

NO_GOODBYE = (
    "no_goodbye",
    "shutdown waits for a worker that nobody told to end: every worker needs a None of its own in its own queue.",
)


@case("every worker has ended when shutdown returns", on_hang=NO_GOODBYE)
def all_ended(shutdown: Shutdown) -> None:
    """Workers that need a moment for their last task; none may live when shutdown returns."""
    for num_workers in (1, 3):
        queues, threads = _workers(num_workers)
        for queue in queues:
            queue.put(lambda: time.sleep(0.2))
        shutdown(queues, threads)
        alive = sum(thread.is_alive() for thread in threads)
        if alive and _end_themselves(threads):
            raise Wrong(
                "not_joined",
                f"{alive} of {num_workers} workers were still ending when shutdown returned; wait for them.",
            )
        if alive:
            raise Wrong(
                "not_told", f"{alive} of {num_workers} workers still wait for work; each needs a None in its queue."
            )


@case("work that was already given out is still done", on_hang=NO_GOODBYE)
def work_done(shutdown: Shutdown) -> None:
    done: list[int] = []
    queues, threads = _workers(2)
    for number, queue in enumerate(queues * 3):
        queue.put(lambda number=number: done.append(number))
    shutdown(queues, threads)
    if len(done) < 6:
        raise Wrong("lost_work", f"6 tasks were given out before the shutdown and {len(done)} were done.")


@case("a second shutdown does no harm", on_hang=NO_GOODBYE)
def twice(shutdown: Shutdown) -> None:
    queues, threads = _workers(2)
    shutdown(queues, threads)
    shutdown(queues, threads)


def _workers(number: int) -> tuple[list[SimpleQueue[Any]], list[threading.Thread]]:
    """Plain workers as in the lesson: take a function, call it, end at None."""
    queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(number)]
    threads = [threading.Thread(target=_work, args=(queue,), daemon=True) for queue in queues]
    for thread in threads:
        thread.start()
    return queues, threads


def _work(queue: SimpleQueue[Any]) -> None:
    while (work := queue.get()) is not None:
        work()


def _end_themselves(threads: Sequence[threading.Thread]) -> bool:
    """Whether the workers end within a few seconds without further help."""
    for thread in threads:
        thread.join(timeout=2.0)
    return not any(thread.is_alive() for thread in threads)
