"""Quick ranks for hundreds of solutions: each is a process of its own, forked from one that has imported torch."""

import multiprocessing
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from types import SimpleNamespace

import pytest

import pllab.comm  # noqa: F401 - its modules have to be loaded


@pytest.fixture(scope="session")
def prepared_server() -> Iterator[multiprocessing.context.BaseContext]:
    """A server that has imported what ranks need and has computed nothing; it ends with the session."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed", "transformers", "pllab.lesson.on_ranks"])
    yield context
    forkserver._forkserver._stop()


@pytest.fixture(autouse=True)
def quick_ranks(prepared_server: multiprocessing.context.BaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """`launch` takes its processes from the server: 0.2 s each instead of 4 s, and all else as it is."""
    module = sys.modules["pllab.comm.launch"]  # `pllab.comm.launch` itself names the function
    shim = SimpleNamespace(get_context=lambda _: prepared_server, current_process=multiprocessing.current_process)
    monkeypatch.setattr(module, "mp", shim)
