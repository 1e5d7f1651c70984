"""The processes behind `Ranks`, from both sides: one ipyparallel controller, and one engine per rank.

They are started directly, not through ipyparallel's Cluster, which logs to the notebook, writes into the home
directory and notices a dead engine late. Every child is on a leash, binds to 127.0.0.1 only, and writes into one
temporary folder that `stop` removes. An engine is in the process group before its first cell.
"""

import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist

from pllab.comm.devices import gpu_backend
from pllab.comm.errors import ANSI, RankError
from pllab.comm.fork_server import start_warm
from pllab.comm.group import BackendPlan, setup, teardown
from pllab.comm.processes import Child, end_children, how_it_ended, on_byte

_CONTROLLER = (  # its arguments
    "--ip=127.0.0.1",
    "--IPController.location=127.0.0.1",
    "--IPController.use_threads=True",  # one process instead of six
    "--IPController.db_class=NoDB",
    "--HeartMonitor.period=250",  # an engine counts as registered after its first heartbeat
    "--HeartMonitor.max_heartmonitor_misses=1000",  # the owner notices a dead engine sooner
    "--log-level=CRITICAL",
)
_LAST_LINES = 12  # of the log of a process that has ended
_CUT = b"c"  # on the leash of a rank: cut your wires
_wires: set[int] = set()  # in a rank: file descriptors of the sockets that joining the group opened


class Cluster:
    """The controller and the engines, in their own folder; they find each other and the group after `start`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pllab-ranks-"))  # private: mode 700
        self._processes: dict[str, Child] = {}  # the controller first

    def start(self, num_ranks: int, backend: str | None, timeout_s: float) -> None:
        """Start all processes; `stop` ends them, also if not all could be started."""
        profile = f"--profile-dir={self.folder}"
        self._start("the controller of the ranks", "ipyparallel.controller.app:main", profile, *_CONTROLLER)
        for rank in range(num_ranks):
            job = json.dumps([rank, num_ranks, backend, timeout_s])
            self._start(f"rank {rank}", "pllab.comm.notebook_engines:serve_rank", job, str(self.folder))

    def _start(self, name: str, entry: str, *arguments: str) -> None:
        own = {"IPYTHONDIR": str(self.folder / "ipython"), "PYTHONUNBUFFERED": "1"}  # nothing in the user's home
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = start_warm(
                self.folder, entry, *arguments, log=log, environment=own, modules=("ipyparallel.engine.app",)
            )

    @property
    def engines(self) -> list[Child]:
        """The processes of the ranks, in order of rank."""
        return list(self._processes.values())[1:]

    def check_alive(self) -> None:
        """Look at the processes; never waits.

        Raises:
            RankError: one of them has ended; the message says how, and quotes its last output.
        """
        for number, (name, process) in enumerate(self._processes.items()):
            if process.poll() is not None:
                log = ANSI.sub("", (self.folder / f"{name}.log").read_text(errors="replace"))
                last = "".join(f"\n    {line}" for line in log.splitlines()[-_LAST_LINES:])
                raise RankError(max(0, number - 1), f"{name} {how_it_ended(process.returncode)}{last}")

    def interrupt(self, ranks: Sequence[int]) -> None:
        """Send these ranks what Ctrl-C sends."""
        for engine in map(self.engines.__getitem__, ranks):
            if engine.poll() is None and engine.pid > 0:
                with suppress(ProcessLookupError):  # it may end this very moment
                    os.kill(engine.pid, signal.SIGINT)

    def cut_wires(self) -> None:
        """Let every rank close its connections, so that none waits for a message any more."""
        for process in self.engines:
            with suppress(OSError):
                process.stdin.write(_CUT)
                process.stdin.flush()

    def stop(self) -> None:
        """End every process and remove the folder; calling it again does nothing."""
        end_children(list(self._processes.values()))
        shutil.rmtree(self.folder, ignore_errors=True)


def enter_group(rank: int, world_size: int, backend: str | None, init_file: str, timeout_s: float) -> BackendPlan:
    """Leave the old group, if any, and join the one that meets at `init_file`; remember its wires."""
    _abort_on_gpus()  # nccl would wait for calls that a peer has not made
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
    _abort_on_gpus()


def _abort_on_gpus() -> None:
    if dist.is_initialized() and dist.get_backend() == gpu_backend():
        dist.distributed_c10d._abort_process_group()  # every group, not that of all ranks alone


def calls_made() -> dict[str, int]:
    """How many messages this rank has asked for, by the name of their group."""
    names = dist.distributed_c10d._world.pg_names
    return {name: group._get_sequence_number_for_group() for group, name in names.items()}  # type: ignore[attr-defined]


def connection_file(folder: Path, whose: str) -> Path | None:
    """The file by which a client or an engine finds the controller, once complete: it is not written atomically."""
    path = folder / "security" / f"ipcontroller-{whose}.json"
    try:
        json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return path


def _sockets() -> set[int]:
    """The open sockets of this process, by file descriptor."""
    return {int(file.name) for file in Path("/dev/fd").iterdir() if file.is_socket()}


def serve_rank() -> None:
    """The entry point of a rank's process: join the group, then serve cells until the owner ends the process."""
    rank, world_size, backend, timeout_s = json.loads(sys.argv[1])
    folder = Path(sys.argv[2])
    # A shell's background job ignores Ctrl-C and so would we; the owner interrupts cells by this signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    on_byte(lambda byte: cut_wires() if byte == _CUT else None)
    torch.set_num_threads(1)
    plan = enter_group(rank, world_size, backend, str(folder / "meeting-0"), timeout_s)
    while (file := connection_file(folder, "engine")) is None:
        time.sleep(0.05)  # the owner has the deadline, and this process is on its leash
    # A GPU node with only torch and transformers imports this room too.
    from ipyparallel.engine.app import IPEngine

    engine = IPEngine(
        id=rank,
        url_file=str(file),
        timeout=30.0,
        enable_nanny=False,  # the owner sees its processes itself,
        max_heartbeat_misses=0,  # and the leash sees the owner
        log_level=logging.CRITICAL,
        user_ns={"rank": rank, "world_size": world_size, "device": plan.device, "torch": torch, "dist": dist},
    )
    engine.initialize([])
    engine.start()
