"""The process of a `ForkServer`, and of its spares: it imports, waits for orders, and forks a child for each.

serve           for each order: import what is new, fork a keeper
_keep           the keeper: fork the child, tell its number, wait for it, tell how it ended
_become         the child: take the leash and the owner's descriptors, call the function
wait_as_spare   without fork: wait for one order, and become its child
"""

import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any, NoReturn

from pllab.comm import processes

NUMBER_BYTES = 4  # of what a keeper tells
_MOST_DESCRIPTORS = 16


def serve() -> None:
    """The entry point of the fork server's process: import, then fork a keeper for each order until its owner ends."""
    door = _imported()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets keepers that have ended
    while descriptors := socket.recv_fds(door, 1, _MOST_DESCRIPTORS)[1]:  # some systems tell a closed door so
        order, telling, handed = _read(descriptors)
        _import_new(order)
        if os.fork() == 0:
            door.close()
            _keep(order, telling, handed)
        for descriptor in (telling, *handed):
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
    _import(sys.argv[2:])
    return socket.socket(fileno=int(sys.argv[1]))


def _import(names: Sequence[str]) -> None:
    """Import these; a child that needs what cannot be imported says why."""
    with processes.importing():
        for name in names:
            with suppress(Exception):
                importlib.import_module(name)
        gc.freeze()  # collecting garbage would write to this memory, which the children share


def _import_new(order: dict[str, Any]) -> None:
    """Import what an order names and is not there yet, from where its owner would."""
    sys.path[:] = order["path"]
    new = [name for name in order["modules"] if name not in sys.modules]
    if not new:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a program that a module starts meanwhile has an exit code
    _import(new)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with suppress(ChildProcessError):  # keepers that ended meanwhile
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _read(descriptors: list[int]) -> tuple[dict[str, Any], int, list[int]]:
    """The order, the end on which to tell, and what is handed to the child."""
    written, telling, *handed = descriptors
    order = json.loads(os.pread(written, os.fstat(written).st_size, 0))
    os.close(written)
    return order, telling, handed


def _tell(telling: int, number: int) -> None:
    os.write(telling, number.to_bytes(NUMBER_BYTES, sys.byteorder, signed=True))


def _keep(order: dict[str, Any], telling: int, handed: list[int]) -> NoReturn:
    """In the keeper: fork the child, tell its number, wait, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
        if order["is_whole"]:
            os.environ.clear()
        os.environ.update(order["environment"])
        if order["is_new"]:
            command = processes.command(order["folder"], order["path"], order["entry"], *order["arguments"])
            os.execv(command[0], command)
        sys.path[:] = order["path"]
        sys.argv[1:] = order["arguments"]
        _draw_anew()
        begin = processes.hold if 0 in order["fds"] else processes.remove_with_owner  # a spare has its leash already
        begin(order["folder"])
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
