"""Ranks: cells on real processes, in order of rank; what fails is told in a sentence; nothing outlives its owner."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests.tiers import exhaustive

pytest.importorskip("ipyparallel")

from pllab.comm import RankError, Ranks
from pllab.comm.notebook_ranks import RanksInterrupted

OWNER = """
import sys
from pathlib import Path
from pllab.comm import Ranks

ranks = Ranks(2, "gloo")
Path(sys.argv[1]).write_text(" ".join(map(str, ranks.fetch("__import__('os').getpid()"))))
sys.stdin.readline()
raise SystemExit("an error nobody caught")
"""
NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_cell("from pllab.comm import Ranks; ranks = Ranks(2, 'gloo')")
shell.run_cell("%%px\\nx = torch.tensor([rank + 1.0])\\ndist.all_reduce(x)\\nprint(x)\\nrank")
shell.run_cell("%px print(world_size)")
shell.run_cell("%%px --targets 1\\nprint('only', rank)")
shell.run_cell("%%px\\nif rank == 1: raise ValueError('boo')")
shell.run_cell("ranks = Ranks(1, 'gloo')")
shell.run_cell("%px print('of', world_size)")
shell.run_cell("ranks.stop()")
shell.run_cell("%px 1")
"""


@pytest.fixture(scope="module")
def ranks():
    """They end with the block, also when an exception leaves it."""
    with pytest.raises(KeyError), Ranks(2, "gloo") as ready:
        yield ready
        engines = [psutil.Process(pid) for pid in ready.fetch("__import__('os').getpid()")]
        raise KeyError("cell")
    assert not any(engine.is_running() for engine in engines)


def test_a_cell_finds_a_ready_group_and_its_output_is_in_order_of_rank_whoever_was_first(ranks, capsys):
    ranks.execute(
        "import sys, time\nx = torch.tensor([rank + 1.0])\ndist.all_reduce(x)\ntime.sleep(0.3 * (1 - rank))\n"
        "print(x, device, torch.get_num_threads())\nprint('b')\nprint('!', file=sys.stderr)\nrank"
    )
    out, err = capsys.readouterr()
    assert out == "".join(f"rank {rank}: tensor([3.]) cpu 1\nrank {rank}: b\nrank {rank}: {rank}\n" for rank in (0, 1))
    assert err == "rank 0: !\nrank 1: !\n"


def test_values_are_fetched_in_order_of_rank(ranks):
    ranks.execute("x = {'losses': torch.tensor([rank + 0.5]), 'a': 1}")
    assert ranks.fetch("rank + 1") == [1, 2]
    assert [float(x["losses"]) for x in ranks.fetch("x")] == [0.5, 1.5]
    assert [list(x) for x in ranks.fetch("x")] == [["losses", "a"]] * 2
    same_group = r"\(the ranks and their variables are still there\)"  # no message is under way
    with pytest.raises(RankError, match=rf"rank 0 raised NameError: .*nowhere.* {same_group}"):
        ranks.fetch("nowhere")
    with pytest.raises(RankError, match="rank 0 raised"):
        ranks.fetch("(n for n in range(3))")  # a generator cannot be sent
    assert ranks.fetch("world_size") == [2, 2]


@pytest.mark.parametrize("targets", [[2], [-1], ["0"], "all"])
def test_targets_that_are_no_ranks_are_refused(ranks, targets):
    with pytest.raises(ValueError, match=r"targets is .*; give ranks from 0 to 1, or leave it out for all"):
        ranks.execute("rank", targets=targets)


def test_an_await_at_the_top_of_a_cell_is_refused_and_its_way_out_works(ranks, capsys):
    """Otherwise the ranks would never come back."""
    go = "import asyncio, threading\nasync def go(): print(await asyncio.sleep(0, rank))\n"
    with pytest.raises(ValueError, match=r"in a thread, as in threading.Thread\(target=asyncio.run, args=\[go\(\)\]\)"):
        ranks.execute(f"{go}await go()")
    ranks.execute(f"%time\n{go}one = threading.Thread(target=asyncio.run, args=[go()])\none.start()\none.join()")
    assert capsys.readouterr().out.endswith("rank 1: 1\n")


@pytest.mark.parametrize(
    "left",
    [
        "dist.barrier()",
        "left = dist.all_reduce(torch.ones(1), async_op=True)",  # as every call is under nccl
        "left = dist.all_reduce(torch.ones(1), group=group, async_op=True)",
        "left = dist.isend(torch.ones(1), 1)",
    ],
)
def test_the_failure_of_one_rank_frees_the_others_and_their_messages_meet_none_of_the_next_cell(ranks, left, capsys):
    words = r"rank 1 raised ValueError: boo \(the ranks .* still there, in a new group\)"
    with pytest.raises(RankError, match=words) as caught:
        ranks.execute(f"mine, group = 10 + rank, dist.new_group()\nif rank == 1: raise ValueError('boo')\n{left}")
    assert caught.value.rank == 1
    ranks.execute("x = torch.ones(1)\ndist.all_reduce(x)\nprint(x.item(), mine)")
    assert capsys.readouterr().out == "rank 0: 2.0 10\nrank 1: 2.0 11\n"


@pytest.mark.parametrize(
    "waiting",
    ["dist.recv(torch.ones(1), 1 - rank)", *exhaustive("while True: pass", "import time; time.sleep(600)")],
)
def test_an_interrupt_reaches_every_rank_wherever_it_waits(ranks, waiting, capsys, tmp_path):
    def interrupt():
        while len(list(tmp_path.iterdir())) < 2:  # until both have begun, however busy the machine is
            time.sleep(0.02)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(RanksInterrupted, match="the ranks and their variables are still there"):
        ranks.execute(f"print('begun')\nopen(f'{tmp_path}/{{rank}}', 'w').close()\n{waiting}")
    thread.join()
    assert capsys.readouterr() == ("rank 0: begun\nrank 1: begun\n", "")
    ranks.execute("x = torch.ones(1)\ndist.all_reduce(x)\nprint(x.item())")
    assert capsys.readouterr().out == "rank 0: 2.0\nrank 1: 2.0\n"


def test_everything_stays_on_loopback(ranks):
    ours = {process.pid for process in psutil.Process().children(recursive=True)} | {os.getpid()}
    sockets = [socket for pid in ours for socket in psutil.Process(pid).net_connections("inet")]
    assert sockets
    assert {socket.laddr.ip for socket in sockets} <= {"127.0.0.1", "::1"}


@pytest.mark.exhaustive
def test_ranks_end_with_their_name(nothing_left):
    ranks = Ranks(1, "gloo")
    del ranks
    gc.collect()


def test_a_rank_that_ends_in_a_cell_is_named_and_all_are_ended_and_say_so_afterwards(nothing_left, capsys):
    ranks = Ranks(2, "gloo")
    words = r"rank 1 ended with exit code 5 \(all ranks were ended; make new Ranks\(2\)\)"
    ends = "import os, time\nif rank == 1:\n    os.write(2, b'out of paper')\n    os._exit(5)\n"
    with pytest.raises(RankError, match=words) as caught:
        ranks.execute(f"{ends}dist.barrier()\ntime.sleep(600)")
    assert caught.value.rank == 1 and "out of paper" in str(caught.value)
    ranks.stop()
    with pytest.raises(RuntimeError, match="these ranks have been stopped; make new ones"):
        ranks.execute("1")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("victim", "number", "code", "words"),
    [
        ("the controller of the ranks", signal.SIGKILL, "import time; time.sleep(600)", "was killed by signal 9"),
        ("rank 0", signal.SIGKILL, "1", r"was killed by signal 9 \(SIGKILL\) \(all ranks were ended; make"),
        ("rank 1", signal.SIGSTOP, "dist.barrier()", r"\(rank 1 did not react, so all ranks were ended; make"),
    ],
    ids=["controller", "between cells", "cause of its peer's deadline"],
)
def test_who_dies_or_stops_is_named(victim, number, code, words, nothing_left):
    ranks = Ranks(2, "gloo", timeout_s=20)  # also the time in which they start
    os.kill(ranks._cluster._processes[victim].pid, number)
    with pytest.raises(RankError, match=words) as caught:
        ranks.execute(code)
    assert str(caught.value).startswith("rank 0 raised" if number == signal.SIGSTOP else victim)


@pytest.mark.parametrize("end", [subprocess.Popen.kill, *exhaustive(lambda owner: None)], ids=["killed", "by an error"])
def test_the_ranks_end_with_their_owner(end, ends_with_all):
    ends_with_all(OWNER, end)


@pytest.mark.exhaustive
def test_px_in_ipython(tmp_path):
    script = tmp_path / "notebook.py"
    script.write_text(NOTEBOOK)
    environment = {**os.environ, "PYTHONPATH": ".", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, env=environment)
    text = done.stdout
    of_the_cell = [f"rank {rank}: {line}" for rank in (0, 1) for line in ("tensor([3.])", rank)]
    assert text.splitlines()[:6] == [*of_the_cell, "rank 0: 2", "rank 1: 2"]
    for words in (
        "%%px runs a cell on all ranks and was given '--targets 1'",
        "RankError: rank 1 raised ValueError: boo",
        "rank 0: of 1",
        "these ranks have been stopped",
    ):
        assert words in text
    assert "rank 1: only" not in text
    assert "%|" not in done.stderr, "no progress bar"


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((2, "mpi"), {}, "'mpi' is unknown"),
        ((10**9,), {}, "world_size is 1000000000; give a whole number from 1 to"),
        ((2,), {"timeout_s": float("nan")}, "timeout_s is nan; give the longest wait in seconds"),
    ],
)
def test_bad_input(arguments, options, words, nothing_left):
    with pytest.raises(ValueError, match=words):
        Ranks(*arguments, **options)


def test_ranks_that_are_given_too_little_time_leave_nothing(nothing_left):
    with pytest.raises(RankError, match=r"did not start in time; give them more, as in Ranks\(3, timeout_s=300\)"):
        Ranks(3, "gloo", timeout_s=0.1)
