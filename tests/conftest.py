"""What holds for every test."""

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LONGEST = {"test_pretend_gpu.py", "test_layouts.py", "test_lessons_on_gpus.py", "test_grading.py", "test_faults.py"}


def pytest_configure() -> None:
    """Let tests interrupt the programs they start, also when the tests run as a shell's background job."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(ImportError):  # a GPU machine may read these tests without it
        from hypothesis import settings

        settings.register_profile("pllab", deadline=None)  # no test asserts seconds
        settings.load_profile("pllab")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `-m cuda` read only the files with such tests: a GPU machine may have nothing but torch and pytest."""
    if config.option.markexpr != "cuda":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.cuda" in file.read_text() for file in files) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file stays in one worker, for what its tests share; long tests and those of each exercise go where room is.

    The longest come first, so that no worker waits for them at the end.
    """
    if not config.pluginmanager.hasplugin("xdist"):  # a GPU machine may have nothing but torch and pytest
        return
    for item in items:
        shared = not (hasattr(item, "callspec") and "exercise" in item.callspec.params)
        if item.get_closest_marker("exhaustive"):
            shared = "chromium" in item.fixturenames and "own_page" not in item.fixturenames
        if shared:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
    items.sort(key=lambda item: Path(item.location[0]).name not in LONGEST)


@pytest.fixture(scope="session")
def start_quickly() -> Iterator[Callable[..., Any]]:
    """Start a process from one that has imported what ranks need; takes the place of `processes.start_child`."""
    from pllab.lesson.fork_server import ForkServer  # a GPU machine may read these tests without it

    modules = ["torch", "torch.distributed", "torch.distributed.pipelining", "pllab.lesson.answering", "pllab.train"]
    modules += ["pllab.models.gpt2", "pllab.models.slices"]  # which the trainer imports when it makes a model
    server = ForkServer(*modules)
    yield server.start
    server.end()


@pytest.fixture
def quick_ranks(start_quickly: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """`launch` takes its processes from there, in 0.1 s instead of 4 s, and all else is as it is.

    For tests of what ranks do; what starts and ends them is tested in `tests/comm` as it is.
    """
    monkeypatch.setattr("pllab.comm.launching.start_child", start_quickly)


@pytest.fixture(autouse=True, scope="module")
def _home_of_a_learner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What checks keep, they keep in a folder of these tests; notebooks of the same worker have another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLLAB_HOME", str(tmp_path_factory.mktemp("home")))
        yield
