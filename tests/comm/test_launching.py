"""launch: the results, or the first cause of failure; and nobody left behind, whatever happened."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch

from pllab.comm import RankError, launch, report
from pllab.comm.fork_server import can_fork, warm_server
from pllab.comm.processes import is_starved
from tests.comm import programs
from tests.tiers import exhaustive

OWNER = """
import sys
from tests.comm import programs
from pllab.comm import launch

if __name__ == "__main__":
    launch(programs.wait_to_be_ended, 2, sys.argv[1], backend="gloo", timeout_s=100)
"""
SLOW = f"{OWNER}else:\n    programs.wait_to_be_ended(0, 2, sys.argv[1])\n"  # a rank imports this script for an hour
NEW = f"from pllab.comm import fork_server\nfork_server.num_gpus = lambda: 1\n{OWNER}"
WITHOUT_GUARD = """
from tests.comm import programs
from pllab.comm import launch

launch(programs.where, 2, backend="gloo", timeout_s=60)
"""


@pytest.mark.parametrize("gpus", [0, 1])
def test_ranks_come_from_one_server_except_on_a_host_with_gpus(gpus, monkeypatch):
    """A library that looks for GPUs while it is imported makes them useless in a fork."""
    monkeypatch.setattr("pllab.comm.fork_server.num_gpus", lambda: gpus)
    server = warm_server().pid
    for rank, ancestors in enumerate(launch(programs.ancestors, 2, backend="gloo", timeout_s=60)):
        assert (server in ancestors) == (gpus == 0 and can_fork()), rank


def test_ranks_draw_other_random_numbers_than_each_other_and_than_those_before():
    warm_server("numpy.random")
    drawn = [
        seed for _ in range(2) for seeds in launch(programs.draw, 2, backend="gloo", timeout_s=60) for seed in seeds
    ]
    assert len(set(drawn)) == len(drawn) == 12


def test_a_rank_ends_as_python_does(tmp_path):
    launch(programs.end_late, 2, str(tmp_path), backend="gloo", timeout_s=60)
    assert {path.name for path in tmp_path.iterdir()} == {"at exit 0", "at exit 1", "thread 0", "thread 1"}


def test_results_are_in_order_of_rank_and_reports_arrive_in_the_calling_thread(nothing_left):
    heard, threads = [], set()

    def listen(rank, value):
        heard.append((rank, value))
        threads.add(threading.get_ident())

    results = launch(programs.where, 3, backend="gloo", num_threads=2, timeout_s=60, on_report=listen)
    assert results == [(rank, 3, rank, 3, 2) for rank in range(3)]
    for rank in range(3):
        assert [value for who, value in heard if who == rank] == [(rank, step) for step in range(3)]
    assert threads == {threading.get_ident()}
    report("outside a rank this does nothing")


@pytest.mark.parametrize(
    ("rank", "how", "words"),
    [
        (1, "raise", r"raised ValueError: no such luck\n\nTraceback"),
        (1, "kill", r"was killed by signal 9 \(SIGKILL\)"),
        (1, "os_exit", r"ended with exit code 7 and without a result"),
        (1, "leave_then_raise", r"raised KeyError: 'late'"),
        (1, "exit", "raised SystemExit: 3"),
        (1, "unpicklable", r"raised TypeError: cannot pickle '_thread.lock' object"),
        (0, "return", r"raised PeerError: all_reduce on rank 0 failed"),  # an echo alone
    ],
)
@pytest.mark.parametrize("gpus", [0, *exhaustive(1)])
def test_the_cause_is_reported_and_not_its_echo_however_late(rank, how, words, gpus, monkeypatch):
    monkeypatch.setattr("pllab.comm.fork_server.num_gpus", lambda: gpus)
    with pytest.raises(RankError, match=f"rank {rank} {words}") as caught:
        launch(programs.fail_on, 2, 1, how, backend="gloo", timeout_s=60)
    assert caught.value.rank == rank


def test_ranks_that_do_not_finish_are_named_with_where_they_were_and_ended():
    launch(programs.where, 1, backend="gloo", timeout_s=60)  # the first start takes seconds
    words, pids = "ranks 0, 1, 2 of 3 had not finished after 8 s", []
    with pytest.raises(RankError, match=words) as caught:
        launch(programs.never_finish, 3, backend="gloo", timeout_s=8, on_report=lambda _, pid: pids.append(pid))
    assert caught.value.rank == 0
    assert len(pids) == 3 and not any(map(psutil.pid_exists, pids))
    first, second, third = str(caught.value).split("\n\nrank ")[1:]
    assert "in all_reduce" in first and "in _be_deaf" in second and "SIGSTOP or Ctrl-Z may have stopped it" in third


def test_an_error_of_a_rank_travels_between_processes():
    error = pickle.loads(pickle.dumps(RankError(1, "rank 1 raised KeyError")))
    assert (error.rank, str(error)) == (1, "rank 1 raised KeyError")


def test_starved_is_what_could_run_and_did_not():
    spin = "import os, time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nwhile True: pass"
    sleep = "import time\nprint(flush=True)\ntime.sleep(100)"
    for program, wall_s, starved in [(spin, 1000.0, True), (spin, 0.5, False), (sleep, 1000.0, False)]:
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            try:
                process.stdout.readline()
                assert is_starved(process.pid, wall_s) is starved
            finally:
                process.kill()


def test_a_stopped_rank_is_named_beside_its_peers_deadline(tmp_path):
    words = r"rank 0 raised PeerError: all_reduce on rank 0 waited until its .* \(rank 1 did not answer\)\n"
    with pytest.raises(RankError, match=words):
        launch(programs.stop_in_a_group_with_a_deadline, 2, str(tmp_path / "meeting"), backend="gloo", timeout_s=60)


def test_an_error_in_the_listener_ends_the_ranks(nothing_left):
    def listen(rank, value):
        raise KeyError("listener")

    with pytest.raises(KeyError, match="listener"):
        launch(programs.where, 2, backend="gloo", timeout_s=60, on_report=listen)


def test_two_launches_at_once_whose_tensors_travel_by_value(nothing_left):
    sent = torch.tensor([10.0]), torch.tensor([20.0])
    options = {"backend": "gloo", "timeout_s": 2_000_000}  # the longest there is
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(launch, programs.give_back, 2, value, **options) for value in sent]
        assert [future.result() for future in both] == [[10, 11], [20, 21]]
    assert sent == (10, 20)


def _a_local_function():
    def local(rank, size):
        return rank

    return local


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((programs.where, 10**9), {}, "world_size is 1000000000; give a whole number from 1 to"),
        ((programs.where, 2), {"timeout_s": float("nan")}, "timeout_s is nan"),
        ((programs.where, 2), {"num_threads": 100_000}, "num_threads is 100000; give a whole number from 1 to"),
        ((programs.where, 2), {"backend": "mpi"}, "backend 'mpi' is unknown"),
        ((lambda rank, size: 1, 2), {}, "a lambda has no name"),
        (
            (_a_local_function(), 2),
            {},
            r"local\(\) or one .* cannot be sent .*local object.*\); put it in a module.*%%px",
        ),
        ((programs.where, 2, threading.Lock()), {}, r"where\(\) or one of its arguments cannot be sent .*lock"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(arguments, options, words, nothing_left):
    with pytest.raises(ValueError, match=words):
        launch(*arguments, **options)


def test_what_was_typed_at_a_prompt_is_refused_with_the_way_out():
    """`python -c` has a __main__ without a file, exactly like a notebook."""
    code = "from pllab.comm import launch\ndef f(rank, size): pass\nlaunch(f, 2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "ValueError: f() was defined in a notebook cell or at a prompt" in done.stderr and "put it" in done.stderr


@pytest.mark.exhaustive
def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_GUARD)
    environment = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, env=environment)
    assert "RuntimeError" in done.stderr and "if __name__ == '__main__':" in done.stderr


@pytest.mark.parametrize(
    ("script", "number"),
    [(OWNER, signal.SIGKILL), *exhaustive((OWNER, signal.SIGINT), (SLOW, signal.SIGKILL), (NEW, signal.SIGKILL))],
    ids=["killed", "interrupted", "killed while they start", "killed with new processes"],
)
def test_the_ranks_end_with_their_parent(script, number, ends_with_all):
    ends_with_all(script, lambda owner: owner.send_signal(number))
