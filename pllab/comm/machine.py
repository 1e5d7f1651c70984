"""Describe the machine of a measurement, because a number without its machine says nothing.

This is the lowest room that knows torch and its devices. The trainer and the benches, which may not import each other,
write the description beside their results, and the doctor prints it.
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from pllab import accelerator
from pllab.comm import devices


def num_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Compute with this many threads inside the block; what is compared has one thread per device."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def describe_machine() -> dict[str, str | int]:
    """Processor, cores, device, threads and versions; never the host's name.

    Example: `describe_machine()["cores"]` is 2 on a laptop with two cores, and `["num_gpus"]` is 0 if it has no GPU.
    """
    num_gpus = devices.num_gpus()
    return {
        "cpu": _processor(),
        "cores": num_cores(),
        "device": accelerator.name_of(0) if num_gpus else "cpu",
        "num_gpus": num_gpus,
        "threads_per_rank": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The processor's trade name if Linux knows it, else the architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
