"""What every test of this room may ask for: proof that nothing was left behind."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

import pytest

from pllab.comm import setup, teardown
from pllab.comm.fork_server import warm_server

with suppress(ImportError):  # a GPU machine with only torch, transformers and pytest collects this file too
    import psutil


@pytest.fixture
def alone():
    """A process group of this process alone."""
    setup(0, 1, "gloo")
    yield
    teardown()


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """Fail the test if it leaves a process, a thread or a temporary file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    server = psutil.Process(warm_server().pid)  # it stays, and what it started does not
    before = {*threading.enumerate(), *psutil.Process().children(recursive=True)} - {server}
    yield tmp_path / "temp"
    deadline = time.monotonic() + 10
    while (left := _left(tmp_path / "temp", before, server)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.fixture
def ends_with_all(tmp_path):
    """End a script once two processes have written their numbers into "pids", and see that all it started ends too."""

    def check(text, end):
        script, temp, home = (tmp_path / name for name in ("script.py", "temp", "home"))
        script.write_text(text)
        temp.mkdir()
        home.mkdir()
        owner = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "pids")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": ".", "TMPDIR": str(temp), "HOME": str(home)},
        )
        until = time.monotonic() + 60
        while len(pids := (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []) < 2:
            assert time.monotonic() < until and owner.poll() is None
            time.sleep(0.02)
        family = psutil.Process(owner.pid).children(recursive=True)
        assert {*map(int, pids)} <= {process.pid for process in family}
        end(owner)
        owner.communicate(b"\n", timeout=30)
        _, alive = psutil.wait_procs(family, timeout=10)
        assert not alive
        assert not list(temp.glob("pllab-*"))
        assert not list(home.iterdir()), "nothing belongs in the user's home"

    return check


def _left(temp, before, server):
    """What is there now and was not before: processes, threads and files."""
    running = psutil.Process().children(recursive=True)
    processes = [_words_of(process, before) for process in running if process != server]
    threads = [thread.name for thread in threading.enumerate() if thread not in before]
    return [*filter(None, processes), *threads, *(path.name for path in temp.iterdir())]


def _words_of(process, before):
    """Name and command line; empty for what is not counted.

    That is a process that ends while it is looked at, one of a program that ran before (a browser), and Python's
    resource tracker, which multiprocessing starts once per process and which ends with it.
    """
    try:
        is_known = before & {process, *process.parents()}
        found = process.as_dict(["name", "cmdline"])
    except psutil.NoSuchProcess:
        return ""
    words = " ".join([found["name"], *(found["cmdline"] or ())])
    return "" if is_known or "resource_tracker" in words else words
