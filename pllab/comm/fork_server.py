"""Processes that have imported what they need before they are asked for: a rank starts in 0.1 s instead of 1 to 3.

    the owner: ForkServer                  the server's process: serve
    start(folder, entry, ...)      ->      imports what is new; forks a keeper, which forks the child and waits for it
    that it is there               <-      the child writes, and the system tells the owner the number of who wrote
    its end                        <-      the keeper writes

They import and never compute, so a child begins almost like a new process: no group, no CUDA, no thread except the
leash, random numbers of its own. All have the same random number behind `hash` of a text. A variable that a library
reads while it is imported, and a changed file of pllab, come too late once the server has started. A child has a leash
of its own, as in `processes`; the server has one too, so it ends with its owner.

`start_warm` starts the ranks of `launch` and of `Ranks`, from one server in each process. On a host with GPUs it starts
new processes: a library that looks for GPUs while it is imported would make CUDA useless in every fork.

Where Python cannot fork, a `ForkServer` has spares, for checks: processes that wait, of which each becomes one child,
while another starts behind it.

In order: the owner's side, then the server's process, its keepers and their children.
"""

import gc
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, NoReturn

from pllab.comm.devices import num_gpus
from pllab.comm.processes import END_OF_FOLDER, Child, command, end_children, hold, start_child

_ROOMS = ("pllab.comm", "pllab.data", "pllab.parallel", "pllab.pipeline", "pllab.models", "pllab.train", "pllab.bench")
_WITH_A_STEP = "torch._dynamo"  # an optimizer's first step imports it, in a second and a half
_START_S = 120.0  # for the first child, which waits for the imports of the server
_INT = struct.Struct("i")  # a word of a child or its keeper
_WRITER = struct.Struct("3i")  # the numbers of the process, user and group that wrote it, in the reader's namespaces
_MOST_DESCRIPTORS = 16
_NUM_SPARES = 3  # a function and a world of two
_ENDED = "the process that starts ranks has ended; start them again"
_SILENT = "the process that starts ranks did not answer; start them again"
_servers: dict[int, "ForkServer"] = {}  # by the process that they serve: one that was forked has its own


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
        log: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        hash_seed: str = "",
    ) -> Child:
        """Start a child that calls the function `entry`; the arguments are those of `processes.start_child`.

        hash_seed: the child is a new Python process that hashes texts with this seed, as `PYTHONHASHSEED` sets it;
            without a seed it hashes as the fork server does.

        Raises:
            RuntimeError: the fork server has ended, for example because its memory was full, or does not answer.
        """
        own = {**(environment or {}), **({"PYTHONHASHSEED": hash_seed} if hash_seed else {})}
        if hash_seed and not self._forks:
            return start_child(folder, entry, *arguments, log=log, environment=own, pass_fds=pass_fds)
        streams = {} if log is None else {1: log.fileno(), 2: log.fileno()}
        order = {
            "folder": str(folder),
            "entry": entry,
            "arguments": arguments,
            "modules": self._modules,
            "path": [str(place) for place in sys.path],
            "at": str(self._home or Path.cwd()),
            "environment": own if self._within else {**os.environ, **own},
            "is_whole": not self._within,
            "is_new": bool(hash_seed),
        }
        begin = self._fork if self._forks else self._use_spare
        try:
            if not self._within:  # a fenced server ends before its owner does
                # Who takes the order removes the folder, even where the owner goes amid imports.
                os.write(self._waiting[0][0].stdin.fileno(), os.fsencode(f"{folder}{END_OF_FOLDER}"))
            return begin(order, streams, pass_fds)
        except OSError as error:
            raise RuntimeError(_ENDED) from error
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
        end_children([process for process, _ in self._waiting])

    def _begin(self) -> tuple[Child, socket.socket]:
        """A process that serves, and the door on which it takes orders."""
        door, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with other_end:
            entry = f"pllab.comm.fork_server:{'serve' if self._forks else 'wait_as_spare'}"
            no_folder, descriptor = Path(os.devnull, "none"), other_end.fileno()
            return start_child(no_folder, entry, *self._modules, pass_fds=[descriptor], within=self._within), door

    def _fork(self, order: dict[str, Any], streams: dict[int, int], pass_fds: Sequence[int]) -> Child:
        """Let the server fork; the child says that it is there, and later its keeper how it ended."""
        end_of_leash, leash = os.pipe()
        stdin = os.fdopen(leash, "wb")
        try:
            told = _hand_over(self._waiting[0][1], order, {0: end_of_leash, **streams}, pass_fds)
            _, number = _heard(told, _START_S)
        except BaseException:
            stdin.close()  # the child ends as soon as it begins
            raise
        finally:
            os.close(end_of_leash)

        def end(timeout: float | None) -> int:
            code, _ = _heard(told, timeout)
            told.close()
            return code

        return Child(number, stdin, end)

    def _use_spare(self, order: dict[str, Any], streams: dict[int, int], pass_fds: Sequence[int]) -> Child:
        """Let the spare that has waited longest become the child; another one starts behind it."""
        process, door = self._waiting.pop(0)  # first of all: an interrupted start does not hand it out again
        try:
            self._waiting.append(self._begin())
            with door:
                _hand_over(door, order, streams, pass_fds).close()
        except BaseException:
            process.kill()
            raise
        return process


def can_fork() -> bool:
    """Whether a process that has imported torch can fork itself: under Linux; libraries of macOS crash in the child."""
    return sys.platform == "linux"


def start_warm(folder: Path, entry: str, *arguments: str, modules: Sequence[str] = (), **options: Any) -> Child:
    """Start a child as `start_child` does, from this process's fork server where that is possible.

    The server imports these modules, the entry's, and those of pllab's rooms with torch that this process has imported.
    """
    if num_gpus() or not can_fork():
        return start_child(folder, entry, *arguments, **options)
    rooms = [name for name in list(sys.modules) if name.startswith(_ROOMS) or name == _WITH_A_STEP]
    return warm_server(entry.partition(":")[0], *modules, *rooms).start(folder, entry, *arguments, **options)


def warm_server(*modules: str) -> ForkServer:
    """The fork server of this process, which imports these modules before its next child; it ends with the process."""
    server = _servers.get(os.getpid())
    if server is None or not server.is_alive:
        server = _servers[os.getpid()] = ForkServer("torch", "torch.distributed")
    server.add(*modules)
    return server


def _hand_over(
    door: socket.socket, order: dict[str, Any], streams: Mapping[int, int], pass_fds: Sequence[int]
) -> socket.socket:
    """Send an order with the child's descriptors; return the connection on which its beginning and end are told.

    streams: what the child has as standard input (its leash), output and errors, by their numbers.

    Raises:
        OSError: the other end has ended.
    """
    told, telling = socket.socketpair()
    told.settimeout(_START_S)
    if can_fork():  # only Linux has it, and a spare needs no number
        told.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    with telling:
        socket.send_fds(door, [b"1"], [telling.fileno(), *streams.values(), *pass_fds])
        told.sendall(json.dumps({**order, "streams": list(streams)}).encode() + b"\n")
    return told


def _heard(told: socket.socket, timeout: float | None) -> tuple[int, int]:
    """The next word, which is sent in one piece, and the number here of who sent it: a fence has numbers of its own.

    Without a word the keeper was killed, and the child with it.
    """
    if not wait([told], timeout):
        raise subprocess.TimeoutExpired("a warm process", timeout or 0.0)
    word, writers, *_ = told.recvmsg(_INT.size, socket.CMSG_SPACE(_WRITER.size))
    if len(word) < _INT.size:
        return -signal.SIGKILL, -1
    return _INT.unpack(word)[0], _WRITER.unpack(writers[0][2])[0]


def serve() -> None:
    """The entry point of the fork server's process: import, then fork a keeper for each order until its owner ends."""
    door = _imported()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets keepers that have ended
    while descriptors := socket.recv_fds(door, 1, _MOST_DESCRIPTORS)[1]:  # some systems tell a closed door so
        order, telling, handed = _read(descriptors)
        sys.path[:] = order["path"]
        _import(order["modules"])
        if os.fork() == 0:
            door.close()
            _keep(order, telling, handed)
        telling.close()
        for descriptor in handed:
            os.close(descriptor)


def wait_as_spare() -> None:
    """The entry point of a spare: import, wait for an order, and become its child."""
    with _imported() as door:
        descriptors = socket.recv_fds(door, 1, _MOST_DESCRIPTORS)[1]
    if descriptors:
        order, telling, handed = _read(descriptors)
        telling.close()
        _become(order, handed)


def _imported() -> socket.socket:
    """The door, when all modules are imported that the command line names."""
    _import(sys.argv[1:-1])
    return socket.socket(fileno=int(sys.argv[-1]))


def _import(names: Iterable[str]) -> None:
    """Import these; a child that needs what cannot be imported says why."""
    gc.disable()  # as in `pllab.comm.processes`
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)
    gc.enable()
    gc.freeze()  # collecting garbage would write to this memory, which the children share


def _read(descriptors: list[int]) -> tuple[dict[str, Any], socket.socket, list[int]]:
    """The order, the connection that brought it and takes the answers, and what is handed to the child."""
    telling, handed = socket.socket(fileno=descriptors[0]), descriptors[1:]
    return json.loads(telling.makefile().readline()), telling, handed


def _keep(order: dict[str, Any], telling: socket.socket, handed: list[int]) -> NoReturn:
    """In the keeper: fork the child, which says that it is there, wait, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.setsid()
        with telling, suppress(OSError):  # the owner has gone
            telling.sendall(_INT.pack(0))
        _become(order, handed)
    os.setpgid(0, 0)  # a signal to the group of a child does not reach its keeper
    for descriptor in handed:
        os.close(descriptor)
    with suppress(OSError):  # the owner has gone
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started and left behind
        telling.sendall(_INT.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    os._exit(0)


def _become(order: dict[str, Any], handed: list[int]) -> NoReturn:
    """In the child: take the leash and the owner's descriptors, then call the function."""
    code = 1
    try:
        for number in order["streams"]:
            os.dup2(handed[0], number)
            os.close(handed.pop(0))
        arguments = [*order["arguments"], *map(str, handed)]
        os.chdir(order["at"])
        if order["is_whole"]:
            os.environ.clear()
        os.environ.update(order["environment"])
        if order["is_new"]:
            os.execv(sys.executable, command(order["folder"], order["path"], order["entry"], *arguments))
        sys.path[:] = order["path"]
        sys.argv[1:] = arguments
        _draw_anew()
        if 0 in order["streams"]:  # a spare has its leash
            hold(order["folder"])
        resolve_name(order["entry"])()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed, or None if the owner has none
                stream.flush()
        os._exit(code)


def _draw_anew() -> None:
    """Draw other random numbers than the siblings do: a fork copies what torch and numpy seeded on import."""
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()
    if generator := sys.modules.get("numpy.random"):
        generator.seed()
