"""Hand every cell of the clock to its worker, and collect the results.

The tasks go into the queues in the order of the clock. Nobody waits at the end of a tick: a task waits only for
the one result it needs, so a slow cell delays its successors and nobody else.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import Empty
from typing import Any

from pllab.pipeline.worker import InQueue, OutQueue, Result, Task

Cell = tuple[int, int]


class Upstream(RuntimeError):
    """A task did not run because one before it failed; the first failure is the one to report."""


def compute(
    work: Callable[[int, int], Any],
    cells: Iterable[Cell],
    in_queues: Sequence[InQueue],
    out_queues: Sequence[OutQueue],
    timeout_s: float,
) -> dict[Cell, Any]:
    """Run `work(i, j)` on the worker of partition j for every cell (i, j), and return the results by cell.

    `partial` binds i and j at once; a bare lambda would see the last pair of the loop.

    Raises:
        TimeoutError: a cell has not finished within `timeout_s` seconds of the one before it.
        Exception: the first exception of a worker, with its traceback and a note that names the cell.

    Lesson 09.
    """
    cells = list(cells)
    for i, j in cells:
        in_queues[j].put(Task(partial(work, i, j)))
    finished = {(i, j): _take(out_queues[j], (i, j), timeout_s) for i, j in cells}
    raise_first_cause(finished)
    return {cell: value for cell, (_, value) in finished.items()}


def _take(out_queue: OutQueue, cell: Cell, timeout_s: float) -> Result:
    try:
        return out_queue.get(timeout=timeout_s)
    except Empty:
        i, j = cell
        raise TimeoutError(
            f"stage {j} has not finished micro-batch {i} after {timeout_s:g} s; the pipe is closed, "
            "give a slower stage more time with timeout_s="
        ) from None


def raise_first_cause(finished: dict[Cell, Result]) -> None:
    """Raise the first failure that is a cause and not a consequence; without a failure, return.

    Example: micro-batch 0 fails in stage 1, so stage 2 never gets it and fails with `Upstream`. What is raised is
    the exception of stage 1, with its own traceback and the note "raised in stage 1 on micro-batch 0".
    """
    failures = [(cell, value) for cell, (ok, value) in finished.items() if not ok]
    failures.sort(key=lambda failure: isinstance(failure[1][1], Upstream))
    for (i, j), (_, error, traceback) in failures:
        error.add_note(f"raised in stage {j} on micro-batch {i}")
        raise error.with_traceback(traceback)
