"""Warm processes, forked or spares, behave like new ones: a group, a leash, an end that is told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from pllab.comm import fork_server
from pllab.comm.fork_server import ForkServer
from tests.tiers import exhaustive

PROGRAM = """
import os, subprocess, sys, time
from pathlib import Path

def words():
    print(sys.argv[1:], os.getcwd(), os.getpgid(0) == os.getpid(), "numpy" in sys.modules, flush=True)

def surroundings():
    print(*map(os.environ.get, ["LATER", "ADDED", "HOME"]), flush=True)

def has_sched():
    print("sched" in sys.modules, flush=True)

def hashes():
    print(hash("a text"), flush=True)

def leaves():
    sys.exit(5)

def has_no_output():
    sys.stdout.close()
    sys.stdout = None
    sys.stderr.close()

def fails():
    raise KeyError("on purpose")

def leaves_a_child():
    child = subprocess.Popen(["sleep", "1000"])
    Path(sys.argv[1]).write_text(str(child.pid))

def waits():
    leaves_a_child()
    time.sleep(1000)

def writes():  # to what the owner has shared
    for number in sys.argv[2:]:
        os.write(int(number), sys.argv[1].encode())
"""


@pytest.fixture(scope="module", params=[True, *exhaustive(False)], ids=["forked", "spare"])
def forks(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fork_server, "can_fork", lambda: request.param)
        patch.setattr(fork_server, "_NUM_SPARES", 1)
        yield request.param


@pytest.fixture(scope="module")
def server(forks):
    server = ForkServer("numpy")
    yield server
    server.end()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    leashed = tmp_path / "leashed"
    leashed.mkdir()
    return leashed


def written(server, folder, *words, **options):
    """How a child ended, and what it wrote."""
    with (folder / "log").open("w+b") as log:
        code = server.start(folder, *words, log=log, **options).wait(60)
        log.seek(0)
        return code, log.read().decode()


def gone(pid):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_child_has_its_words_its_group_and_the_modules(server, folder):
    assert written(server, folder, "program:words", "a", "b") == (0, f"['a', 'b'] {Path.cwd()} True True\n")


def test_a_child_has_the_environment_of_its_owner_and_what_was_added_later(server, folder, monkeypatch):
    monkeypatch.setenv("LATER", "1")
    monkeypatch.delenv("HOME")
    assert written(server, folder, "program:surroundings", environment={"ADDED": "2"}) == (0, "1 2 None\n")
    server.add("no_such_module", "sched")  # the first is for the child that needs it to report
    monkeypatch.setattr(sys, "path", [*sys.path, Path("a path, not a text")])
    assert written(server, folder, "program:has_sched") == (0, f"{server._forks}\n")


def test_a_seed_decides_how_a_child_hashes(server, folder):
    words, seeded = [sys.executable, "-c", "print(hash('a text'))"], os.environ | {"PYTHONHASHSEED": "7"}
    told = subprocess.check_output(words, env=seeded, text=True)
    assert written(server, folder, "program:hashes", hash_seed="7") == (0, told)


def test_how_it_ended_is_told(server, folder):
    assert server.start(folder, "program:has_no_output").wait(60) == 0
    assert server.start(folder, "program:leaves").wait(60) == 5
    code, text = written(server, folder, "program:fails")
    assert code == 1 and "KeyError: 'on purpose'" in text
    killed = server.start(folder, "program:waits", str(folder / "pid"))
    assert killed.returncode is None
    with pytest.raises(subprocess.TimeoutExpired):
        killed.wait(0.01)
    os.kill(killed.pid, signal.SIGTERM)
    assert killed.wait(60) == killed.returncode == -signal.SIGTERM


def test_what_a_child_started_ends_with_it(server, folder):
    note = folder.parent / "pid"
    assert server.start(folder, "program:leaves_a_child", str(note)).wait(60) == 0
    assert gone(int(note.read_text()))


def test_the_leash_ends_child_grandchildren_and_folder(server, folder):
    note = folder.parent / "pid"
    child = server.start(folder, "program:waits", str(note))
    while not note.exists() or not note.read_text():
        time.sleep(0.02)
    child.stdin.close()
    assert child.wait(60) == -signal.SIGKILL
    assert gone(int(note.read_text()))
    assert not folder.exists()


@pytest.mark.parametrize("hash_seed", ["", "7"])
def test_the_numbers_of_shared_descriptors_are_the_last_arguments(hash_seed, server, folder):
    pipes = [os.pipe() for _ in range(2)]
    shared = [writing for _, writing in pipes]
    assert server.start(folder, "program:writes", "here", pass_fds=shared, hash_seed=hash_seed).wait(60) == 0
    for reading, writing in pipes:
        os.close(writing)
        assert os.read(reading, 100) == b"here"
        os.close(reading)


@pytest.mark.parametrize(("number", "words"), [(signal.SIGKILL, "has ended"), (signal.SIGSTOP, "did not answer")])
def test_a_server_that_cannot_start_children_says_so_and_is_ended(number, words, forks, folder, monkeypatch):
    if not forks:
        pytest.skip("who talks to a spare notices")
    server = ForkServer()
    written(server, folder, "program:words")
    monkeypatch.setattr("pllab.comm.fork_server._START_S", 0.2)
    os.kill(server.pid, number)
    with pytest.raises(RuntimeError, match=f"{words}; start them again"):
        server.start(folder, "program:words")
    assert number == signal.SIGKILL or not server.is_alive
    server.end()


def test_an_interrupted_start_leaves_nothing_and_the_next_one_works(server, folder, forks, monkeypatch):
    first, note = server.pid, folder.parent / "pid"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(fork_server, "_heard" if forks else "_hand_over", Mock(side_effect=KeyboardInterrupt))
        server.start(folder, "program:waits", str(note))
    assert server.start(folder, "program:leaves").wait(60) == 5
    time.sleep(0.5)  # the first was forked before, and would have written
    number = note.read_text() if note.exists() else ""  # an empty file: it was ended while it wrote
    assert not number or gone(int(number))
    assert forks or gone(first)


def test_a_server_that_still_imports_removes_the_folder_of_an_owner_that_is_gone(forks, folder):
    if not forks:
        pytest.skip("a spare reads its order after the imports")
    begun = folder.parent / "begun"
    (folder.parent / "slow.py").write_text(f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(1000)")
    words = (
        "import sys\nfrom pathlib import Path\nfrom pllab.comm.fork_server import ForkServer\n"
        "sys.path.append(str(Path(sys.argv[1]).parent))\n"
        "ForkServer('slow').start(Path(sys.argv[1]), 'program:leaves')"
    )
    owner = subprocess.Popen([sys.executable, "-c", words, str(folder)])
    while not begun.exists():
        assert owner.poll() is None
        time.sleep(0.02)
    owner.kill()
    owner.wait()
    until = time.monotonic() + 10
    while folder.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
