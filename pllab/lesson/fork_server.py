"""Processes that have imported what they need before they are asked for: a rank starts in 0.1 s instead of 1 to 3.

    the owner: ForkServer                  the server's process: serve
    start(folder, entry, ...)      ->      forks a keeper, which forks the child and waits for it
    the child's number, its end    <-      the keeper writes both

Where Python cannot fork, some such processes wait as spares: each becomes one child, and another starts behind it.

They import and never compute, so a child begins like a new process: no group, no CUDA, no thread except the leash.
Real training starts real processes (`launch`); this is for checks and tests, which start ranks by the dozen. A child
has a leash of its own, as in `processes`; the server and the spares have one too, so they end with their owner.
"""

import fcntl
import gc
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, NoReturn

import psutil

from pllab.comm import processes

_MOST_DESCRIPTORS = 16
_START_S = 120.0  # for the first child, which waits for the imports of the server
_NUMBER_BYTES = 4  # of what a keeper tells
_NUM_SPARES = 3  # a function and a world of two
_ENDED = "the process that starts ranks has ended; run the cell again"
_SILENT = "the process that starts ranks did not answer; run the cell again"


class Warm:
    """A child of a fork server or a used spare, with the interface that `launch` needs from a `processes.Child`.

    end: waits so many seconds for its end and returns the exit code; raises `subprocess.TimeoutExpired`.
    """

    def __init__(self, pid: int, stdin: IO[bytes] | None, end: Callable[[float | None], int]) -> None:
        self.pid, self.stdin, self._end = pid, stdin, end
        self._code: int | None = None

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
            self._code = self._end(timeout)
        return self._code

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
    within: a command that runs the fork server's own, such as bubblewrap's; only where Python can fork.
    """

    def __init__(self, *modules: str, home: Path | None = None, within: Sequence[str] = ()) -> None:
        self._modules, self._home, self._within = modules, home, within
        self._forks = can_fork()
        self._waiting = [self._begin() for _ in range(1 if self._forks else _NUM_SPARES)]

    def start(
        self,
        folder: Path,
        entry: str,
        *arguments: str,
        log: Path | IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        hash_seed: str = "",
    ) -> processes.Started:
        """Start a child that calls the function `entry`; the arguments are those of `processes.start_child`.

        hash_seed: the child is a new Python process that hashes texts with this seed, as `PYTHONHASHSEED` sets it;
            without a seed it hashes as the fork server does.

        Raises:
            RuntimeError: the fork server has ended, for example because its memory was full, or does not answer.
        """
        if hash_seed and not self._forks:
            seed = {"PYTHONHASHSEED": hash_seed}
            return processes.start_child(folder, entry, *arguments, log=log, environment=seed, pass_fds=pass_fds)
        order = {
            "folder": str(folder),
            "entry": entry,
            "arguments": arguments,
            "path": sys.path,
            "at": str(self._home or Path.cwd()),
            "hash_seed": hash_seed,
        }
        with log.open("wb") if isinstance(log, Path) else nullcontext(log) as words:
            handed = ({1: words.fileno()} if words else {}) | {number: number for number in pass_fds}
            try:
                return self._fork(order, handed) if self._forks else self._use_spare(order, handed)
            except subprocess.TimeoutExpired as error:
                self.end()
                raise RuntimeError(_SILENT) from error

    @property
    def is_alive(self) -> bool:
        """Whether it can start children."""
        return all(process.poll() is None for process, _ in self._waiting)

    @property
    def pid(self) -> int:
        """The number of its own process, the ancestor of its children and of theirs."""
        return self._waiting[0][0].pid

    def end(self) -> None:
        """End the fork server's own processes; children that still run keep their leash."""
        for _, door in self._waiting:
            door.close()
        processes.end_children([process for process, _ in self._waiting])

    def _begin(self) -> tuple[processes.Child, socket.socket]:
        """A process that serves, and the door on which it takes orders."""
        door, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with other_end:
            descriptor, no_folder = other_end.fileno(), Path(os.devnull, "none")
            words = (f"{__name__}:{'serve' if self._forks else 'wait_as_spare'}", str(descriptor), *self._modules)
            return processes.start_child(no_folder, *words, pass_fds=[descriptor], within=self._within), door

    def _fork(self, order: dict[str, Any], handed: Mapping[int, int]) -> Warm:
        """Let the server fork; its keeper tells the child's number, and later its end."""
        end_of_leash, leash = os.pipe()
        try:
            told = _hand_over(self._waiting[0][1], order, {0: end_of_leash, **handed})
        except RuntimeError:
            os.close(leash)
            raise
        finally:
            os.close(end_of_leash)
        stdin = os.fdopen(leash, "wb")
        number = _number(told, _START_S, otherwise=-1)

        def end(timeout: float | None) -> int:
            code = _number(told, timeout, otherwise=-signal.SIGKILL)  # without an answer its keeper was killed
            told.close()
            return code

        return Warm(self._number_here(number), stdin, end)

    def _use_spare(self, order: dict[str, Any], handed: Mapping[int, int]) -> Warm:
        """Let the spare that has waited longest become the child; another one starts behind it."""
        process, door = self._waiting.pop(0)  # first of all: an interrupted start does not hand it out again
        try:
            self._waiting.append(self._begin())
            with door, _hand_over(door, order, handed) as told:
                if _number(told, _START_S, otherwise=-1) < 0:
                    raise RuntimeError(_ENDED)
        except BaseException:
            process.kill()
            raise

        def end(timeout: float | None) -> int:
            code = process.wait(timeout)
            process.kill()  # what it started and left behind
            return code

        return Warm(process.pid, process.stdin, end)

    def _number_here(self, pid: int) -> int:
        """The number of a child outside its namespace, which has numbers of its own; -1 for one that has ended."""
        if not self._within:
            return pid
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                with suppress(OSError):
                    words = Path(f"/proc/{child.pid}/status").read_text().partition("NSpid:")[2].partition("\n")[0]
                    if words.split()[-1:] == [str(pid)]:
                        return child.pid
        return -1


def can_fork() -> bool:
    """Whether a process that has imported torch can fork itself; libraries of macOS crash in such a child."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def _hand_over(door: socket.socket, order: dict[str, Any], handed: Mapping[int, int]) -> IO[bytes]:
    """Send an order, with descriptors by the number that the child is to have each under; return where it is told.

    Raises:
        RuntimeError: the other end has ended.
    """
    reading, telling = os.pipe()
    told = os.fdopen(reading, "rb", buffering=0)
    with tempfile.TemporaryFile() as written:
        written.write(json.dumps({**order, "fds": list(handed)}).encode())
        written.flush()
        try:
            socket.send_fds(door, [b"1"], [written.fileno(), telling, *handed.values()])
        except OSError as error:
            told.close()
            raise RuntimeError(_ENDED) from error
        finally:
            os.close(telling)
    return told


def _number(told: IO[bytes], timeout: float | None, otherwise: int) -> int:
    """The next number, which is written in one piece; `otherwise` if there is none, or not a whole one."""
    if not select.select([told], [], [], timeout)[0]:
        raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
    words = told.read(_NUMBER_BYTES)
    return int.from_bytes(words, sys.byteorder, signed=True) if len(words) == _NUMBER_BYTES else otherwise


def serve() -> None:
    """The entry point of the fork server's process: import, then fork a keeper for each order until the door closes."""
    door = _imported()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets keepers that have ended
    while descriptors := socket.recv_fds(door, 1, _MOST_DESCRIPTORS)[1]:  # none when every door is closed
        if os.fork() == 0:
            door.close()
            _keep(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def wait_as_spare() -> None:
    """The entry point of a spare: import, wait for an order, and become its child."""
    with _imported() as door:
        descriptors = socket.recv_fds(door, 1, _MOST_DESCRIPTORS)[1]
    if descriptors:
        order, telling, handed = _read(descriptors)
        _tell(telling, os.getpid())
        os.close(telling)
        _become(order, handed)


def _imported() -> socket.socket:
    """The door, when all modules are imported that the command line names."""
    with processes.importing():
        for name in sys.argv[2:]:
            importlib.import_module(name)
        gc.freeze()  # collecting garbage would write to this memory, which the children share
    return socket.socket(fileno=int(sys.argv[1]))


def _read(descriptors: list[int]) -> tuple[dict[str, Any], int, list[int]]:
    """The order, the end on which to tell, and what is handed to the child."""
    written, telling, *handed = descriptors
    order = json.loads(os.pread(written, os.fstat(written).st_size, 0))
    os.close(written)
    return order, telling, handed


def _tell(telling: int, number: int) -> None:
    os.write(telling, number.to_bytes(_NUMBER_BYTES, sys.byteorder, signed=True))


def _keep(descriptors: list[int]) -> NoReturn:
    """In the keeper: fork the child, tell its number, wait, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    order, telling, handed = _read(descriptors)
    child = os.fork()
    if child == 0:
        os.close(telling)
        os.setsid()
        _become(order, handed)
    os.setpgid(0, 0)  # a signal to the group of a child does not reach its keeper
    for descriptor in handed:
        os.close(descriptor)
    with suppress(BrokenPipeError):
        _tell(telling, child)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started and left behind
        _tell(telling, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _become(order: dict[str, Any], handed: list[int]) -> NoReturn:
    """In the child: take the leash and the owner's descriptors, then call the function."""
    _take(handed, order["fds"])
    code = 1
    try:
        with suppress(OSError):
            os.chdir(order["at"])
        if order["hash_seed"]:
            command = processes.command(order["folder"], order["path"], order["entry"], *order["arguments"])
            os.execve(command[0], command, os.environ | {"PYTHONHASHSEED": order["hash_seed"]})
        sys.path[:] = order["path"]
        sys.argv[1:] = order["arguments"]
        begin = processes.hold if 0 in order["fds"] else processes.remove_with_owner  # a spare has its leash already
        begin(order["folder"])
        resolve_name(order["entry"])()
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
    above = max(wanted, default=0) + 1  # where each waits for its own number
    waiting = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in handed]
    for descriptor in handed:
        os.close(descriptor)
    for descriptor, number in zip(waiting, wanted, strict=True):
        os.dup2(descriptor, number)
        if number == 1:
            os.dup2(descriptor, 2)
        os.close(descriptor)
