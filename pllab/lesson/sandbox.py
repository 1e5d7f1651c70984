"""Where handed-in code runs: behind bubblewrap, with limits, and watched.

    grade                outside; it opens nothing that the sandbox wrote by its name to write
      bubblewrap         processes, network, and shared memory of its own; it reads all files and writes in one folder
        nursery          imports once
          extraction, answering, its ranks

A system call that leads out fails, whatever language makes it. When a sandbox ends, all that ran in it ends with its
first process, its shared memory goes with it, and then its folder. A container is such a wall itself: there the
same runs without bubblewrap, `fenced=False`.
"""

import os
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from pllab.lesson.checking import PRELOADED
from pllab.lesson.nursery import Nursery

_LOOK_S = 0.1
_SLACK_BYTES = 12 << 30  # address space that torch and its threads map and never use
_MOST_FILE_BYTES = 256 << 20
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")  # of the owner's variables
_WALL = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL"),  # root would keep the right to mount, and mount its way out
    *("--ro-bind", "/", "/", "--dev", "/dev"),
)


@dataclass(frozen=True)
class Limits:
    """What one solution may take.

    memory_bytes: of all its processes together.
    num_processes: at the same time; a rank counts twice, because the nursery waits for each in a process.
    timeout_s: for all cases together; None is the exercise's own deadline.
    fenced: behind bubblewrap.
    """

    memory_bytes: int = 4 << 30
    num_processes: int = 40
    timeout_s: float | None = None
    fenced: bool = True


def require_bubblewrap() -> None:
    """Start nothing behind bubblewrap, to see whether it can.

    Raises:
        RuntimeError: it is not installed, or this system lets nobody make namespaces.
    """
    try:
        told = subprocess.run([*_WALL, "true"], capture_output=True, text=True, timeout=30, check=False)
        problem = told.stderr.strip() if told.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise RuntimeError(
            f"grade runs handed-in code behind bubblewrap, which does not start here ({problem}); "
            "install bubblewrap, or pass --unfenced inside a container that has nothing to lose"
        )


class Sandbox:
    """One submission's place, as a context; a nursery that has ended is followed by a new one.

    Example:
        with Sandbox(Limits()) as sandbox:
            child = sandbox.nursery().start(sandbox.scratch, "my_module:main")
            child.wait(20.0)
        sandbox.breach    # "took more than 4 GiB of memory", or empty
    """

    def __init__(self, limits: Limits) -> None:
        self.breach = ""
        self._limits = limits
        self._nursery: Nursery | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="pllab-sandbox-", ignore_cleanup_errors=True)
        self.scratch.mkdir()
        self._watcher = threading.Thread(target=self._watch, name="pllab-sandbox", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()
        self._end()
        self._folder.cleanup()

    @property
    def scratch(self) -> Path:
        """A folder in which both sides may write; nothing in it is believed."""
        return Path(self._folder.name).resolve() / "tmp"

    def nursery(self) -> Nursery:
        """What starts processes here."""
        if self._nursery is None or not self._nursery.is_alive:
            self._end()
            home = Path(self._folder.name).resolve()
            self._nursery = Nursery(*PRELOADED, "pllab.lesson.extraction", home=home, within=self._command(home))
        return self._nursery

    def _command(self, home: Path) -> list[str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"HOME": home, "PLLAB_HOME": home, "TMPDIR": self.scratch, "PYTHONDONTWRITEBYTECODE": 1}
        memory = self._limits.memory_bytes
        command = ["env", "--ignore-environment", *(f"{name}={value}" for name, value in {**kept, **own}.items())]
        command += ["prlimit", f"--as={memory + _SLACK_BYTES}", f"--fsize={_MOST_FILE_BYTES}", "--core=0"]
        if not self._limits.fenced:
            return command
        wall = [*_WALL, "--proc", "/proc", "--tmpfs", "/run", "--size", str(memory), "--tmpfs", "/dev/shm"]
        return [*command, *wall, "--bind", str(home), str(home)]

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if (nursery := self._nursery) is not None and (words := self._too_much(nursery)):
                self.breach = self.breach or words
                _kill(nursery)

    def _end(self) -> None:
        if self._nursery is not None:
            _kill(self._nursery)
            self._nursery.end()

    def _too_much(self, nursery: Nursery) -> str:
        processes = _below(nursery)
        if len(processes) > self._limits.num_processes:
            return f"started more than {self._limits.num_processes} processes"
        sizes = [size for process in processes if (size := _own_bytes(process))]
        if sum(max(0, size - sizes[0]) for size in sizes) > self._limits.memory_bytes:  # what was imported, forks share
            return f"took more than {self._limits.memory_bytes / (1 << 30):g} GiB of memory"
        return ""


def _below(nursery: Nursery) -> list[psutil.Process]:
    """The nursery's Python and the living processes under it, also those whose parents have left."""
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(nursery.pid)
        return [process for process in (first, *first.children(recursive=True)) if _name_of(process) != "bwrap"]
    return []


def _name_of(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return "bwrap"  # it has left


def _own_bytes(process: psutil.Process) -> int:
    """What a process holds besides files."""
    with suppress(psutil.NoSuchProcess):
        held = process.memory_info()
        return held.rss - held.shared
    return 0


def _kill(nursery: Nursery) -> None:
    """End all that runs there; behind bubblewrap the end of the first process is everybody's."""
    for process in _below(nursery):
        with suppress(psutil.NoSuchProcess):
            process.kill()
