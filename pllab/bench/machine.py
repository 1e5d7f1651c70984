"""What a number was measured on, because a number without its machine says nothing."""

import os
import platform
from pathlib import Path

import torch

from pllab.timeline import Engine


def machine(engine: Engine = "real") -> dict[str, str | int]:
    """What a number was measured on: cpu, cores, device, versions and engine; never the host's name."""
    on_gpu = torch.cuda.is_available()
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "num_gpus": torch.cuda.device_count() if on_gpu else 0,
        "threads_per_rank": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "engine": engine,
    }


def _cpu_model() -> str:
    """The processor's name as the system tells it."""
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
