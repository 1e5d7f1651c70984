"""The process of a `ForkServer`, and of its spares: it imports, waits for orders, and forks a child for each.

serve           for each order: import what is new, fork a keeper
_keep           the keeper: fork the child, tell its number, wait for it, tell how it ended
_become         the child: take the leash and the owner's descriptors, call the function
wait_as_spare   without fork: wait for one order, and become its child
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
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
        with telling:
            _tell(telling, os.getpid())
        _become(order, handed)


def _imported() -> socket.socket:
    """The door, when all modules are imported that the command line names."""
    _import(sys.argv[1:-1])
    return socket.socket(fileno=int(sys.argv[-1]))


def _import(names: Iterable[str]) -> None:
    """Import these; a child that needs what cannot be imported says why."""
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)
    gc.freeze()  # collecting garbage would write to this memory, which the children share


def _read(descriptors: list[int]) -> tuple[dict[str, Any], socket.socket, list[int]]:
    """The order, the connection that brought it and takes the answers, and what is handed to the child."""
    telling, handed = socket.socket(fileno=descriptors[0]), descriptors[1:]
    return json.loads(telling.makefile().readline()), telling, handed


def _tell(telling: socket.socket, number: int) -> None:
    telling.sendall(number.to_bytes(NUMBER_BYTES, sys.byteorder, signed=True))


def _keep(order: dict[str, Any], telling: socket.socket, handed: list[int]) -> NoReturn:
    """In the keeper: fork the child, tell its number, wait, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        telling.close()
        os.setsid()
        _become(order, handed)
    os.setpgid(0, 0)  # a signal to the group of a child does not reach its keeper
    for descriptor in handed:
        os.close(descriptor)
    with suppress(OSError):  # the owner has gone
        _tell(telling, child)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started and left behind
        _tell(telling, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _become(order: dict[str, Any], handed: list[int]) -> NoReturn:
    """In the child: take the leash and the owner's descriptors, then call the function."""
    code = 1
    try:
        for number in order["standard"]:
            os.dup2(handed[0], number)
            os.close(handed.pop(0))
        arguments = [*order["arguments"], *map(str, handed)]
        os.chdir(order["at"])
        if order["is_whole"]:
            os.environ.clear()
        os.environ.update(order["environment"])
        if order["is_new"]:
            command = processes.command(order["folder"], order["path"], order["entry"], *arguments)
            os.execv(command[0], command)
        sys.path[:] = order["path"]
        sys.argv[1:] = arguments
        _draw_anew()
        begin = processes.hold if 0 in order["standard"] else processes.remove_with_owner  # a spare has its leash
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
