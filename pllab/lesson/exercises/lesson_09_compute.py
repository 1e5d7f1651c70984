"""The cases of exercise 09.2: `compute(batches, schedule, partitions, devices, in_queues, out_queues)`.

It runs one clock cycle on the workers and puts each result back in `batches`. That a cycle is concurrent is shown
by a meeting: two stages that each wait for the other. No clock is read.
"""

import threading
import traceback
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import torch

from pllab.lesson.exercise import Asked, Wrong, case
from pllab.lesson.exercises.lesson_09_bench import Bench, Compute, Schedule, judge_leftovers, started_threads
from pllab.pipeline import clock_cycles

# Seconds that a stage takes longer than the one that fails, unless the cycle is given up before.
_LATE_S = 0.3
# Seconds a stage waits for the other; a concurrent cycle meets at once and never waits this long.
MEETING_S = 4.0


@case("every result lands in its own place, even when the workers are late")
def results(compute: Asked) -> None:
    """Every tick of some clocks, its pairs in an order by chance, with held-back workers and batches of any length."""
    for number, (num_batches, num_stages) in enumerate([(2, 2), (5, 3), (1, 3), (3, 1)]):
        cycles, raised = compute.inside(clocked, num_batches, num_stages, number)
        for schedule, seen, batches in cycles:
            _judge_calls(sorted(seen), sorted(schedule))
            _judge_values(batches, schedule)
        if raised:  # and all before it were right
            raise Wrong("raised", f"After {len(cycles)} cycles of a clock your function raised {raised}")


Cycle = tuple[Schedule, list[tuple[int, int]], list[Any]]
"""A clock cycle: its pairs, the pairs that stages were called with, and the micro-batches afterwards."""


def clocked(compute: Compute, num_batches: int, num_stages: int, seed: int) -> tuple[list[Cycle], str]:
    """In the process of the function: the cycles of a clock, up to one that raised, and what that raised."""
    chance, seen, cycles = Random(seed), list[tuple[int, int]](), list[Cycle]()
    stages = [partial(_numbered, stage, seen) for stage in range(num_stages)]
    batches: list[Any] = [torch.full((1 + i % 2, 3), float(i)) for i in range(num_batches)]
    with Bench(compute, stages, held=True) as bench:
        for cycle in clock_cycles(num_batches, num_stages):
            schedule = chance.sample(cycle, len(cycle))
            seen.clear()
            try:
                bench.cycle(batches, schedule)
            except Exception as error:
                if not cycles:
                    raise
                return cycles, traceback.format_exception_only(error)[0].strip()
            cycles.append((schedule, list(seen), list(batches)))
    return cycles, ""


@case("each stage runs on the worker of its device, and no call starts a thread")
def on_workers(compute: Asked) -> None:
    for places, num_started in compute.inside(places_of_stages):
        _judge_threads(places, num_started)


CALLER, NOBODY = -1, -2  # where something ran that was on no worker: on the thread that called, on another


def place_of(thread: threading.Thread, workers: Sequence[threading.Thread]) -> int:
    """The number of the worker that a thread is, seen from the thread that called."""
    if thread in workers:
        return list(workers).index(thread)
    return CALLER if thread is threading.current_thread() else NOBODY


def places_of_stages(compute: Compute) -> list[tuple[dict[int, int], int]]:
    """In the process of the function: for each cycle where each stage ran, and how many threads were started."""
    ran_on: dict[int, threading.Thread] = {}
    cycles = []

    def noting(stage: int, x: torch.Tensor) -> torch.Tensor:
        ran_on[stage] = threading.current_thread()
        return x + 1

    with Bench(compute, [partial(noting, 0), partial(noting, 1)]) as bench:
        for schedule in ([(1, 0), (0, 1)], [(0, 1), (1, 0)], [(0, 1)], [(1, 0)]):
            ran_on.clear()
            with started_threads() as started:
                bench.cycle(_two_batches(), schedule)
            places = {stage: place_of(thread, bench.threads) for stage, thread in ran_on.items()}
            cycles.append((places, len(started)))
    return cycles


@case("the stages of one cycle run at the same time (they meet at a barrier)")
def together(compute: Asked) -> None:
    if not compute.inside(meets, MEETING_S):
        raise Wrong(
            "sequential",
            "The stages of one cycle never ran at the same time: one waited for the other, which had not been "
            "given out yet. Give out all tasks of the cycle first, then wait for their results.",
        )


def meets(compute: Compute, meeting_s: float) -> bool:
    """In the process of the function: whether the stages met in each of three cycles."""
    meeting = threading.Barrier(2)
    alone: list[torch.Tensor] = []

    def meet(x: torch.Tensor) -> torch.Tensor:
        if not met(meeting, meeting_s):
            alone.append(x)
        return x

    with Bench(compute, [meet, meet]) as bench:
        for _ in range(3):
            bench.cycle(_two_batches(), [(1, 0), (0, 1)])
            if alone:
                return False
    return True


@case("an exception in a stage reaches the caller with its traceback")
def exception(compute: Asked) -> None:
    """Each stage raises in turn, given out first or last; the caller must get that exception, and see its line."""
    for number in range(len(_FAILURES)):
        compute.inside(raises_in_a_stage, number)


def raises_in_a_stage(compute: Compute, number: int) -> None:
    """In the process of the function: what the caller of a cycle gets whose stage raises."""
    failing, schedule = _FAILURES[number]
    batches = _two_batches()
    with Bench(compute, [_explode if stage == failing else lambda x: x + 1 for stage in range(2)]) as bench:
        try:
            bench.cycle(batches, schedule)
        except _Burst as error:
            if "_explode" not in _frames(error):
                raise Wrong(
                    "lost_traceback",
                    "The exception came back without the line of the stage that raised it; "
                    "exc_info[1].with_traceback(exc_info[2]) carries it along.",
                ) from None
        except Exception as error:
            raise Wrong(
                "wrong_exception",
                f"The stage raised {_Burst(_BANG)!r} and the caller got {error!r}; raise the worker's own exception.",
            ) from None
        else:
            _judge_silence(batches)


@case("after an exception the next cycle is right again")
def after_exception(compute: Asked) -> None:
    """A cycle in which one stage fails and the other is late, then a good one: workers live, no answer is left."""
    for number in range(len(_FAILURES)):
        if compute.inside(failed_and_gone_on, number) != [30.0, 6.0]:
            raise Wrong("stale_result", "After an exception the next cycle stored wrong results: begin it afresh.")


def failed_and_gone_on(compute: Compute, number: int) -> list[float]:
    """In the process of the function: the results of the cycle after one that failed."""
    failing, schedule = _FAILURES[number]
    is_over = threading.Event()

    def stage(number: int, x: torch.Tensor) -> torch.Tensor:
        if not is_over.is_set():
            if number == failing:
                return _explode(x)
            is_over.wait(timeout=_LATE_S)
        return x * 10 if number else x + 1

    with Bench(compute, [partial(stage, 0), partial(stage, 1)]) as bench:
        try:
            bench.cycle(_two_batches(), schedule)
        except Exception:
            pass  # expected: the case before this one judged it
        finally:
            is_over.set()
        judge_leftovers(bench.workers)
        batches: list[Any] = [torch.full((1,), 3.0), torch.full((1,), 5.0)]
        try:
            bench.cycle(batches, schedule)
        except _Burst:
            raise Wrong(
                "old_failure",
                "This was the next cycle, in which no stage fails, and your function raised the exception of the cycle "
                "before: a failure belongs to one call and must be forgotten after it.",
            ) from None
        return [float(batch) for batch in batches]


def met(meeting: threading.Barrier, meeting_s: float) -> bool:
    """Wait for the other stage; False when it does not come in time, and at once in every meeting after that."""
    try:
        meeting.wait(timeout=meeting_s)
    except threading.BrokenBarrierError:
        return False
    return True


class _Burst(Exception):
    """Raised by a stage on purpose; a class of its own, so that nothing else can be taken for it."""


_BANG = "a stage failed on purpose"

# The stage that fails, and the cycle: its task is given out first, and last.
_FAILURES: list[tuple[int, Schedule]] = [(j, cycle) for j in (0, 1) for cycle in ([(1, 0), (0, 1)], [(0, 1), (1, 0)])]


def _explode(_: torch.Tensor) -> torch.Tensor:
    raise _Burst(_BANG)


def _two_batches() -> list[Any]:
    return [torch.zeros(1), torch.zeros(1)]


def _numbered(stage: int, seen: list[tuple[int, int]], x: torch.Tensor) -> torch.Tensor:
    """Stage 0 turns batch i into i + 10, stage 1 that into i + 110, a row longer; each notes the pair it was given."""
    seen.append((int(x.flatten()[0]) % 10, stage))
    return torch.cat([x, x[:1]]) + 10.0 * 10**stage


def _judge_calls(seen: Schedule, schedule: Schedule) -> None:
    if seen == schedule:
        return
    if len(seen) < len(schedule):
        raise Wrong(
            "task_missing", f"The schedule has {len(schedule)} pairs and the stages were called {len(seen)} times."
        )
    if len(set(seen)) < len(seen):
        raise Wrong(
            "late_binding",
            f"The workers computed (micro-batch, stage) {seen} instead of {schedule}: the task looks i and j up when "
            "it runs, and by then the loop has moved on.",
        )
    raise Wrong("wrong_pair", f"The workers computed (micro-batch, stage) {seen}, the schedule says {schedule}.")


def _judge_values(batches: Sequence[Any], schedule: Schedule) -> None:
    for i, j in schedule:
        right = float(i + sum(10 ** (stage + 1) for stage in range(j + 1)))
        got = batches[i]
        if isinstance(got, tuple):
            raise Wrong("whole_tuple", "A worker answers (True, result); you stored the whole pair in batches.")
        if not isinstance(got, torch.Tensor) or not torch.all(got == right):
            raise Wrong(
                "wrong_place",
                f"After the cycle {schedule} batches[{i}] is not the output of stage {j} for micro-batch {i}; the "
                "result of pair (i, j) comes from out_queues[j] and belongs in batches[i].",
            )


def _judge_threads(places: dict[int, int], num_started: int) -> None:
    if num_started or NOBODY in places.values():
        raise Wrong(
            "threads_per_call",
            "Your function started threads of its own; the workers behind in_queues are there already, and a thread "
            "per call piles up.",
        )
    if CALLER in places.values():
        raise Wrong(
            "no_workers",
            "A stage ran on the caller's own thread; put a Task in in_queues[j] and let the worker run it.",
        )
    if any(place != stage for stage, place in places.items()):
        raise Wrong("wrong_worker", "Stage j ran on another device's worker; its task belongs in in_queues[j].")


def _judge_silence(batches: Sequence[Any]) -> None:
    if not all(isinstance(batch, torch.Tensor) for batch in batches):
        raise Wrong(
            "exception_as_activation",
            "The stage failed and its exception was stored in batches as if it were a result; look at the first half "
            "of (ok, result).",
        )
    raise Wrong(
        "swallowed",
        "The stage raised and your function returned as if nothing had happened; training would go on with old data.",
    )


def _frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
