"""Exercise 01.2: time a function on a device that works behind the caller's back.

The device here is a fake: it has a queue and a clock that only its own work moves, so no case depends on a real second.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from pllab.lesson.exercise import Asked, Exercise, Wrong, case

Timed = Callable[..., Any]
_NO_CLOCK: tuple[dict[str, Any], ...] = ({}, {"clock": None})
_SET_BACK = {"time", "time_ns", "now", "utcnow", "today"}  # clocks of the wall
_OF_THE_CPU = {"process_time", "process_time_ns", "thread_time", "thread_time_ns"}


class Device:
    """A device with a queue: a call puts work in, `synchronize` does what is in it, and the clock stands still else."""

    def __init__(self, *seconds: float, in_queue: float = 0.0) -> None:
        self.now, self.queue = 1000.0, in_queue
        self.num_calls, self.events = 0, ""
        self._seconds = seconds

    def work(self) -> None:
        """A call of the function that is timed: it queues the next of the times and returns at once."""
        self.queue += self._seconds[self.num_calls % len(self._seconds)]
        self.num_calls += 1
        self.events += "F"

    def synchronize(self) -> None:
        """Wait for the queue."""
        self.now, self.queue = self.now + self.queue, 0.0
        self.events += "s"

    def clock(self) -> float:
        """The seconds."""
        self.events += "c"
        return self.now


class Host(Device):
    """A device that has done its work when the call returns, as a CPU has."""

    def work(self) -> None:
        """Do the work at once."""
        super().work()
        super().synchronize()


def _run(timed: Asked, device: Device, warmup: int, repeats: int) -> tuple[float, ...]:
    try:
        result = timed(device.work, device.synchronize, warmup=warmup, repeats=repeats, clock=device.clock)
    except ValueError as error:
        text = f"warmup={warmup}, repeats={repeats} can be measured, and your function raised {error!r}."
        raise Wrong("refuses_sense", text) from None
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Wrong("no_triple", f"timed should return median, lowest and highest, and it returned {result!r}.")
    if device.num_calls != warmup + repeats:
        raise Wrong(
            "calls",
            f"With warmup={warmup} and repeats={repeats} the function is called {warmup + repeats} times, and you "
            f"called it {device.num_calls} times.",
        )
    return tuple(float(value) for value in result)


def _same(ours: tuple[float, ...], expected: tuple[float, ...]) -> bool:
    return all(math.isclose(one, other, abs_tol=1e-6) for one, other in zip(ours, expected, strict=True))


def _expected(seconds: list[float]) -> tuple[float, float, float]:
    return statistics.median(seconds), min(seconds), max(seconds)


@case("median, lowest and highest of the rounds, of 5 and of 4")
def middle_and_ends(timed: Asked) -> None:
    for seconds in ([3.0, 1.0, 9.0, 2.0, 2.5], [4.0, 1.0, 10.0, 2.0], [7.0]):
        got, expected = _run(timed, Host(*seconds), 0, len(seconds)), _expected(seconds)
        if _same(got, expected):
            continue
        what = f"Rounds of {seconds} s gave you {tuple(round(value, 6) for value in got)}"
        if _same(tuple(sorted(got)), tuple(sorted(expected))):
            raise Wrong("order", f"{what}: these are the right three, and the order is median, lowest, highest.")
        if math.isclose(got[0], sum(seconds) / len(seconds), abs_tol=1e-6):
            raise Wrong(
                "mean", f"{what}: the first is the mean, which one disturbed round pulls up. Report the median."
            )
        if len(seconds) % 2 == 0 and math.isclose(got[0], sorted(seconds)[len(seconds) // 2], abs_tol=1e-6):
            sentence = "with an even number of rounds the median lies halfway between the two in the middle"
            raise Wrong("even_median", f"{what}: {sentence}.")
        raise Wrong("not_spread", f"{what}; median, lowest and highest are {expected}.")


@case("warm-up calls are made and do not count")
def warms_up(timed: Asked) -> None:
    slow = [50.0, 40.0, 1.0, 2.0, 3.0]
    for warmup, seconds in ((1, slow[1:]), (2, slow), (0, slow[2:]), (1, [0.5, 3.0, 1.0, 9.0])):
        got = _run(timed, Host(*seconds), warmup, 3)
        if not _same(got, _expected(seconds[warmup:])):
            what = f"Calls of {seconds} s with warmup={warmup} gave {got}"
            text = f"{what}; the first {warmup}, and only they, count for nothing: {_expected(seconds[warmup:])}."
            raise Wrong("warmup_counted", text)


@case("the clock is stopped when the device has finished, not when the call returns")
def waits_for_the_device(timed: Asked) -> None:
    got = _run(timed, Device(2.0, 1.0, 4.0), 0, 3)
    if max(got) == 0.0:
        raise Wrong(
            "no_sync",
            "Every round took 0 s: the call only put work into the device's queue. Let synchronize return before you "
            "stop the clock.",
        )
    if not _same(got, _expected([2.0, 1.0, 4.0])):
        raise Wrong("late_sync", f"Rounds of 2, 1 and 4 s on a device with a queue gave {got}; wait in every round.")


@case("what was in the queue before is not counted")
def begins_with_an_empty_queue(timed: Asked) -> None:
    for warmup, seconds in ((0, (1.0, 1.0, 1.0)), (2, (30.0, 30.0, 1.0, 1.0, 1.0))):
        device = Device(*seconds, in_queue=20.0)
        got = _run(timed, device, warmup, 3)
        if not _same(got, (1.0, 1.0, 1.0)):
            raise Wrong(
                "leftovers",
                f"Rounds of 1 s gave {got}: work from before was still in the queue when you started the clock. "
                "Wait for the device before each round as well.",
            )


@case("without a clock of the caller's: one that nobody can set back, in seconds")
def clock_of_its_own(timed: Asked) -> None:
    names, runs = timed.inside(own_clock)
    seen = set(names)
    if wall := seen & _SET_BACK:
        raise Wrong("wall_clock", f"You asked {min(wall)}: a clock of the wall can be set back while you measure.")
    if cpu := seen & _OF_THE_CPU:
        raise Wrong("cpu_clock", f"You asked {min(cpu)}: it stands still while this process waits.")
    for median, *_ in runs:
        if not 0.005 < median < 1000:
            raise Wrong("unit", f"A sleep of 0.01 s took {median:g} by your clock; times are in seconds.")


def own_clock(timed: Timed) -> tuple[list[str], list[tuple[float, float, float]]]:
    """In the process of the function: the C functions that it called, and what it returned for a sleep of 0.01 s."""
    seen: set[str] = set()

    def spy(_frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            seen.add(getattr(function, "__name__", ""))

    before = sys.getprofile()
    sys.setprofile(spy)
    try:
        runs = [timed(lambda: time.sleep(0.01), lambda: None, warmup=0, repeats=1, **clock) for clock in _NO_CLOCK]
    finally:
        sys.setprofile(before)
    return sorted(seen), runs


@case("repeats below 1 and a negative warm-up are a ValueError, before any call")
def refuses(timed: Asked) -> None:
    for warmup, repeats in ((0, 0), (1, 0), (1, -2), (-1, 3)):
        device, what = Host(1.0), f"warmup={warmup}, repeats={repeats}"
        try:
            timed(device.work, device.synchronize, warmup=warmup, repeats=repeats, clock=device.clock)
        except ValueError:
            if device.num_calls:
                text = f"{what} was refused after {device.num_calls} calls; look before the first."
                raise Wrong("late_refusal", text) from None
            continue
        except Exception as error:
            text = f"{what} raised {type(error).__name__} and not a ValueError."
            raise Wrong("accepts_nothing", text) from None
        raise Wrong("accepts_nothing", f"{what} measures nothing; raise a ValueError.")


TIMED = Exercise(
    id="01.2",
    title="A clock for any device",
    minutes=12,
    difficulty=2,
    cases=(middle_and_ends, warms_up, waits_for_the_device, begins_with_an_empty_queue, clock_of_its_own, refuses),
    hints=(
        "Draw one round as a line: where does the clock start, where does the work start, where does it end?",
        "Look at the two moments at which you read the clock. At both of them the device's queue has to be empty, and "
        "a round that warms up is like the others but for its time.",
        "In every round: wait for the device, read the clock, call, wait again, read the clock, keep the difference. "
        "The calls that warm up may be timed too, if their times are dropped. The statistics module has the median; "
        "Python's time module has clocks that only go forward.",
    ),
    package=("pllab.bench.compare",),
    lends=False,
)
