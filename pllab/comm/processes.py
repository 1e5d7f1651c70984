"""Child processes that cannot outlive their owner: both ends of a leash, for `launch` and for `Ranks`.

The leash is a pipe: the owner holds one end, the other is the child's standard input. When the owner ends, even by
SIGKILL, the pipe closes. Then the child removes the owner's temporary folder and ends, with all processes it started.

A child runs this file by its path, before anything else. So the file needs only the standard library: the child is
on its leash before it imports torch, which takes seconds.
"""

import atexit
import faulthandler
import gc
import importlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_LEAVE_S = 10.0  # how long the system may take to end a killed process
END_OF_FOLDER = "\0"  # an owner may also write folders to remove on the leash, each with this at its end
_on_byte: list[Callable[[bytes], None]] = []  # in a child: called with each byte that the owner writes on the leash


class Child:
    """A child process that leads a process group: a new Python process, or one that a fork server made.

    end: waits so many seconds for its end, ends what it started and left behind, and returns the exit code; raises
        `subprocess.TimeoutExpired`.
    """

    def __init__(self, pid: int, stdin: IO[bytes], end: Callable[[float | None], int]) -> None:
        self.pid, self.stdin, self._end = pid, stdin, end
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs; never waits."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.returncode is None:
            self.returncode = self._end(timeout)
        return self.returncode

    def kill(self) -> None:
        """End it with all that it started; only while it runs, because process numbers are reused."""
        if self.poll() is None and self.pid > 0:
            _end_group(self.pid)


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def start_child(
    folder: Path,
    entry: str,
    *arguments: str,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    within: Sequence[str] = (),
) -> Child:
    """Start a process on a leash that calls the function `entry` with `sys.argv[1:]` set to the arguments.

    Example: `start_child(folder, "ipyparallel.controller.app:main", "--ip=127.0.0.1")`.

    Args:
        folder: the owner's temporary folder, which the child removes when the owner is gone.
        entry: module and function, as in an entry point.
        arguments: the rest of `sys.argv` for the function.
        log: the open file for its output; by default it goes where the owner's goes.
        environment: variables in addition to the owner's environment.
        pass_fds: file descriptors that it shares with the owner; their numbers there are the last arguments.
        within: a command that runs the child's own, such as bubblewrap's.
    """
    process = subprocess.Popen(
        [*within, *command(folder, sys.path, entry, *arguments, *map(str, pass_fds))],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log and subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        pass_fds=pass_fds,
        start_new_session=True,
    )
    assert process.stdin is not None, "it is a pipe"

    def end(timeout: float | None) -> int:
        code = process.wait(timeout)
        _end_group(process.pid)  # just ended, so its number is not another's yet
        return code

    return Child(process.pid, process.stdin, end)


def command(folder: Path | str, path: Sequence[str], entry: str, *arguments: str) -> list[str]:
    """The arguments of `start_child`'s command; `path` is the child's `sys.path`."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    places = json.dumps([str(place) for place in path])
    return [sys.executable, *flags, "-P", __file__, str(folder), places, entry, *arguments]


def end_with_parent() -> None:
    """End this process soon after the one that started it, like a rank whose torchrun agent was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def end_children(children: Sequence[Child]) -> None:
    """End these processes and everything they started; those that have already ended are skipped."""
    for child in children:
        if child.returncode is None:
            child.kill()
    for child in children:
        with suppress(OSError):
            child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LEAVE_S)


def how_it_ended(exit_code: int | None) -> str:
    """The end of a process in words: `was killed by signal 9 (SIGKILL)` for -9, `ended with exit code 3` for 3."""
    if exit_code is None or exit_code >= 0:
        return f"ended with exit code {exit_code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by signal {-exit_code} ({names.get(-exit_code, 'unknown')})"


def is_starved(pid: int, wall_s: float) -> bool:
    """Whether a process could run but got less than half a core in `wall_s` seconds: other programs have the machine.

    A process that waits is not starved, nor is one that computed all the time; False if /proc does not tell.
    """
    runnable = 0
    for _ in range(5):
        states = [fields[0] for fields in _fields_of_threads(pid)]
        runnable += "R" in states
        time.sleep(0.02)
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in _fields_of_threads(pid))
    return runnable >= 3 and ticks / os.sysconf("SC_CLK_TCK") < wall_s / 2


def _fields_of_threads(pid: int) -> list[list[str]]:
    """What /proc says of each thread, from its state on."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            found.append(path.read_text().rpartition(")")[2].split())
    return found


def stack_of(pid: int, stack_file: Path) -> str:
    """The stack of a child's main thread, as `answer_with_stack` writes it, even when the child hangs."""
    if pid <= 0 or not stack_file.exists():
        return "  (it had not started yet)"
    with suppress(ProcessLookupError):  # it may have ended a moment ago
        os.kill(pid, signal.SIGUSR1)
    until = time.monotonic() + 1.0
    while time.monotonic() < until and not text_of(stack_file):
        time.sleep(0.02)
    time.sleep(0.05)
    words = "\n".join(text_of(stack_file).splitlines()[1:])
    return words or "  (it did not answer; SIGSTOP or Ctrl-Z may have stopped it)"


def text_of(file: Path, most_bytes: int = 1 << 24) -> str:
    """What another process wrote into a file; nothing if it is no longer a plain file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as words:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return words.read(most_bytes).decode(errors="replace")


def answer_with_stack(stack_file: Path) -> None:
    """In a child: answer `stack_of`, from a signal handler."""
    faulthandler.register(signal.SIGUSR1, file=stack_file.open("w"), all_threads=False)  # it keeps the descriptor


def on_byte(call: Callable[[bytes], None]) -> None:
    """In a child: call it, in a separate thread, with each byte that the owner writes to the leash."""
    _on_byte.append(call)


def hold(folder: str) -> None:
    """In a child: wait in a thread for the leash to close; standard input is replaced, so nothing else reads it."""
    leash = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        told = bytearray()
        while byte := os.read(leash, 1):
            told += byte
            for call in _on_byte:
                call(byte)
        for each in (folder, *os.fsdecode(bytes(told)).split(END_OF_FOLDER)[:-1]):
            shutil.rmtree(each, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="pllab-leash", daemon=True).start()


def end_like_python() -> None:
    """In a child: wait for its threads and call what `atexit` has, as Python does at its end; a fork ends without."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()


def _main() -> None:
    folder, path, entry = sys.argv[1:4]
    del sys.argv[1:4]
    hold(folder)
    sys.path[:] = json.loads(path)
    sys.modules["pllab.comm.processes"] = sys.modules[__name__]  # an import of this file gets the same leash
    name, _, function = entry.partition(":")
    gc.disable()  # modules leave little garbage, and with transformers looking for it takes a fifth longer
    module = importlib.import_module(name)
    gc.freeze()  # what was imported stays, so no collection looks at it again
    gc.enable()
    getattr(module, function)()
    gc.freeze()  # Python collects once more at its end: half a second with torch, a second with transformers


if __name__ == "__main__":
    _main()
