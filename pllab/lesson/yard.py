"""A fenced place for one solution: a nursery of its own, a scratch folder, and a watch over what it takes.

    the owner's nursery          imports once, runs no foreign code
      nursery of the yard        a fork of it, behind the fence; each process of the solution is below it
        process of a check
        its ranks

When the yard ends, all that was below it ends and the folder goes. No process serves two yards.
"""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from pllab.lesson.fence import Ground
from pllab.lesson.nursery import Nursery

_LOOK_S = 0.05
_LEAVE_S = 10.0
_THREADS_EACH = 50
_SIZES = ("RssAnon:", "RssShmem:")  # what a process has of its own, without files


@dataclass(frozen=True)
class Limits:
    """What one solution may take.

    memory_bytes: of all its processes together.
    num_processes: at the same time; a rank counts twice, because the nursery waits for each in a process.
    timeout_s: for all cases together; None is the exercise's own deadline.
    """

    memory_bytes: int = 4 << 30
    num_processes: int = 40
    timeout_s: float | None = None


class Yard:
    """One solution's place, as a context.

    Example:
        with Yard(nursery, Limits()) as yard:
            child = yard.nursery.start(yard.report, "my_module:main")
            child.wait(20.0)
        yard.breach    # "took more than 4 GiB of memory", or empty

    parent: the owner's nursery, which has imported what is needed.
    """

    def __init__(self, parent: Nursery, limits: Limits) -> None:
        self.breach = ""
        self._parent, self._limits = parent, limits
        self._seen: dict[int, int] = {}  # each process with its start time: numbers are used again
        self._over = threading.Event()

    def __enter__(self) -> "Yard":
        self._folder = Path(tempfile.mkdtemp(dir=self._parent.folder, prefix="yard-")).resolve()
        for name in ("home", "tmp", "work", "report"):
            (self._folder / name).mkdir()
        ground = json.dumps(asdict(Ground(str(self._folder), self._limits.memory_bytes)))
        self.nursery = Nursery(ground, entry="pllab.lesson.fence:serve_yard", start=self._parent.start)
        self._watcher = threading.Thread(target=self._watch, name="pllab-yard", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()
        self.sweep()
        self.nursery.end()
        self._end_seen()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def report(self) -> Path:
        """The folder for what its processes and the owner write to each other."""
        return self._folder / "report"

    @property
    def scratch(self) -> Path:
        """A folder in which both sides may write; nothing in it is believed."""
        return self._folder / "tmp"

    def sweep(self) -> None:
        """End every process of the yard but its nursery."""
        until = time.monotonic() + _LEAVE_S
        while (pids := self._below()) and time.monotonic() < until:
            for pid in pids:
                _kill(pid)
            time.sleep(0.005)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if words := self._too_much(self._below()):
                self.breach = self.breach or words
                self.sweep()

    def _too_much(self, pids: list[int]) -> str:
        if len(pids) > self._limits.num_processes:
            return f"started more than {self._limits.num_processes} processes"
        sizes = [dict(_status_of(pid)) for pid in pids]
        if sum(size.get("Threads:", 0) for size in sizes) > _THREADS_EACH * self._limits.num_processes:
            return f"started more than {_THREADS_EACH * self._limits.num_processes} threads"
        shared = _own_kib(dict(_status_of(self.nursery.pid)))  # what it imported, each fork has too
        if sum(max(0, _own_kib(size) - shared) for size in sizes) * 1024 > self._limits.memory_bytes:
            return f"took more than {self._limits.memory_bytes / (1 << 30):g} GiB of memory"
        return ""

    def _below(self) -> list[int]:
        """The living processes under the nursery, also those whose parents have left."""
        found, waiting = list[int](), [self.nursery.pid]
        while waiting:
            for child in _children_of(waiting.pop()):
                if (began := _start_of(child)) is not None:
                    self._seen[child] = began
                    waiting.append(child)
                    found.append(child)
        return found

    def _end_seen(self) -> None:
        """End what got out from under the nursery, should it have died."""
        for pid, began in self._seen.items():
            if _start_of(pid) == began:
                _kill(pid)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _children_of(pid: int) -> Iterator[int]:
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, file.read_text().split())


def _start_of(pid: int) -> int | None:
    """When a living process began, in ticks; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _own_kib(status: dict[str, int]) -> int:
    return sum(status.get(name, 0) for name in _SIZES)


def _status_of(pid: int) -> Iterator[tuple[str, int]]:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            name, *words = line.split()
            if name == "Threads:" or name in _SIZES:
                yield name, int(words[0])
