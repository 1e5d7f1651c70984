"""A process that has imported what ranks need, and forks itself: a rank starts in 0.1 s instead of 4.

    the owner: ForkServer                  the server's process: serve
    start(folder, entry, ...)      ->      forks a keeper, which forks the child and waits for it
    the child's number, its end    <-      the keeper writes both

It imports and never computes, so that a fork begins like a new process: no group, no CUDA, no thread except the
leash. Real training starts real processes (`launch`); this is for checks and tests, which start ranks by the
dozen. A child has a leash of its own, as in `processes`; the server has one too, so it ends with its owner.
"""

import fcntl
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from pllab.comm import processes

_MOST_DESCRIPTORS = 16
_START_S = 120.0  # for the first child, which waits for the imports of the server
_NUMBER_BYTES = 4  # of what a keeper tells


class Forked:
    """A child of the fork server, with the interface that `launch` needs from a `processes.Child`."""

    def __init__(self, leash: int, told: int, number: Callable[[int], int]) -> None:
        self.stdin = os.fdopen(leash, "wb")
        self._told = os.fdopen(told, "rb", buffering=0)
        self._code: int | None = None
        self.pid = number(self._number(_START_S, otherwise=-1))

    @property
    def returncode(self) -> int | None:
        """The exit code once it has ended, -9 for one that was killed; until then None."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it had not ended after `timeout` seconds.
        """
        if self._code is None:
            self._code = self._number(timeout, otherwise=-signal.SIGKILL)  # without an answer its keeper was killed
            self._told.close()
        return self._code

    def _number(self, timeout: float | None, otherwise: int) -> int:
        """The keeper's next number, which it writes in one piece; `otherwise` if there is none, or not a whole one."""
        if not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a child of the fork server", timeout or 0.0)
        told = self._told.read(_NUMBER_BYTES)
        return int.from_bytes(told, sys.byteorder, signed=True) if len(told) == _NUMBER_BYTES else otherwise

    def kill(self) -> None:
        """End it with all that it started."""
        if self.returncode is None and self.pid > 0:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


class ForkServer:
    """Start processes that have these modules imported already.

    Example:
        server = ForkServer("torch", "torch.distributed")
        child = server.start(folder, "my_module:main", "a word")   # as `processes.start_child`

    modules: what to import.
    home: the folder that every child works in; by default the one of who starts it.
    within: a command that runs the fork server's own, such as bubblewrap's.
    """

    def __init__(self, *modules: str, home: Path | None = None, within: Sequence[str] = ()) -> None:
        self._home, self._is_within = home, bool(within)
        self._door, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with other_end:
            descriptor, no_folder = other_end.fileno(), Path(os.devnull, "none")
            words = ("pllab.lesson.fork_server:serve", str(descriptor), *modules)
            self._process = processes.start_child(no_folder, *words, pass_fds=[descriptor], within=within)

    def start(
        self,
        folder: Path,
        entry: str,
        *arguments: str,
        log: Path | IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        hash_seed: str = "",
    ) -> Forked:
        """Start a child that calls the function `entry`; the arguments are those of `processes.start_child`.

        log: a path, or a file that is open.
        hash_seed: the child is a new Python process that hashes texts with this seed, as `PYTHONHASHSEED` sets it;
            without a seed it is a fork, which hashes as the fork server does.

        Raises:
            RuntimeError: the fork server has ended, for example because its memory was full, or does not answer.
        """
        leash_end, leash = os.pipe()
        told, telling = os.pipe()
        order = {
            "folder": str(folder),
            "entry": entry,
            "arguments": arguments,
            "path": sys.path,
            "at": str(self._home or Path.cwd()),
            "fds": [*([1] if log else []), *pass_fds],
            "hash_seed": hash_seed,
        }
        opened = log.open("wb") if isinstance(log, Path) else nullcontext(log)
        with tempfile.TemporaryFile() as written, opened as words:
            written.write(json.dumps(order).encode())
            written.flush()
            handed = [written.fileno(), telling, leash_end, *([words.fileno()] if words else []), *pass_fds]
            try:
                socket.send_fds(self._door, [b"1"], handed)
            except OSError as error:
                os.close(leash)
                os.close(told)
                raise RuntimeError("the process that starts ranks has ended; run the cell again") from error
            finally:
                os.close(telling)
                os.close(leash_end)
        try:
            return Forked(leash, told, self._number_here)
        except subprocess.TimeoutExpired as error:
            self.end()
            raise RuntimeError("the process that starts ranks did not answer; run the cell again") from error

    @property
    def is_alive(self) -> bool:
        """Whether it can start children."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0)
            return False
        return True

    @property
    def pid(self) -> int:
        """The number of its own process, the ancestor of its children and of theirs."""
        return self._process.pid

    def end(self) -> None:
        """End the fork server's own process; children that still run keep their leash."""
        self._door.close()
        processes.end_children([self._process])

    def _number_here(self, pid: int) -> int:
        """The number of a child outside its namespace, which has numbers of its own; -1 for one that has ended."""
        if not self._is_within:
            return pid
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                with suppress(OSError):
                    words = Path(f"/proc/{child.pid}/status").read_text().partition("NSpid:")[2].partition("\n")[0]
                    if words.split()[-1:] == [str(pid)]:
                        return child.pid
        return -1


def serve() -> None:
    """The entry point of the fork server's process: import, then fork a keeper for each order until the door closes."""
    door = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets keepers that have ended
    while True:
        sign, descriptors, _, _ = socket.recv_fds(door, 1, _MOST_DESCRIPTORS)
        if not sign:  # every door is closed
            return
        if descriptors and os.fork() == 0:
            door.close()
            _keep(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(descriptors: list[int]) -> NoReturn:
    """In the keeper: fork the child, tell its number, wait, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    written, telling, *handed = descriptors
    order = json.loads(os.pread(written, os.fstat(written).st_size, 0))
    os.close(written)
    child = os.fork()
    if child == 0:
        os.close(telling)
        _become(order, handed)
    os.setpgid(0, 0)  # a signal to the group of a child does not reach its keeper
    for descriptor in handed:
        os.close(descriptor)
    with suppress(BrokenPipeError):
        os.write(telling, child.to_bytes(_NUMBER_BYTES, sys.byteorder, signed=True))
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started and left behind
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(telling, code.to_bytes(_NUMBER_BYTES, sys.byteorder, signed=True))
    os._exit(0)


def _become(order: dict[str, Any], handed: list[int]) -> NoReturn:
    """In the child: take the leash and the owner's descriptors, then call the function."""
    os.setsid()
    _take(handed, [0, *order["fds"]])
    code = 1
    try:
        with suppress(OSError):
            os.chdir(order["at"])
        if order["hash_seed"]:
            command = processes.command(order["folder"], order["path"], order["entry"], *order["arguments"])
            os.execve(command[0], command, os.environ | {"PYTHONHASHSEED": order["hash_seed"]})
        sys.path[:] = order["path"]
        sys.argv[1:] = order["arguments"]
        processes.hold(order["folder"])
        module, _, function = order["entry"].partition(":")
        getattr(importlib.import_module(module), function)()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _take(handed: list[int], wanted: list[int]) -> None:
    """Give each descriptor the number that the owner has for it; 1 stands for all output."""
    above = max(wanted) + 1  # where each waits for its own number
    waiting = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in handed]
    for descriptor in handed:
        os.close(descriptor)
    for descriptor, number in zip(waiting, wanted, strict=True):
        os.dup2(descriptor, number)
        if number == 1:
            os.dup2(descriptor, 2)
        os.close(descriptor)
