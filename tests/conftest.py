"""What holds for every test."""

import gc
import shutil
import signal
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LONG = {  # of these files each test is long and shares nothing with the others
    "test_pretend_gpu.py",
    "test_layouts.py",
    "test_lessons_on_gpus.py",
    "test_lessons.py",
    "test_grading.py",
    "test_faults.py",
    "test_clinic.py",
    "test_exercises.py",
    "test_scale.py",
    "test_readme.py",
}


def pytest_configure() -> None:
    """Let tests interrupt the programs they start, also when the tests run as a shell's background job."""
    gc.disable()  # while the tests are read, with torch and transformers
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(ImportError):  # a GPU machine may read these tests without it
        from hypothesis import settings

        settings.register_profile("pllab", deadline=None)  # no test asserts seconds
        settings.load_profile("pllab")
    with suppress(ImportError):
        _let_kernels_listen_on_files()


def _let_kernels_listen_on_files() -> None:
    """Kernels started here listen on sockets in the file system.

    A TCP port is chosen by the manager and bound by the kernel half a second later; ranks of other tests take one in
    between now and then ("Address already in use").
    """
    from jupyter_client.manager import KernelManager

    as_it_was = KernelManager.__init__

    def initialize(self: KernelManager, *arguments: Any, **options: Any) -> None:
        folder = tempfile.mkdtemp(prefix="kernel-")  # of its own: by default the name is relative to two folders
        as_it_was(self, *arguments, **{"transport": "ipc", "ip": f"{folder}/socket", **options})
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    KernelManager.__init__ = initialize


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `-m cuda` read only the files with such tests: a GPU machine may have nothing but torch and pytest."""
    if config.option.markexpr != "cuda":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.cuda" in file.read_text() for file in files) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no worker has to wait for it at the end."""
    items.sort(key=lambda item: (item.path.name not in LONG, item.path.suffix != ".ipynb"))


def pytest_collection_finish() -> None:
    """No collection of garbage looks at what was imported, which takes a fifth of a second each time."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Nor does the one at the end of Python."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # a GPU machine may have nothing but torch and pytest
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file stays in one worker, for what its tests share; long tests that share nothing go where room is."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if Path(file).name in LONG else file

    return ByFile(config, log)


@pytest.fixture(autouse=True, scope="module")
def _home_of_a_learner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What checks keep, they keep in a folder of these tests; notebooks of the same worker have another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLLAB_HOME", str(tmp_path_factory.mktemp("home")))
        yield
