"""One rank of a notebook: an ipyparallel engine that is in the process group before its first cell.

It runs in a process of its own, on its owner's leash. The owner can also let it cut the wires of the group: a rank that
waits for a message inside gloo does not notice an interrupt, but it notices at once that the connection closed.
"""

import json
import logging
import os
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pllab.comm.devices import gpu_backend
from pllab.comm.group import BackendPlan, setup, teardown
from pllab.comm.processes import answer_with_stack, on_byte

CUT = b"c"

# File descriptors of the sockets that joining the group opened: the wires of this process.
_wires: set[int] = set()


def enter_group(rank: int, world_size: int, backend: str | None, init_file: str, timeout_s: float) -> BackendPlan:
    """Leave the old group, if any, and join the one that meets at `init_file`; remember its wires."""
    _wires.clear()
    teardown()
    before = _sockets()
    plan = setup(rank, world_size, backend, init_file=init_file, timeout_s=timeout_s)
    _wires.update(_sockets() - before)
    return plan


def cut_wires() -> None:
    """Close the connections of the group, even while a thread waits on them.

    Only connected sockets: gloo aborts the process when its listening socket closes.
    """
    for number in list(_wires):
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as wire:
            wire.getpeername()
            wire.shutdown(socket.SHUT_RDWR)
    if dist.is_initialized() and dist.get_backend() == gpu_backend():
        dist.distributed_c10d._abort_process_group()  # every group, not that of all ranks alone


def is_complete(connection_file: Path) -> bool:
    """Whether the controller has written all of a connection file; it does not write it atomically."""
    try:
        json.loads(connection_file.read_text())
    except (FileNotFoundError, ValueError):
        return False
    return True


def _sockets() -> set[int]:
    """The open sockets of this process, by file descriptor."""
    return {int(name) for name in os.listdir("/dev/fd") if _is_socket(int(name))}  # noqa: PTH208


def _is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


def serve_rank() -> None:
    """The entry point of a rank's process: join the group, then serve cells until the owner ends the process."""
    rank, world_size, backend, num_threads, timeout_s = json.loads(sys.argv[1])
    folder = Path(sys.argv[2])
    # A shell's background job ignores Ctrl-C and so would we; the owner interrupts cells by this signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    on_byte(lambda byte: cut_wires() if byte == CUT else None)
    answer_with_stack(folder / f"stack-{rank}")
    torch.set_num_threads(num_threads)
    plan = enter_group(rank, world_size, backend, str(folder / "meeting-0"), timeout_s)
    names = {"rank": rank, "world_size": world_size, "device": plan.device, "torch": torch, "dist": dist}
    _serve(rank, folder / "security" / "ipcontroller-engine.json", names, timeout_s)


def _serve(rank: int, connection_file: Path, names: dict[str, Any], timeout_s: float) -> None:
    # A GPU node with only torch and transformers imports this room too.
    from ipyparallel.engine.app import IPEngine

    end = time.monotonic() + timeout_s
    while not is_complete(connection_file):
        if time.monotonic() >= end:
            raise TimeoutError(f"the controller was not ready after {timeout_s:g} s")
        time.sleep(0.05)
    engine = IPEngine(
        id=rank,
        url_file=str(connection_file),
        timeout=30.0,
        enable_nanny=False,  # the owner sees its processes itself,
        max_heartbeat_misses=0,  # and the leash sees the owner
        log_level=logging.CRITICAL,
        user_ns=names,
    )
    engine.initialize([])
    engine.start()
