"""The process group: which backend carries its messages, how its ranks meet, and how a rank leaves.

nccl refuses two ranks on one GPU, but late and with an obscure message. So the backend is planned
from two counts, ranks on this host and GPUs on this host, before anything starts.

There are three ways in: a file that `launch` or `Ranks` prepared, the environment that torchrun sets, or nothing at
all for a world of one. On one host everything stays on the loopback interface and no port is fixed: a `FileStore` in a
private folder is the meeting point, because torch's TCPStore listens without a password.
"""

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import FileStore, HashStore, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed import distributed_c10d as c10d

from pllab import accelerator
from pllab.arguments import deadline, require, whole_number
from pllab.comm.devices import gpu_backend, is_gpu, num_gpus
from pllab.comm.errors import in_words

_IFNAME = "GLOO_SOCKET_IFNAME"
_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_undo = ExitStack()  # of teardown: torch keeps one default group per process, so there is one of these


@dataclass(frozen=True)
class BackendPlan:
    """The backend's name (`nccl` or `gloo`), this rank's device, and the reason in a sentence."""

    name: str
    device: torch.device
    reason: str


def plan_backend(
    rank: int,
    world_size: int,
    backend: str | None = None,
    *,
    local_rank: int | None = None,
    local_world_size: int | None = None,
    num_gpus: int | None = None,
) -> BackendPlan:
    """Choose nccl if every rank of this host has its own GPU, else gloo on the CPU.

    Worked example, by ranks and GPUs of one host:

        2 ranks, 2 GPUs   nccl   cuda:0 and cuda:1
        2 ranks, 1 GPU    gloo   cpu, because nccl refuses two ranks on one GPU
        2 ranks, 0 GPUs   gloo   cpu

    The local counts default to the whole world (one host); `num_gpus` defaults to what torch can use here.

    Raises:
        ValueError: rank or world out of range, an unknown backend, or nccl with fewer GPUs than ranks.
    """
    _check_rank(rank, world_size)
    if backend not in (None, gpu_backend(), "gloo"):
        raise ValueError(f"backend {backend!r} is unknown; choose {gpu_backend()}, gloo, or leave it out")
    gpus = _usable_gpus() if num_gpus is None else num_gpus
    num_ranks = world_size if local_world_size is None else local_world_size
    counts = f"{_count(num_ranks, 'rank')} and {_count(gpus, 'GPU')}"
    if backend == gpu_backend() and gpus < num_ranks:
        raise ValueError(
            f"{backend} needs one GPU per rank, and this host has {counts}; leave the backend out, or ask for gloo"
        )
    if backend == "gloo" or gpus < num_ranks:
        return BackendPlan("gloo", torch.device("cpu"), _why_gloo(backend, num_ranks, gpus))
    device, name = accelerator.gpu(rank if local_rank is None else local_rank), gpu_backend()
    return BackendPlan(name, device, f"{name} on {device}, because each rank has its own GPU ({counts} here)")


def _check_rank(rank: int, world_size: int) -> None:
    size = whole_number("world_size", world_size)
    if whole_number("rank", rank, least=0) >= size:
        raise ValueError(f"rank {rank} is not in a world of {size}; ranks go from 0 to {size - 1}")


def _check_free() -> None:
    if dist.is_initialized():
        member = f"rank {dist.get_rank()} of {dist.get_world_size()}"
        raise RuntimeError(f"this process is already {member}; call teardown() first")


def _usable_gpus() -> int:
    """GPUs whose tensors torch.distributed can send here; 0 on a build without their backend."""
    return num_gpus() if dist.is_backend_available(gpu_backend()) else 0


def _why_gloo(backend: str | None, num_ranks: int, gpus: int) -> str:
    if backend == "gloo":
        return "gloo on the CPU, as asked"
    if gpus == 0:
        return "gloo on the CPU, because there is no GPU that nccl can use here"
    return (
        f"gloo on the CPU, because {_count(num_ranks, 'rank')} would share {_count(gpus, 'GPU')} "
        "and nccl refuses two ranks on one GPU"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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

    `launch` and `Ranks` call it for their ranks and pass `init_file`. Every wait for another rank, here and in later
    messages of all groups, ends after `timeout_s` seconds.

    Raises:
        ValueError: rank or world size is impossible or not torchrun's, the backend is, or the ranks cannot meet.
        RuntimeError: this process already has a group.
        PeerError: the other ranks did not come in time.
    """
    _check_rank(rank, world_size)
    timeout = timedelta(seconds=deadline(timeout_s))
    _check_free()
    local_rank, local_world_size, make_store = _way_in(rank, world_size, init_file, timeout)
    plan = plan_backend(rank, world_size, backend, local_rank=local_rank, local_world_size=local_world_size)
    try:
        if local_world_size == world_size:
            _keep_on_loopback()
        _join(rank, world_size, plan, make_store, timeout)
    except BaseException:
        teardown()
        raise
    return plan


def teardown() -> None:
    """Leave the process group and put the environment back; without a group, do nothing."""
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    finally:
        _undo.close()


@contextmanager
def counted_rank(rank: int, world_size: int) -> Iterator[None]:
    """Be one rank of a world without the others: messages are counted but not sent, on tensors without values.

    Example: `with counted_rank(0, 16384), record_messages() as ledger:`, on the device `own_device()`, takes a step of
    rank 0 of 16,384 and needs no memory for its weights. Tensors that other ranks would have filled do not change.

    Raises:
        ValueError: there is no such rank.
        RuntimeError: this process already has a group.

    Source: the backend `fake` of torch's own tests.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore  # its import is for those who count

    _check_rank(rank, world_size)
    _check_free()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        teardown()


def _way_in(
    rank: int, world_size: int, init_file: str | os.PathLike[str] | None, timeout: timedelta
) -> tuple[int, int, Callable[[], Store]]:
    """This rank's number on its host, the number of ranks there, and a function that makes the store where all meet.

    They meet in a file, at torchrun's port, or in the process's own memory when it is alone.
    """
    if init_file is not None:
        is_there = Path(init_file).parent.is_dir()  # torch would wait for it
        require(is_there, f"init_file {str(init_file)!r} is in a folder that does not exist; make the folder first")
        return rank, world_size, partial(FileStore, str(init_file), world_size)
    if (given := torchrun_rank()) is not None:
        if given != (rank, world_size):
            raise ValueError(
                f"torchrun made this process rank {given[0]} of {given[1]}, but setup was asked for "
                f"rank {rank} of {world_size}; pass int(os.environ['RANK']) and int(os.environ['WORLD_SIZE'])"
            )
        make_store = partial(_torchruns_store, rank, world_size, timeout)
        return int(os.environ.get("LOCAL_RANK", rank)), int(os.environ.get("LOCAL_WORLD_SIZE", world_size)), make_store
    if world_size == 1:
        return 0, 1, HashStore
    raise ValueError(
        f"rank {rank} of {world_size} has no way to find the others; start the ranks with pllab.comm.launch, "
        f"or with torchrun --nproc-per-node {world_size}"
    )


def torchrun_rank() -> tuple[int, int] | None:
    """The rank of this process and the number of ranks, as torchrun put them into the environment; else None.

    Example: `(1, 2)` for the second of two ranks.
    """
    if not all(name in os.environ for name in _TORCHRUN):
        return None
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def _join(rank: int, world_size: int, plan: BackendPlan, make_store: Callable[[], Store], timeout: timedelta) -> None:
    """Meet the other ranks."""
    # torch gives a subgroup, also one of a mesh, half an hour whatever the group of all ranks has.
    for name in ("default_pg_timeout", "default_pg_nccl_timeout"):
        _undo.callback(setattr, c10d, name, getattr(c10d, name))
        setattr(c10d, name, timeout)
    on_gpu = plan.device if is_gpu(plan.device) else None
    if on_gpu is not None:
        torch.accelerator.set_device_index(on_gpu)
    with in_words(f"the meeting of {world_size} ranks", rank):
        store = make_store()
        store.set_timeout(timeout)
        dist.init_process_group(
            plan.name, store=store, rank=rank, world_size=world_size, timeout=timeout, device_id=on_gpu
        )
        if plan.name == "gloo":
            dist.barrier()  # a quick rank could leave while slow ones still connect, which fails them


def _torchruns_store(rank: int, world_size: int, timeout: timedelta) -> Store:
    """The store of torchrun's agent; without one, rank 0 keeps it."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return TCPStore(address, port, world_size, rank == 0, timeout=timeout, multi_tenant=True)
    return _of_this_attempt(TCPStore(address, port, None, False, timeout=timeout), rank, world_size, timeout)


def _of_this_attempt(kept: Store, rank: int, world_size: int, timeout: timedelta) -> Store:
    """The store of torchrun's agent, under a prefix for this attempt.

    When the agent restarts the ranks it keeps its store, which still holds the addresses of the ended ranks, and it
    gives the new ranks no attempt number that is the same on every host (pytorch issue 135712). So rank 0 makes up a
    name, and another rank uses it only once rank 0 has answered under it.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        kept.set("attempt", own)
        store = PrefixStore(own, kept)
        for other in range(1, world_size):
            store.set(f"welcome {store.get(f'rank {other}').decode()}", "")
        return store
    until = time.monotonic() + timeout.total_seconds()
    while True:
        store = PrefixStore(kept.get("attempt").decode(), kept)
        store.set(f"rank {rank}", own)
        try:
            store.wait([f"welcome {own}"], timedelta(seconds=1))
            return store
        except dist.DistStoreError:  # rank 0 of an earlier attempt, or one that is slow
            if time.monotonic() > until:
                raise


def _keep_on_loopback() -> None:
    """Make gloo listen on the loopback interface only, until teardown; gloo reads the environment when it joins."""
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    if loopback is None:
        return
    if (before := os.environ.get(_IFNAME)) is not None:
        _undo.callback(os.environ.__setitem__, _IFNAME, before)
    _undo.callback(os.environ.pop, _IFNAME, None)  # teardown goes backwards: this one comes first
    os.environ[_IFNAME] = loopback
