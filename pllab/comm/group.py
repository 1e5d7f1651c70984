"""Enter and leave the process group: the one place that knows how ranks find each other.

Three ways in: a file that `launch` or `Ranks` prepared, the environment that torchrun sets, or nothing at all
for a world of one. On one host everything stays on the loopback interface and no port is fixed: a `FileStore`
in a private folder is the meeting point, because torch's TCPStore listens without a password.

torch keeps one default group per process, so what teardown has to undo is also kept once per process.
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import FileStore, HashStore, Store  # type: ignore[attr-defined]

from pllab.comm.backend import BackendPlan, check_rank, plan_backend
from pllab.comm.errors import in_words

_log = logging.getLogger(__name__)
_IFNAME = "GLOO_SOCKET_IFNAME"
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_undo = ExitStack()


@dataclass(frozen=True)
class _Place:
    """Where this rank runs: its number on this host, how many ranks this host has, and who said so."""

    local_rank: int
    local_world_size: int
    by_torchrun: bool


def setup(
    rank: int,
    world_size: int,
    backend: str | None = None,
    *,
    init_file: str | os.PathLike[str] | None = None,
    timeout_s: float = 60.0,
) -> BackendPlan:
    """Join the process group as `rank` of `world_size` and return the backend, the device and the reason.

    Example, under `torchrun --nproc-per-node 2 train.py`:

        plan = setup(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        print(plan.reason)   # gloo on the CPU, because there is no GPU that nccl can use here

    `launch` and `Ranks` call it for their ranks and pass `init_file`. Every wait for another rank, here and
    in later messages, ends after `timeout_s` seconds.

    Raises:
        ValueError: rank or world out of range or not torchrun's, the backend impossible, or no way to meet.
        RuntimeError: this process already has a group.
        PeerError: the other ranks did not come in time.
    """
    check_rank(rank, world_size)
    if timeout_s <= 0:
        raise ValueError(f"timeout_s is {timeout_s}; a deadline is a positive number of seconds")
    if dist.is_initialized():
        raise RuntimeError(
            f"this process is already rank {dist.get_rank()} of {dist.get_world_size()}; call teardown() first"
        )
    place = _find_place(rank, world_size, init_file, os.environ)
    plan = plan_backend(
        rank,
        world_size,
        backend,
        local_rank=place.local_rank,
        local_world_size=place.local_world_size,
    )
    try:
        _join(rank, world_size, plan, place, init_file, timedelta(seconds=timeout_s))
    except BaseException:
        teardown()
        raise
    _log.info("rank %d of %d: %s", rank, world_size, plan.reason)
    return plan


def teardown() -> None:
    """Leave the process group and put the environment back; without a group, do nothing."""
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    finally:
        _undo.close()


def _find_place(
    rank: int, world_size: int, init_file: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> _Place:
    """Decide how the ranks meet, or say what is missing."""
    if init_file is not None:
        return _Place(rank, world_size, by_torchrun=False)
    if all(name in environ for name in _TORCHRUN):
        told = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        if told != (rank, world_size):
            raise ValueError(
                f"torchrun made this process rank {told[0]} of {told[1]}, but setup was asked for "
                f"rank {rank} of {world_size}; pass int(os.environ['RANK']) and int(os.environ['WORLD_SIZE'])"
            )
        local = int(environ.get("LOCAL_RANK", rank)), int(environ.get("LOCAL_WORLD_SIZE", world_size))
        return _Place(*local, by_torchrun=True)
    if world_size == 1:
        return _Place(0, 1, by_torchrun=False)
    raise ValueError(
        f"rank {rank} of {world_size} has no way to find the others; start the ranks with pllab.comm.launch, "
        f"or with torchrun --nproc-per-node {world_size}"
    )


def _join(
    rank: int,
    world_size: int,
    plan: BackendPlan,
    place: _Place,
    init_file: str | os.PathLike[str] | None,
    timeout: timedelta,
) -> None:
    """Meet the other ranks; the environment is changed before gloo looks at it and restored by teardown."""
    if place.local_world_size == world_size:
        _keep_on_loopback()
    on_gpu = plan.device if plan.device.type == "cuda" else None
    if on_gpu is not None:
        torch.cuda.set_device(on_gpu)
    with in_words(f"the meeting of {world_size} ranks", rank):
        dist.init_process_group(
            plan.name,
            init_method="env://" if place.by_torchrun else None,
            store=None if place.by_torchrun else _store(world_size, init_file, timeout),
            rank=rank,
            world_size=world_size,
            timeout=timeout,
            device_id=on_gpu,
        )
        if plan.name == "gloo":
            dist.barrier()  # a quick rank could leave while slow ones still connect, which fails them


def _store(world_size: int, init_file: str | os.PathLike[str] | None, timeout: timedelta) -> Store:
    """The meeting point of one host: a file, or the process's own memory when it is alone."""
    store: Store = HashStore() if init_file is None else FileStore(str(Path(init_file)), world_size)
    store.set_timeout(timeout)
    return store


def _keep_on_loopback() -> None:
    """Make gloo listen on the loopback interface only, until teardown."""
    names = {name for _, name in socket.if_nameindex()}
    loopback = next((name for name in ("lo", "lo0") if name in names), None)
    if loopback is None:
        return
    before = os.environ.get(_IFNAME)
    os.environ[_IFNAME] = loopback
    if before is None:
        _undo.callback(os.environ.pop, _IFNAME, None)
    else:
        _undo.callback(os.environ.__setitem__, _IFNAME, before)
