import threading
from functools import partial

import pytest
import torch

from pllab.pipeline import Task, compute, create_workers
from pllab.pipeline.compute import Upstream


def test_two_workers_run_at_the_same_time() -> None:
    """Each task waits for the other: one worker alone could never finish them."""
    meeting = threading.Barrier(2, timeout=5)
    with create_workers(["cpu:0", "cpu:1"]) as (in_queues, out_queues):
        for queue in in_queues:
            queue.put(Task(meeting.wait))
        assert all(queue.get(timeout=10)[0] for queue in out_queues)


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


def test_a_lane_has_one_compute_thread_and_the_caller_keeps_its_own() -> None:
    before = torch.get_num_threads()
    with create_workers(["cpu:0"]) as (in_queues, out_queues):
        in_queues[0].put(Task(torch.get_num_threads))
        assert out_queues[0].get(timeout=10) == (True, 1)
    assert torch.get_num_threads() == before


def test_a_device_named_twice_shares_its_worker() -> None:
    workers = create_workers(["cpu:0", "cpu:1", "cpu:0"])
    assert workers.in_queues[0] is workers.in_queues[2] and len(workers.threads) == 2
    workers.close()


def test_no_thread_is_left_after_close() -> None:
    before = set(threading.enumerate())
    with create_workers(["cpu:0", "cpu:1"]):
        assert len(set(threading.enumerate()) - before) == 2
    assert set(threading.enumerate()) == before


def test_compute_binds_each_cell_when_it_is_made() -> None:
    cells = [(i, j) for i in range(50) for j in range(2)]
    with create_workers(["cpu:0", "cpu:1"]) as (in_queues, out_queues):
        assert compute(lambda i, j: (i, j), cells, in_queues, out_queues, 10) == {cell: cell for cell in cells}


def test_compute_reports_the_cause_and_not_the_consequence() -> None:
    def work(i: int, j: int) -> None:
        if j == 1:
            raise ZeroDivisionError("the cause")
        raise Upstream("a consequence")

    with create_workers(["cpu:0", "cpu:1"]) as (in_queues, out_queues):
        with pytest.raises(ZeroDivisionError, match="the cause") as caught:
            compute(work, [(0, 0), (0, 1)], in_queues, out_queues, 10)
        assert caught.value.__notes__ == ["raised in stage 1 on micro-batch 0"]
        assert any(entry.name == "work" for entry in caught.traceback)


def test_compute_does_not_wait_for_ever() -> None:
    release = threading.Event()
    workers = create_workers(["cpu:0"])
    with pytest.raises(TimeoutError, match="stage 0 has not finished micro-batch 0 after 0.05 s"):
        compute(lambda i, j: release.wait(5), [(0, 0)], workers.in_queues, workers.out_queues, 0.05)
    release.set()
    workers.close()
