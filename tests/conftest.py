"""What holds for every test."""

import multiprocessing
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import pytest


def pytest_configure() -> None:
    """Let tests interrupt the programs they start, also when the tests run as a shell's background job."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `-m cuda` read only the files with such tests: a GPU machine may have nothing but torch and pytest."""
    if config.option.markexpr != "cuda":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.cuda" in file.read_text() for file in files) else True


class Forked:
    """A rank forked from the prepared server, with what `launch` asks of a child process."""

    stdin = None

    def __init__(self, context: Any, folder: Path, number: int, connection: Any) -> None:
        from pllab.comm.launching import live

        self._process = context.Process(target=live, args=(folder, number, connection), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        self.kill = self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a rank", timeout or 0.0)
        return self._process.exitcode


@pytest.fixture(scope="session")
def prepared_server() -> Iterator[BaseContext]:
    """A server that has imported what ranks need and has computed nothing; it ends with the session."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch", "torch.distributed", "torch.distributed.pipelining", "pllab.lesson.checking", "pllab.train"]
    )
    yield context
    forkserver._forkserver._stop()


@pytest.fixture(scope="session")
def start_quickly(prepared_server: BaseContext) -> Callable[[Path, int, Any], Forked]:
    """Start a rank from the server, in 0.2 s instead of 4 s; takes the place of `pllab.comm.launching.start_rank`."""
    return partial(Forked, prepared_server)


@pytest.fixture
def quick_ranks(start_quickly: Callable[[Path, int, Any], Forked], monkeypatch: pytest.MonkeyPatch) -> None:
    """`launch` takes its processes from the server, and all else is as it is.

    For tests of what ranks do; what starts and ends them is tested in `tests/comm` as it is.
    """
    monkeypatch.setattr("pllab.comm.launching.start_rank", start_quickly)
