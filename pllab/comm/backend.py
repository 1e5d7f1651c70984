"""Which backend and device a rank gets, and why: decided before anything starts, and told in a sentence.

nccl refuses two ranks on one GPU, and finds out late and in words few people understand. So the plan is made
from two counts, ranks on this host and GPUs on this host.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class BackendPlan:
    """The backend's name (`nccl` or `gloo`), this rank's device, and the reason in a sentence."""

    name: str
    device: torch.device
    reason: str


def check_rank(rank: int, world_size: int) -> None:
    """Refuse a rank outside its world.

    Raises:
        ValueError: the world is smaller than one, or the rank is not in 0 .. world_size - 1.
    """
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; a group needs at least 1 rank")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not in a world of {world_size}; ranks go from 0 to {world_size - 1}")


def plan_backend(
    rank: int,
    world_size: int,
    backend: str | None = None,
    *,
    local_rank: int | None = None,
    local_world_size: int | None = None,
    num_gpus: int | None = None,
) -> BackendPlan:
    """Choose nccl when every rank of this host has a GPU of its own, else gloo on the CPU.

    Worked example, by ranks and GPUs of one host:

        2 ranks, 2 GPUs   nccl   cuda:0 and cuda:1
        2 ranks, 1 GPU    gloo   cpu, because nccl refuses two ranks on one GPU
        2 ranks, 0 GPUs   gloo   cpu

    The local counts default to the whole world (one host); `num_gpus` defaults to what torch can use here.

    Raises:
        ValueError: rank or world out of range, an unknown backend, or nccl with fewer GPUs than ranks.
    """
    check_rank(rank, world_size)
    if backend not in (None, "nccl", "gloo"):
        raise ValueError(f"backend {backend!r} is unknown; choose nccl, gloo, or leave it out")
    ranks_here = world_size if local_world_size is None else local_world_size
    gpus = _usable_gpus() if num_gpus is None else num_gpus
    if backend == "nccl" and gpus < ranks_here:
        raise ValueError(
            f"nccl needs one GPU per rank, and this host has {_count(ranks_here, 'rank')} "
            f"and {_count(gpus, 'GPU')}; leave the backend out, or ask for gloo"
        )
    if backend == "gloo" or gpus < ranks_here:
        return BackendPlan("gloo", torch.device("cpu"), _why_gloo(backend, ranks_here, gpus))
    device = torch.device("cuda", rank if local_rank is None else local_rank)
    counts = f"{_count(ranks_here, 'rank')} and {_count(gpus, 'GPU')}"
    return BackendPlan("nccl", device, f"nccl on {device}, because each rank has its own GPU ({counts} here)")


def _usable_gpus() -> int:
    """GPUs that nccl can use here; 0 on a build without nccl."""
    return torch.cuda.device_count() if torch.cuda.is_available() and dist.is_nccl_available() else 0


def _why_gloo(backend: str | None, ranks_here: int, gpus: int) -> str:
    if backend == "gloo":
        return "gloo on the CPU, as asked"
    if gpus == 0:
        return "gloo on the CPU, because there is no GPU that nccl can use here"
    return (
        f"gloo on the CPU, because {_count(ranks_here, 'rank')} would share {_count(gpus, 'GPU')} "
        "and nccl refuses two ranks on one GPU"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
