"""launch: the results, or the first cause of failure; and nobody left behind, whatever happened."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch

from pllab.comm import RankError, launch, report
from tests.comm import programs

pytestmark = pytest.mark.ranks

OWNER = """
import sys
from tests.comm import programs
from pllab.comm import launch

if __name__ == "__main__":
    launch(programs.wait_for_file, 2, sys.argv[1], backend="gloo", timeout_s=100)
"""
WITHOUT_GUARD = """
from tests.comm import programs
from pllab.comm import launch

launch(programs.where, 2, backend="gloo", timeout_s=60)
"""


@pytest.mark.parametrize("size", [3])
def test_results_in_order_of_rank(size, nothing_left):
    results = launch(programs.where, size, backend="gloo", num_threads=2, timeout_s=60)
    assert results == [(rank, size, rank, size, 2) for rank in range(size)]


def test_leaving_twice_restores_the_environment():
    for during, after, has_group in launch(programs.teardown_twice, 2, backend="gloo", timeout_s=60):
        assert (during in ("lo", "lo0"), after, has_group) == (True, None, False)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", r"rank 1 raised ValueError: no such luck\n\nTraceback"),
        ("leave_then_raise", r"rank 1 raised KeyError: 'late'"),
        ("exit", r"rank 1 called sys.exit\(3\)"),
        ("os_exit", r"rank 1 ended with exit code 7"),
        ("kill", r"rank 1 was killed by signal 9 \(SIGKILL\)"),
        ("unpicklable", r"rank 1 raised ValueError: the result, lock .* cannot be sent"),
    ],
)
def test_the_cause_is_reported_and_not_its_echo(how, words, nothing_left):
    with pytest.raises(RankError, match=words) as caught:
        launch(programs.fail_on, 2, 1, how, backend="gloo", timeout_s=60)
    assert caught.value.rank == 1


def test_an_echo_alone_is_reported():
    with pytest.raises(RankError, match="rank 0 raised PeerError: all_reduce on rank 0 failed"):
        launch(programs.fail_on, 2, 1, "return", backend="gloo", timeout_s=60)


@pytest.mark.parametrize("how", ["hang", "deaf"])
def test_a_rank_that_hangs_is_named_with_where_it_was(how, nothing_left):
    with pytest.raises(RankError, match=r"ranks 0, 1 of 2 had not finished after 6 s") as caught:
        launch(programs.fail_on, 2, 1, how, backend="gloo", timeout_s=6)
    assert f"in _{how if how == 'hang' else 'be_deaf'}" in str(caught.value)
    assert "in all_reduce" in str(caught.value)


def test_setup_inside_a_rank_is_a_clear_error():
    with pytest.raises(RankError, match="this process is already rank"):
        launch(programs.setup_again, 2, backend="gloo", timeout_s=60)


def test_reports_arrive_in_the_calling_thread_in_order(nothing_left):
    heard, threads = [], set()

    def listen(rank, value):
        heard.append((rank, value))
        threads.add(threading.get_ident())

    launch(programs.say, 2, backend="gloo", timeout_s=60, on_report=listen)
    for rank in range(2):
        assert [value for who, value in heard if who == rank] == [(rank, step) for step in range(3)]
    assert threads == {threading.get_ident()}
    report("outside a rank this does nothing")


def test_an_error_in_the_listener_ends_the_ranks(nothing_left):
    def listen(rank, value):
        raise KeyError("listener")

    with pytest.raises(KeyError, match="listener"):
        launch(programs.say, 2, backend="gloo", timeout_s=60, on_report=listen)


def test_a_report_that_cannot_travel():
    with pytest.raises(RankError, match="the report, lock .* cannot be sent"):
        launch(programs.report_a_lock, 1, backend="gloo", timeout_s=60)


def test_two_launches_at_once(nothing_left):
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(launch, programs.exchange, 2, backend="gloo", timeout_s=60) for _ in range(2)]
        assert all(all(outcome.values()) for future in both for outcome in future.result())


def test_tensors_travel_by_value(nothing_left):
    sent = torch.arange(3.0)
    back = launch(programs.give_back, 2, sent, backend="gloo", timeout_s=60)
    assert [value.tolist() for value in back] == [[0, 1, 2], [1, 2, 3]]
    assert sent.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((programs.where, 0), {}, "world_size is 0"),
        ((programs.where, 2), {"timeout_s": 0}, "timeout_s is 0"),
        ((programs.where, 2), {"num_threads": 0}, "num_threads is 0"),
        ((lambda rank, size: 1, 2), {}, "a lambda has no name"),
        ((programs.where, 2, threading.Lock()), {}, r"argument 0 of where\(\), lock .* cannot be sent"),
        (("where", 2), {}, "launch needs a function and was given str 'where'"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(arguments, options, words, nothing_left):
    with pytest.raises(ValueError, match=words):
        launch(*arguments, **options)


def test_a_local_function_is_refused_with_the_way_out():
    def local(rank, size):
        return rank

    with pytest.raises(ValueError, match=r"local\(\) is defined inside another function.*%%px"):
        launch(local, 2)


@pytest.mark.parametrize("cell", ["launch(f, 2)", "launch(partial(f), 2)", "launch(programs.give_back, 2, C())"])
def test_what_was_typed_at_a_prompt_is_refused_with_the_way_out(cell):
    """`python -c` has a __main__ without a file, exactly like a notebook."""
    code = (
        "from functools import partial\nfrom pllab.comm import launch\nfrom tests.comm import programs\n"
        f"def f(rank, size): pass\nclass C: pass\ntry: {cell}\nexcept ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "defined in a notebook cell or at a prompt" in done.stdout
    assert "put" in done.stdout


def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_GUARD)
    done = _run_script(script).communicate(timeout=60)[1].decode()
    assert "put the call under if __name__ == '__main__':" in done


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_ranks_end_with_their_parent(number, tmp_path):
    (tmp_path / "temp").mkdir()
    script = tmp_path / "script.py"
    script.write_text(OWNER)
    owner = _run_script(script, str(tmp_path), TMPDIR=str(tmp_path / "temp"))
    pids = [int(_read_soon(tmp_path / f"pid-{rank}")) for rank in range(2)]
    ranks = [psutil.Process(pid) for pid in pids]
    owner.send_signal(number)
    owner.communicate(timeout=30)
    _, alive = psutil.wait_procs(ranks, timeout=10)
    assert not alive
    assert not list((tmp_path / "temp").glob("pllab-*"))


def _run_script(script, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ".", **environment},
    )


def _read_soon(path):
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)
    return path.read_text()
