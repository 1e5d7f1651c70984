"""What every test of this room may ask for: proof that nothing was left behind."""

import os
import subprocess
import sys
import tempfile
import threading
import time

import pytest


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """Fail the test if it leaves a process, a thread or a temporary file."""
    import psutil  # a GPU machine with only torch, transformers and pytest collects this file too

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    before = {*threading.enumerate(), *psutil.Process().children(recursive=True)}
    yield tmp_path / "temp"
    deadline = time.monotonic() + 10
    while (left := _left(psutil, tmp_path / "temp", before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.fixture
def ends_with_all(tmp_path):
    """End a script once two processes have written their numbers into "pids", and see that all it started ends too."""
    import psutil

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


def _left(psutil, temp, before):
    """Python's resource tracker is started once per process by multiprocessing and ends with it: not counted."""
    children = [
        _command(process)
        for process in psutil.Process().children(recursive=True)
        if process not in before and process.is_running() and not _is_anothers(psutil, process, before)
    ]
    alive = [thread.name for thread in threading.enumerate() if thread not in before]
    return [*children, *alive, *(path.name for path in temp.iterdir())]


def _is_anothers(psutil, process, before):
    """Whether it belongs to Python's resource tracker, or to a program that ran before the test (a browser)."""
    try:
        return "resource_tracker" in _command(process) or any(parent in before for parent in process.parents())
    except psutil.Error:
        return False


def _command(process):
    """The command line; a process that ends while it is looked at has an empty one."""
    try:
        return " ".join(process.cmdline())
    except Exception:
        return ""
