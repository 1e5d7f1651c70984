"""What every test of this room may ask for: proof that nothing was left behind."""

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
