import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pllab import accelerator
from pllab.pipeline import Task, clock_cycles, compute, create_workers
from pllab.pipeline.workers import Upstream


def test_a_worker_keeps_order_and_survives_an_exception() -> None:
    def fail() -> None:
        raise KeyError("lost")

    with create_workers(["cpu:0"]) as (in_queues, out_queues):
        for work in (partial(int, "1"), fail, partial(int, "3")):
            in_queues[0].put(Task(work))
        results = [out_queues[0].get(timeout=10) for _ in range(3)]
    assert [ok for ok, _ in results] == [True, False, True]
    assert results[0][1] == 1 and results[2][1] == 3
    assert results[1][1][0] is KeyError and results[1][1][2].tb_next is not None


def test_a_lane_has_one_compute_thread_and_the_caller_and_later_threads_keep_theirs() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with create_workers(["cpu:0"]) as (in_queues, out_queues):
            in_queues[0].put(Task(torch.get_num_threads))
            assert out_queues[0].get(timeout=10) == (True, 1)
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(torch.get_num_threads).result() == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_device_named_twice_shares_its_worker_and_no_thread_is_left(
    threads_left: Callable[[], set[threading.Thread]],
) -> None:
    with (workers := create_workers(["cpu:0", "cpu:1", "cpu:0"])) as (in_queues, _):
        assert in_queues[0] is in_queues[2] is not in_queues[1] and len(workers.threads) == 2
    assert not threads_left()


def test_a_device_that_is_not_there_is_refused_at_once(threads_left: Callable[[], set[threading.Thread]]) -> None:
    """Its thread would end as it starts, and the caller wait for it."""
    with pytest.raises(ValueError, match=f"device '{accelerator.KIND}:99' is not on this machine"):
        create_workers(["cpu:0", f"{accelerator.KIND}:99"])
    assert not threads_left()


def test_compute_returns_the_results_in_the_order_of_the_tasks() -> None:
    """Two tasks on each of two workers, as in two clock cycles at once."""
    with create_workers(["cpu:0", "cpu:1", "cpu:0", "cpu:1"]) as (in_queues, out_queues):
        tasks = [Task(partial(divmod, number, 2)) for number in range(4)]
        assert compute(tasks, in_queues, out_queues, 10) == [divmod(number, 2) for number in range(4)]


def test_compute_reports_the_cause_and_not_the_consequence_when_all_have_answered() -> None:
    def cause() -> None:
        raise ZeroDivisionError("the cause")

    def consequence() -> None:
        raise Upstream("a consequence")

    with create_workers(["cpu:0", "cpu:1"]) as (in_queues, out_queues):
        for tasks in ([consequence, cause], [cause, consequence]):
            with pytest.raises(ZeroDivisionError, match="the cause") as caught:
                compute([*map(Task, tasks)], in_queues, out_queues, 10)
            assert any(entry.name == "cause" for entry in caught.traceback)
            assert all(queue.empty() for queue in out_queues)


def test_tasks_that_run_at_the_same_time_have_one_deadline_together() -> None:
    """Each ends 0.1 s after the one before it, which is within 0.3 s, and the last 0.8 s after the start."""
    tasks = [Task(partial(time.sleep, 0.1 * (number + 1))) for number in range(8)]
    with create_workers([f"cpu:{number}" for number in range(8)]) as queues:
        with pytest.raises(TimeoutError, match="a lane is not done after 0.3 s; allow more time with timeout_s="):
            compute(tasks, *queues, 0.3)


@given(m=st.integers(1, 20), p=st.integers(1, 20))
def test_every_cell_once_one_tick_after_its_predecessor_and_no_tick_too_many(m: int, p: int) -> None:
    ticks = list(clock_cycles(m, p))
    at = {cell: number for number, tick in enumerate(ticks) for cell in tick}
    assert len(ticks) == m + p - 1
    assert sum(map(len, ticks)) == len(at) == m * p
    assert all(at[i, j] == i + j for i in range(m) for j in range(p))


@pytest.mark.parametrize(("m", "p"), [(0, 2), (2, 0), (-1, 1)])
def test_nothing_to_clock_is_refused_with_the_numbers(m: int, p: int) -> None:
    with pytest.raises(ValueError, match=f"{m} micro-batches on {p} partitions"):
        list(clock_cycles(m, p))
