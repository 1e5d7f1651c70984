"""What holds for every test."""

import multiprocessing
import signal
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture(scope="session")
def prepared_server() -> Iterator[multiprocessing.context.BaseContext]:
    """A server that has imported what ranks need and has computed nothing; it ends with the session."""
    import pllab.comm  # noqa: F401 - its modules have to be loaded

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "transformers", "pllab.lesson.on_ranks"])
    yield context
    forkserver._forkserver._stop()


@pytest.fixture
def quick_ranks(prepared_server: multiprocessing.context.BaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """`launch` takes its processes from the server: 0.2 s each instead of 4 s, and all else as it is.

    For tests of what ranks do; what starts and ends them is tested in `tests/comm` as it is.
    """
    module = sys.modules["pllab.comm.launch"]  # `pllab.comm.launch` itself names the function
    shim = SimpleNamespace(get_context=lambda _: prepared_server, current_process=multiprocessing.current_process)
    monkeypatch.setattr(module, "mp", shim)
