"""The cases of exercise 09.2: `compute(batches, schedule, partitions, devices, in_queues, out_queues)`.

It runs one clock cycle on the workers and puts each result back in `batches`. That a cycle is concurrent is shown
by a meeting: two stages that each wait for the other. No clock is read.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from random import Random
from typing import Any

import torch

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.exercises import lesson_09_bench as bench
from pllab.pipeline import Workers, clock_cycles, create_workers

Schedule = list[tuple[int, int]]
Stage = Callable[[torch.Tensor], torch.Tensor]

# The two orders of a cycle: a stage is given out first, or last.
_ORDERS: list[Schedule] = [[(1, 0), (0, 1)], [(0, 1), (1, 0)]]


@contextmanager
def _on_workers(
    compute: Function, stages: Sequence[Stage], are_held: bool = False
) -> Iterator[tuple[Callable[..., None], Workers]]:
    """In the process of the function: a cycle, to be called with batches and a schedule, and the workers it uses."""
    devices = [torch.device("cpu", j) for j in range(len(stages))]
    workers = create_workers(devices)
    ins, outs = _held_back(workers) if are_held else workers[:2]
    rest = {"partitions": list(stages), "devices": devices, "in_queues": ins, "out_queues": outs}
    with workers:
        yield partial(bench.call_as_written, compute, **rest), workers


def _held_back(workers: Workers) -> tuple[list[Any], list[Any]]:
    """Queues of workers that begin when somebody looks for a result, as late as a worker can."""
    held: list[SimpleQueue[Any]] = [SimpleQueue() for _ in workers.in_queues]

    def let_go() -> None:
        for waiting, queue in zip(held, workers.in_queues, strict=True):
            while not waiting.empty():
                queue.put(waiting.get())

    return list(held), [_HeldOut(queue, let_go) for queue in workers.out_queues]


class _HeldOut:
    """An out-queue; any look at it lets the workers go."""

    def __init__(self, queue: Any, let_go: Callable[[], None]) -> None:
        self._queue, self._let_go = queue, let_go

    def __getattr__(self, name: str) -> Any:
        self._let_go()
        return getattr(self._queue, name)


@case("every result lands in its own place, even when the workers are late")
def results(compute: Asked) -> None:
    """Every cycle of some clocks, its pairs in random order, with held-back workers and batches of any length."""
    for num_batches, num_stages in [(2, 2), (5, 3), (1, 3), (3, 1)]:
        for num_cycles in range(1, num_batches + num_stages):  # a wrong result can make the next cycle raise
            for cycle in compute.inside(clocked, num_batches, num_stages, num_cycles):
                _judge_cycle(*cycle)


def clocked(compute: Function, num_batches: int, num_stages: int, num_cycles: int) -> list[tuple[Any, ...]]:
    """In the process of the function: of each cycle its pairs, the pairs that stages ran, and the batches after it.

    Stage 0 turns batch i into i + 10, stage 1 that into i + 110, a row longer; each notes the pair it was given.
    """
    chance, seen, cycles = Random(10 * num_batches + num_stages), Schedule(), []

    def stage(number: int, x: torch.Tensor) -> torch.Tensor:
        seen.append((int(x[0].item()) % 10, number))
        return torch.cat([x, x[:1]]) + 10.0 ** (number + 1)

    batches: list[Any] = [torch.full((1 + i % 2,), float(i), requires_grad=True) for i in range(num_batches)]
    with _on_workers(compute, [partial(stage, j) for j in range(num_stages)], are_held=True) as (run, _):
        for cycle in list(clock_cycles(num_batches, num_stages))[:num_cycles]:
            schedule = chance.sample(cycle, len(cycle))
            seen.clear()
            run(batches, list(schedule))
            cycles.append((schedule, list(seen), list(batches)))
    return cycles


def _judge_cycle(schedule: Schedule, seen: Schedule, batches: Sequence[Any]) -> None:
    ran = f"For the cycle {schedule} the stages ran the pairs {seen}"
    if len(set(seen)) < len(seen) == len(schedule):
        raise Wrong("late_binding", f"{ran}: the tasks look i and j up when they run, and by then the loop is over.")
    if sorted(seen) != sorted(schedule):
        raise Wrong("wrong", f"{ran}; right is each pair of the cycle once.")
    for i, j in schedule:
        right = torch.full((2 + i % 2 + j,), i + sum(10.0 ** (k + 1) for k in range(j + 1)))
        _judge_batch("wrong", f"After the cycle {schedule} batches[{i}] is", batches[i], right)
        if not batches[i].requires_grad:
            raise Wrong("wrong", f"After the cycle {schedule} batches[{i}] has lost its graph; keep the whole result.")


def _judge_batch(hint_id: str, asked: str, got: Any, right: torch.Tensor) -> None:
    if not isinstance(got, torch.Tensor) or not torch.equal(got, right):
        raise Wrong(hint_id, f"{asked} {got}; right is {right}.")


@case("each stage runs on its own worker, and no call starts a thread")
def on_workers(compute: Asked) -> None:
    for num_started, ran in compute.inside(places_of_stages):
        bench.judge_threads(num_started, ran)


def places_of_stages(compute: Function) -> list[tuple[int, list[tuple[str, int, int]]]]:
    """In the process of the function: for each cycle how many threads it started, and where each stage ran."""
    caller, ran, cycles = threading.current_thread(), list[tuple[str, int, int]](), []

    def stage(number: int, x: torch.Tensor) -> torch.Tensor:
        ran.append(("Forward", number, bench.place_here(workers.threads, caller)))
        return x + 1

    with _on_workers(compute, [partial(stage, 0), partial(stage, 1)]) as (run, workers):
        for schedule in (*_ORDERS, [(0, 1)], [(1, 0)]):
            ran.clear()
            with bench.started_threads() as started:
                run([torch.zeros(1), torch.zeros(1)], list(schedule))
            cycles.append((len(started), list(ran)))
    return cycles


@case("the stages of one cycle run at the same time (they meet at a barrier)")
def together(compute: Asked) -> None:
    if not compute.inside(meets, bench.MEETING_S):
        told = "The stages of one cycle never ran at the same time: one waited for the other, not given out yet"
        raise Wrong("sequential", f"{told}. Give out all tasks of the cycle first, then wait for their results.")


def meets(compute: Function, meeting_s: float) -> bool:
    """In the process of the function: whether the stages met in each of three cycles."""
    meeting, have_met = threading.Barrier(2), list[bool]()

    def stage(x: torch.Tensor) -> torch.Tensor:
        have_met.append(bench.met(meeting, meeting_s))
        return x

    with _on_workers(compute, [stage, stage]) as (run, _):
        for _ in range(3):
            run([torch.zeros(1), torch.zeros(1)], list(_ORDERS[0]))
            if not all(have_met):
                return False
    return True


@case("an exception in a stage reaches the caller with its traceback, and the next cycle is right again")
def exception(compute: Asked) -> None:
    """Each stage raises in turn, given out first or last, while the other is late; then a cycle in which none does."""
    for failing in (0, 1):
        for schedule in _ORDERS:
            failed: bench.Failed = compute.inside(failed_and_gone_on, failing, schedule)
            bench.judge_failed(f"Stage {failing}", failed)
            for i, right in enumerate((30.0, 6.0)):
                asked = f"Stage {failing} raised, and after the next cycle batches[{i}] is"
                _judge_batch("stale_result", asked, failed.next[i], torch.tensor([right]))


def failed_and_gone_on(compute: Function, failing: int, schedule: Schedule) -> bench.Failed:
    """In the process of the function: a cycle in which one stage fails and the other is late, and the one after it."""
    is_over = threading.Event()

    def stage(number: int, x: torch.Tensor) -> torch.Tensor:
        if not is_over.is_set() and number == failing:
            bench.burst()
        is_over.wait(timeout=bench.LATE_S)
        return x * 10 if number else x + 1

    with _on_workers(compute, [partial(stage, 0), partial(stage, 1)]) as (run, workers):

        def cycle() -> list[Any]:
            batches: list[Any] = [torch.tensor([3.0]), torch.tensor([5.0])]
            run(batches, list(schedule))
            return batches

        return bench.fail_and_go_on(cycle, is_over, workers)
