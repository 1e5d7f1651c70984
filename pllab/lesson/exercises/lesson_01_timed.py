"""The cases of exercise 01.2: time a function on a device that works behind the caller's back.

The device here is a fake: it has a queue and a clock that only its own work moves, so no case depends on a real second.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.mistakes import compare, must_refuse, numbers_close

Spread = tuple[float, float, float]
_SET_BACK = {"time", "time_ns", "now", "utcnow", "today"}  # clocks of the wall
_OF_THE_CPU = {"process_time", "process_time_ns", "thread_time", "thread_time_ns"}


class Device:
    """A device with a queue: a call puts work in, `synchronize` does what is in it, and the clock stands still else."""

    def __init__(self, *seconds: float, in_queue: float = 0.0) -> None:
        self.now, self.queue, self.num_calls = 1000.0, in_queue, 0
        self._seconds = seconds

    def work(self) -> None:
        """A call of the function that is timed: it queues the next of the times and returns at once."""
        self.queue += self._seconds[self.num_calls % len(self._seconds)]
        self.num_calls += 1

    def synchronize(self) -> None:
        """Wait for the queue."""
        self.now, self.queue = self.now + self.queue, 0.0

    def clock(self) -> float:
        """The seconds."""
        return self.now


class Host(Device):
    """A device that has done its work when the call returns, as a CPU has."""

    def work(self) -> None:
        """Do the work at once."""
        super().work()
        super().synchronize()


def _ask(timed: Asked, device: Device, warmup: int, repeats: int) -> Any:
    return timed(device.work, device.synchronize, warmup=warmup, repeats=repeats, clock=device.clock)


def _measured(timed: Asked, kind: Callable[..., Device], seconds: list[float], warmup: int) -> Spread:
    """What the function returns for calls that take so long, the first of them to warm up."""
    device = kind(*seconds)
    answer = _ask(timed, device, warmup, len(seconds) - warmup)
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise Wrong("no_triple", f"timed should return median, lowest and highest, but it returned {answer!r}.")
    if device.num_calls != len(seconds):
        text = f"calls fn {len(seconds)} times; your function called it {device.num_calls} times"
        raise Wrong("calls", f"A measurement with warmup={warmup} and repeats={len(seconds) - warmup} {text}.")
    median, lowest, highest = map(float, answer)
    return median, lowest, highest


def _right(seconds: list[float], warmup: int) -> Spread:
    counted = seconds[warmup:]
    return statistics.median(counted), min(counted), max(counted)


_judge = partial(
    compare,
    truth=_right,
    same=partial(numbers_close, abs_tol=1e-6),
    show=lambda answer: str(tuple(round(value, 6) for value in answer)),
)
_CALLS = "calls of {} s with warmup={}"


@case("median, lowest and highest of 5 rounds and of 4")
def middle_and_ends(timed: Asked) -> None:
    questions = [([3.0, 1.0, 9.0, 2.0, 2.5], 0), ([4.0, 1.0, 10.0, 2.0], 0), ([7.0], 0)]
    _judge(partial(_measured, timed, Host), questions, asked=_CALLS)


@case("warm-up calls are made and do not count")
def warms_up(timed: Asked) -> None:
    slow = [50.0, 40.0, 1.0, 2.0, 3.0]
    questions = [(slow[1:], 1), (slow, 2), (slow[2:], 0), ([0.5, 3.0, 1.0, 9.0], 1)]
    _judge(partial(_measured, timed, Host), questions, asked=_CALLS, hint_id="warmup_counted")


@case("the clock is stopped when the device has finished, not when the call returns")
def waits_for_the_device(timed: Asked) -> None:
    asked = f"{_CALLS} on a device with a queue"
    _judge(partial(_measured, timed, Device), [([2.0, 1.0, 4.0], 0)], asked=asked, hint_id="no_sync")


@case("work that was already in the queue is not counted")
def begins_with_an_empty_queue(timed: Asked) -> None:
    busy, asked = partial(Device, in_queue=20.0), f"{_CALLS} on a device with 20 s of work in its queue"
    questions = [([1.0, 1.0, 1.0], 0), ([30.0, 30.0, 1.0, 1.0, 1.0], 2)]
    _judge(partial(_measured, timed, busy), questions, asked=asked, hint_id="leftovers")


@case("if the caller gives no clock: one that cannot be set back, in seconds")
def clock_of_its_own(timed: Asked) -> None:
    names, medians = timed.inside(own_clock)
    if wall := _SET_BACK & names:
        raise Wrong("wrong_clock", f"You asked {min(wall)}: a wall clock can be set back while you measure.")
    if cpu := _OF_THE_CPU & names:
        raise Wrong("wrong_clock", f"You asked {min(cpu)}: it stops while this process waits.")
    for median in medians:
        if not 0.005 < median < 1000:
            raise Wrong("wrong_clock", f"A sleep of 0.01 s took {median:g} by your clock; times are in seconds.")


def own_clock(timed: Function) -> tuple[set[str], list[float]]:
    """In the process of the function: the C functions that it called, and its medians for a sleep of 0.01 s."""
    seen: set[str] = set()

    def spy(_frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            seen.add(getattr(function, "__name__", ""))

    sleep = partial(timed, lambda: time.sleep(0.01), lambda: None, warmup=0, repeats=1)
    before = sys.getprofile()
    sys.setprofile(spy)
    try:
        medians = [sleep()[0], sleep(clock=None)[0]]
    finally:
        sys.setprofile(before)
    return seen, medians


@case("repeats below 1 and a negative warm-up raise a ValueError before any call")
def refuses(timed: Asked) -> None:
    for warmup, repeats in ((0, 0), (1, 0), (1, -2), (-1, 3)):
        device, asked = Host(1.0), f"warmup={warmup} and repeats={repeats}"
        must_refuse(partial(_ask, timed, device, warmup, repeats), asked, "no_value_error", why=", before any call")
        if device.num_calls:
            text = f"For {asked} your function called fn {device.num_calls} times before it raised"
            raise Wrong("no_value_error", f"{text}; right is never.")
