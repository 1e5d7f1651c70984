"""What exercises 09.2 to 09.5 have in common: calls of a function as it is written, values, threads, and failures.

A method as in the course, such as `compute(self, batches, schedule)` with the rest on `self`, is called as one, so that
student work can be carried over.
"""

import inspect
import math
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import torch

from pllab.lesson.exercise import Wrong
from pllab.lesson.exercises.tensors import difference, told
from pllab.pipeline import Task, Workers

Gradients = dict[str, torch.Tensor | None]

# Seconds a stage waits for the other; a concurrent cycle meets at once and never waits this long.
MEETING_S = 4.0


def call_as_written(function: Callable[..., Any], *given: Any, **rest: Any) -> Any:
    """Call the learner's function, or its method, whose first argument is `self` and has `rest`."""
    if next(iter(inspect.signature(function).parameters), "") == "self":
        return function(SimpleNamespace(**rest), *given)
    return function(*given, *rest.values())


def met(meeting: threading.Barrier, meeting_s: float) -> bool:
    """Wait for the other stage; False when it does not come in time, and at once in every meeting after that."""
    try:
        meeting.wait(timeout=meeting_s)
    except threading.BrokenBarrierError:
        return False
    return True


def judge_gradients(asked: str, gradients: Gradients, right: Gradients) -> None:
    """Refuse gradients that are not the right ones, and show the number that is most wrong."""
    for name, gradient in gradients.items():
        its = right[name]
        assert its is not None, name
        if difference(gradient, its, rtol=1e-4, atol=1e-5):
            raise Wrong("wrong", f"{asked} the gradient of {name} is {told(gradient, its)}.")


def judge_loss(asked: str, got: Any, right: float) -> None:
    """Refuse what is not the loss as a Python number."""
    is_number = isinstance(got, float | int) and not isinstance(got, bool)
    if not is_number or not math.isclose(got, right, rel_tol=1e-4, abs_tol=1e-4):
        raise Wrong("wrong", f"{asked} your function returned {got!r}; right is the Python number {right:.4g}.")


# Threads

CALLER, NOBODY = -1, -2  # where something ran that was on no worker: on the thread that called, on another


def place_here(workers: Sequence[threading.Thread], caller: threading.Thread) -> int:
    """The number of the worker that this thread is."""
    thread = threading.current_thread()
    if thread in workers:
        return list(workers).index(thread)
    return CALLER if thread is caller else NOBODY


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


def judge_threads(num_started: int, ran: Iterable[tuple[str, int, int]]) -> None:
    """Refuse threads of one's own, and work of a stage that is not on its worker; `ran` has (work, stage, place)."""
    if num_started:
        raise Wrong("wrong_worker", f"Your function started threads, {num_started} in one call; use only the workers.")
    for work, stage, place in ran:
        if place != stage:
            others = {CALLER: "the thread that called your function", NOBODY: "a thread of your own"}
            shown = f"{work} of stage {stage} ran on {others.get(place, f'the worker of stage {place}')}"
            why = f"right is the worker of stage {stage}, which takes its tasks from in_queues[{stage}]."
            raise Wrong("wrong_worker", f"{shown}; {why}")


# Failures

LATE_S = 0.1  # how long a stage that works is late beside one that fails, unless the call ends before
# How a call in which a stage fails may end.
RETURNED, RAISED = "returned", "raised what the stage raised"
RAISED_BARE = "raised it without the line that failed, which exc_info[1].with_traceback(exc_info[2]) carries along"


class Burst(Exception):
    """Raised by a stage on purpose; a class of its own, so that nothing else can be taken for it."""


_BURST = Burst("a stage failed on purpose")


def burst() -> NoReturn:
    """Fail, with a line of this function in the traceback."""
    raise Burst(*_BURST.args)


class Failed(NamedTuple):
    """A call in which a stage failed: how it ended, what was left of it, and what the next call returned."""

    ended: str
    left: str
    next: Any = None


def fail_and_go_on(call: Callable[[], Any], is_over: threading.Event, workers: Workers) -> Failed:
    """Call twice; stages fail, and are late, until `is_over`."""
    ended, _ = _how_it_ended(call)
    is_over.set()
    if left := _left_behind(workers):
        return Failed(ended, left)
    ended_next, result = _how_it_ended(call)
    return Failed(ended, "" if ended_next == RETURNED else f"the next call {ended_next}; start it afresh", result)


def _how_it_ended(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return RETURNED, call()
    except Burst as error:
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        return RAISED if burst.__name__ in frames else RAISED_BARE, None
    except Exception as error:
        return f"raised {error!r}", None


def _left_behind(workers: Workers) -> str:
    """What a call left to the next one, in words; looks when each worker is through with all that it was given."""
    end = object()
    for stage, (ins, outs, thread) in enumerate(zip(*workers, strict=True)):
        ins.put(Task(lambda: end))
        while outs.empty() and thread.is_alive():
            time.sleep(0.001)
        if outs.empty():
            return f"the worker of stage {stage} had ended; the next call needs it"
        if outs.get()[1] is not end:
            return f"an answer of stage {stage} was in its queue, or came later; take all answers before you raise"
    return ""


def judge_failed(work: str, failed: Failed) -> None:
    """Refuse a call that did not raise the exception of a stage, or left something to the next call."""
    if failed.ended != RAISED:
        shown = f"{work} raised {_BURST!r}, and your function {failed.ended}"
        why = "right is to raise that with its traceback."
        raise Wrong("lost_traceback" if failed.ended == RAISED_BARE else "wrong_exception", f"{shown}; {why}")
    if failed.left:
        raise Wrong("stale_result", f"{work} raised, your function raised it too, and {failed.left}.")
