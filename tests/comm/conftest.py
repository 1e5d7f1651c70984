"""What every test of this room may ask for: proof that nothing was left behind."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing import resource_tracker

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
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    resource_tracker.ensure_running()  # multiprocessing starts it once, and it ends with this process
    server = psutil.Process(warm_server().pid)  # it stays, and what it started does not

    def there():
        return {*threading.enumerate(), *psutil.Process().children(), *server.children(recursive=True), *temp.iterdir()}

    before = there()
    yield
    deadline = time.monotonic() + 10
    while there() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not there() - before


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
