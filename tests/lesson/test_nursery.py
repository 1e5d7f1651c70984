"""Processes forked from a prepared one behave like new ones: a group, a leash, an end that is told."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from pllab.lesson.nursery import Nursery

PROGRAM = """
import os, subprocess, sys, time
from pathlib import Path

def words():
    print(sys.argv[1:], os.getcwd(), os.getpgid(0) == os.getpid(), "torch" in sys.modules, flush=True)

def leaves():
    sys.exit(5)

def fails():
    raise KeyError("on purpose")

def waits():
    child = subprocess.Popen(["sleep", "1000"])
    Path(sys.argv[1]).write_text(str(child.pid))
    time.sleep(1000)

def leaves_a_child():
    child = subprocess.Popen(["sleep", "1000"])
    Path(sys.argv[1]).write_text(str(child.pid))

def writes_to(): # what the owner has open under this number
    os.write(int(sys.argv[1]), b"here")
"""


@pytest.fixture(scope="module")
def nursery():
    nursery = Nursery("torch")
    yield nursery
    nursery.end()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    monkeypatch.syspath_prepend(tmp_path)
    leashed = tmp_path / "leashed"
    leashed.mkdir()
    return leashed


def gone(pid):
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_child_has_its_words_its_group_and_the_modules(nursery, folder):
    log = folder / "log"
    assert nursery.start(folder, "program:words", "a", "b", log=log).wait(60) == 0
    assert log.read_text() == f"['a', 'b'] {Path.cwd()} True True\n"


def test_how_it_ended_is_told(nursery, folder):
    assert nursery.start(folder, "program:leaves").wait(60) == 5
    failing = nursery.start(folder, "program:fails", log=folder / "log")
    assert failing.wait(60) == 1
    assert "KeyError: 'on purpose'" in (folder / "log").read_text()
    killed = nursery.start(folder, "program:waits", str(folder / "pid"))
    assert killed.returncode is None
    with pytest.raises(subprocess.TimeoutExpired):
        killed.wait(0.01)
    os.kill(killed.pid, signal.SIGTERM)
    assert killed.wait(60) == killed.returncode == -signal.SIGTERM


def test_what_a_child_started_ends_with_it(nursery, folder):
    note = folder.parent / "pid"
    assert nursery.start(folder, "program:leaves_a_child", str(note)).wait(60) == 0
    assert gone(int(note.read_text()))


def test_the_leash_ends_child_grandchildren_and_folder(nursery, folder):
    note = folder.parent / "pid"
    child = nursery.start(folder, "program:waits", str(note))
    while not note.exists() or not note.read_text():
        time.sleep(0.02)
    child.stdin.close()
    assert child.wait(60) == -signal.SIGKILL
    assert gone(int(note.read_text()))
    assert not folder.exists()


@pytest.mark.parametrize("number", [None, *range(99, 104)])
def test_descriptors_keep_their_numbers(nursery, folder, number):
    """An owner with many open files, such as a kernel, gives high ones."""
    reading, writing = os.pipe()
    if number is not None:
        os.dup2(writing, number)
        os.close(writing)
        writing = number
    child = nursery.start(folder, "program:writes_to", str(writing), pass_fds=[writing])
    os.close(writing)
    assert child.wait(60) == 0
    assert os.read(reading, 10) == b"here"
    os.close(reading)


def test_a_nursery_that_has_ended_says_so(folder):
    nursery = Nursery()
    nursery.start(folder, "program:words", log=folder / "log").wait(60)
    nursery._process.kill()
    nursery._process.wait()
    assert not nursery.is_alive
    with pytest.raises(RuntimeError, match="has ended; run the cell again"):
        nursery.start(folder, "program:words")
    nursery.end()


def test_it_ends_with_its_owner(tmp_path):
    words = "import sys; from pllab.lesson.nursery import Nursery; print(Nursery()._process.pid, flush=True); input()"
    owner = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    number = int(owner.stdout.readline())
    owner.kill()
    owner.communicate()
    assert gone(number)
