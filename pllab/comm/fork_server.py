"""Processes that have imported what they need before they are asked for: a rank starts in 0.1 s instead of 1 to 3.

    the owner: ForkServer                  the server's process: `forking`
    start(folder, entry, ...)      ->      imports what is new; forks a keeper, which forks the child and waits for it
    the child's number, its end    <-      the keeper writes both

They import and never compute, so a child begins almost like a new process: no group, no CUDA, no thread except the
leash, random numbers of its own. All have the same random number behind `hash` of a text. A variable that a library
reads while it is imported, and a changed file of pllab, come too late once the server has started. A child has a leash
of its own, as in `processes`; the server has one too, so it ends with its owner.

`start_warm` starts the ranks of `launch` and of `Ranks`, from one server in each process. On a host with GPUs it starts
new processes: a library that looks for GPUs while it is imported would make CUDA useless in every fork.

Where Python cannot fork, a `ForkServer` has spares, for checks: processes that wait, of which each becomes one child,
while another starts behind it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any

from pllab.comm import processes
from pllab.comm.devices import num_gpus
from pllab.comm.forking import NUMBER_BYTES

_ROOMS = ("pllab.comm", "pllab.data", "pllab.parallel", "pllab.pipeline", "pllab.models", "pllab.train", "pllab.bench")
_WITH_A_STEP = "torch._dynamo"  # an optimizer's first step imports it, in a second and a half
_START_S = 120.0  # for the first child, which waits for the imports of the server
_NUM_SPARES = 3  # a function and a world of two
_ENDED = "the process that starts ranks has ended; start them again"
_SILENT = "the process that starts ranks did not answer; start them again"
_beginning = threading.Lock()  # one server in a process, whoever asks first


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

    def poll(self) -> int | None:
        """The same, as a `processes.Child` has it."""
        return self.returncode

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
    within: a command that runs the fork server's own, such as bubblewrap's; only where Python can fork. A child has the
        environment of that command; otherwise it has the one of who starts it.
    """

    def __init__(self, *modules: str, home: Path | None = None, within: Sequence[str] = ()) -> None:
        self._modules, self._home, self._within = list(modules), home, within
        self._forks = can_fork()
        self._waiting = [self._begin() for _ in range(1 if self._forks else _NUM_SPARES)]

    def add(self, *modules: str) -> None:
        """Import these too, before the next child is forked."""
        self._modules += [name for name in modules if name not in self._modules]

    def start(
        self,
        folder: Path,
        entry: str,
        *arguments: str,
        log: Path | IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        hash_seed: str = "",
    ) -> processes.Started:
        """Start a child that calls the function `entry`; the arguments are those of `processes.start_child`.

        hash_seed: the child is a new Python process that hashes texts with this seed, as `PYTHONHASHSEED` sets it;
            without a seed it hashes as the fork server does.

        Raises:
            RuntimeError: the fork server has ended, for example because its memory was full, or does not answer.
        """
        own = {**(environment or {}), **({"PYTHONHASHSEED": hash_seed} if hash_seed else {})}
        if hash_seed and not self._forks:
            return processes.start_child(folder, entry, *arguments, log=log, environment=own, pass_fds=pass_fds)
        order = {
            "folder": str(folder),
            "entry": entry,
            "arguments": arguments,
            "modules": self._modules,
            "path": [str(place) for place in sys.path],
            "at": str(self._home) if self._home else _working_folder(),
            "environment": own if self._within else os.environ | own,
            "is_whole": not self._within,
            "is_new": bool(hash_seed),
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
            words = (
                f"pllab.comm.forking:{'serve' if self._forks else 'wait_as_spare'}",
                str(descriptor),
                *self._modules,
            )
            return processes.start_child(no_folder, *words, pass_fds=[descriptor], within=self._within), door

    def _fork(self, order: dict[str, Any], handed: Mapping[int, int]) -> Warm:
        """Let the server fork; its keeper tells the child's number, and later its end."""
        process, door = self._waiting[0]
        if process.stdin is not None and not self._within:  # a fenced server ends before its owner does
            with suppress(OSError):  # until the child has its leash, the server removes its folder, also amid imports
                os.write(process.stdin.fileno(), os.fsencode(order["folder"] + processes.END_OF_FOLDER))
        end_of_leash, leash = os.pipe()
        try:
            told = _hand_over(door, order, {0: end_of_leash, **handed})
        except BaseException:
            os.close(leash)
            raise
        finally:
            os.close(end_of_leash)
        stdin = os.fdopen(leash, "wb")
        try:
            number = _number(told, _START_S, otherwise=-1)
        except BaseException:
            stdin.close()  # the child ends as soon as it begins
            told.close()
            raise

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
        import psutil  # a GPU node with only torch and transformers imports this room too

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


def start_warm(
    folder: Path, entry: str, *arguments: str, modules: Sequence[str] = (), **options: Any
) -> processes.Started:
    """Start a child as `processes.start_child` does, from this process's fork server where that is possible.

    The server imports these modules, the entry's, and those of pllab's rooms with torch that this process has imported.
    """
    if num_gpus() or not can_fork():
        return processes.start_child(folder, entry, *arguments, **options)
    rooms = [name for name in list(sys.modules) if name.startswith(_ROOMS) or name == _WITH_A_STEP]
    return warm_server(entry.partition(":")[0], *modules, *rooms).start(folder, entry, *arguments, **options)


def warm_server(*modules: str) -> ForkServer:
    """The fork server of this process, which imports these modules before its next child; it ends with the process."""
    with _beginning:
        server = _server_of(os.getpid())
        if not server.is_alive:
            server.end()
            _server_of.cache_clear()
            server = _server_of(os.getpid())
        server.add(*modules)
        return server


@lru_cache(maxsize=1)
def _server_of(_process: int) -> ForkServer:
    return ForkServer("torch", "torch.distributed")


def _working_folder() -> str:
    """Where a child is to work; empty if somebody has removed it, and then it works where the server does."""
    with suppress(FileNotFoundError):
        return str(Path.cwd())
    return ""


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
    if not wait([told.fileno()], timeout):
        raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
    words = told.read(NUMBER_BYTES)
    return int.from_bytes(words, sys.byteorder, signed=True) if len(words) == NUMBER_BYTES else otherwise
