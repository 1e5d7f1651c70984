"""Where handed-in code runs: behind bubblewrap, with limits, and watched.

    grade                outside; it opens nothing that the sandbox wrote by its name to write
      bubblewrap         processes, network, and shared memory of its own; it writes in one folder, and of homes,
                         temporary files, sockets and hand-ins it sees only what this Python needs
        fork server      imports once
          answering, its ranks

A system call that leads out fails, whatever language makes it. When a sandbox ends, all that ran in it ends with its
first process, its shared memory goes with it, and then its folder: nothing of an exercise is left for the next. A
container is such a wall itself: there the same runs without bubblewrap, `fenced=False`.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from pllab.comm.fork_server import ForkServer
from pllab.lesson.checking import PRELOADED

_LOOK_S = 0.1
_REMOVE_S = 300.0
_THREADS_EACH = 100  # more than a rank on a machine with many cores has
_SLACK_BYTES = 12 << 30  # address space that torch and its threads map and never use
_MOST_FILE_BYTES = 256 << 20
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")  # of the owner's variables
_HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp")
_WALL = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL"),  # root would keep the right to mount, and mount its way out
    *("--ro-bind", "/", "/", "--dev", "/dev"),
)


@dataclass(frozen=True)
class Limits:
    """What one solution may take.

    memory_bytes: of all its processes together.
    num_processes: at the same time; a rank counts twice, because the fork server waits for each in a process.
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
    """The place of one exercise of a submission, as a context; `server` starts processes there.

    Both sides may write in the folder `scratch`; nothing in it is trusted.

    Example:
        with Sandbox(Limits()) as sandbox:
            child = sandbox.server.start(sandbox.scratch, "my_module:main")
            child.wait(20.0)
        sandbox.breach    # "took more than 4 GiB of memory", or empty

    hidden: folders that nobody there sees, besides the owner's.
    """

    def __init__(self, limits: Limits, hidden: Iterable[Path] = ()) -> None:
        self.breach = ""
        self._limits, self._hidden = limits, hidden
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._home = Path(tempfile.mkdtemp(prefix="pllab-sandbox-")).resolve()
        self.scratch = self._home / "tmp"
        self.scratch.mkdir()
        try:
            self.server = ForkServer(*PRELOADED, home=self._home, within=self._command())
        except BaseException:
            _remove(self._home)
            raise
        self._watcher = threading.Thread(target=self._watch, name="pllab-sandbox", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        self._kill()
        self.server.end()
        _remove(self._home)

    def _command(self) -> list[str]:
        home = self._home
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"HOME": home, "PLLAB_HOME": home, "TMPDIR": self.scratch, "PYTHONDONTWRITEBYTECODE": 1}
        memory = self._limits.memory_bytes
        command = ["env", "--ignore-environment", *(f"{name}={value}" for name, value in {**kept, **own}.items())]
        command += ["prlimit", f"--as={memory + _SLACK_BYTES}", f"--fsize={_MOST_FILE_BYTES}", "--core=0"]
        if not self._limits.fenced:
            return command
        hidden = _hidden(self._hidden)
        wall = [*_WALL, "--proc", "/proc", "--size", str(memory), "--tmpfs", "/dev/shm", *_view(hidden)]
        wall += [word for place in (str(home), str(self.scratch)) for word in ("--bind", place, place)]  # tmp stays put
        return [*command, *wall, *(word for place in ("/dev", *hidden) for word in ("--remount-ro", str(place)))]

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if words := self._too_much():
                self.breach = words
                self._kill()

    def _kill(self) -> None:
        """End everything that runs there; behind bubblewrap the end of the first process ends all."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _too_much(self) -> str:
        processes = self._processes()[2 if self._limits.fenced else 0 :]  # bubblewrap's own; a name could be anybody's
        if len(processes) > self._limits.num_processes:
            return f"started more than {self._limits.num_processes} processes"
        held = [_held(process) for process in processes]
        if sum(threads for threads, _ in held) > _THREADS_EACH * self._limits.num_processes:
            return f"started more than {_THREADS_EACH * self._limits.num_processes} threads"
        sizes = [size for _, size in held if size]
        if sum(max(0, size - sizes[0]) for size in sizes) > self._limits.memory_bytes:  # what was imported, forks share
            return f"took more than {self._limits.memory_bytes / (1 << 30):g} GiB of memory"
        return ""

    def _processes(self) -> list[psutil.Process]:
        """The first process, and the living ones under it, also those whose parents have left."""
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.server.pid)
            return [first, *first.children(recursive=True)]
        return []


def _hidden(more: Iterable[Path]) -> list[Path]:
    """The folders that look empty inside the sandbox."""
    places = {Path(place).resolve() for place in (*_HIDDEN, tempfile.gettempdir(), str(Path.home()), *map(str, more))}
    return sorted(place for place in places if place.is_dir() and place.name)


def _view(hidden: Sequence[Path]) -> list[str]:
    """The arguments that empty these folders and put back what this Python needs; a folder comes before those in it."""
    words: dict[Path, tuple[str, ...]] = {place: ("--tmpfs", str(place)) for place in hidden}
    last = Path(os.devnull)
    for path in sorted({path for needed in _needed() for path in _led_to(needed)}):
        if not path.is_relative_to(last) and any(path.is_relative_to(place) for place in hidden):
            last = path
            link = ("--symlink", str(path.readlink())) if path.is_symlink() else ("--ro-bind", str(path))
            words[path] = (*link, str(path))
    return [word for _, some in sorted(words.items()) for word in some]


def _needed() -> Iterator[Path]:
    """The paths of this Python, its packages and everything else on its import path."""
    places = [sys.executable, sys.prefix, sys.base_prefix]
    places += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    places += [place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")]
    for name, module in list(sys.modules.items()):
        if "." not in name:
            places += getattr(module, "__path__", None) or [getattr(module, "__file__", None) or ""]
    yield from (Path(place).absolute() for place in places if os.access(place, os.F_OK))


def _led_to(path: Path) -> Iterator[Path]:
    """The links on the way to a path, and its end, to which no link leads."""
    for place in (*reversed(path.parents), path):
        if place.is_symlink():
            yield place
            beyond = place.parent / place.readlink() / path.relative_to(place)
            yield from _led_to(Path(os.path.normpath(beyond)))
            return
    yield path


def _held(process: psutil.Process) -> tuple[int, int]:
    """How many threads a process has, and the bytes that it holds besides files."""
    with suppress(OSError):
        status = Path(f"/proc/{process.pid}/status").read_text(errors="replace")
        found = re.findall(r"^(Threads|RssAnon|RssShmem):\s+(\d+)", status, re.MULTILINE)
        numbers = {name: int(number) for name, number in found}
        return numbers.get("Threads", 0), (numbers.get("RssAnon", 0) + numbers.get("RssShmem", 0)) << 10
    return 0, 0


def _remove(folder: Path) -> None:
    """Remove what foreign code left; `rmtree` gives up on a deep folder, and might change the mode of a link target."""
    for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([*command, str(folder)], capture_output=True, timeout=_REMOVE_S, check=False)
