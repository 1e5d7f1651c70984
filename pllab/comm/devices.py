"""The machine: its cores and GPUs, which of them this process uses, and its description beside a measurement.

The same words for every kind of GPU that torch knows. A number without its machine says nothing, so the trainer and the
benches write the description beside their results, and the doctor prints it.
"""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from pllab import accelerator


def num_gpus() -> int:
    """GPUs that torch can use here."""
    # device_count believes the driver, which also counts GPUs that it is too old for.
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.accelerator.device_count() if found is not None and found.type == accelerator.KIND else 0


def is_gpu(device: torch.device) -> bool:
    """Whether the device is a GPU, not a lane of the CPU or the meta device."""
    return device.type == accelerator.KIND


def current_gpu() -> torch.device:
    """The GPU that this thread uses unless it names another."""
    return accelerator.gpu(torch.accelerator.current_device_index())


def used_gpus() -> list[torch.device]:
    """The GPUs that hold memory of this process; asking makes no context on the others."""
    gpus = map(accelerator.gpu, range(num_gpus()))
    return [gpu for gpu in gpus if accelerator.peak_bytes(gpu) > 0]


def synchronize() -> None:
    """Wait until the GPUs that this process uses have done all queued work; on the CPU, return at once."""
    for gpu in used_gpus():
        accelerator.synchronize(gpu)


def gpu_backend() -> str:
    """The backend of torch.distributed that sends GPU tensors."""
    return dist.get_default_backend_for_device(accelerator.KIND)


def event_after(stream: torch.Stream, *, is_timed: bool = False) -> torch.Event:
    """An event after all that is queued on the stream so far."""
    event = accelerator.Event(stream.device, enable_timing=is_timed)
    event.record(stream)
    return event


def large_product(device: torch.device, dtype: torch.dtype) -> tuple[int, Callable[[], object]]:
    """The FLOP of a product of two square matrices that keeps a device busy, and a call that computes it.

    Example: on a CPU 2 x 1024^3 = 2.1e9. Divided by the seconds of the fastest call, it gives the device's FLOP/s. The
    matrices are smaller where the device has no room for them.
    """
    size = 8192 if is_gpu(device) else 1024
    while True:
        with suppress(torch.OutOfMemoryError):  # beside a trained model there may be no room
            left, right, product = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(3))
            return 2 * size**3, partial(torch.mm, left, right, out=product)
        size //= 2


def fork_rng(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random state of the CPU and of this one device after the block, and touch no other GPU."""
    if is_gpu(device):
        return torch.random.fork_rng([device.index or 0], device_type=accelerator.KIND)
    return torch.random.fork_rng([])


def num_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Compute with this many threads inside the block; comparisons use one thread per device."""
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
    gpus = num_gpus()
    return {
        "cpu": _processor(),
        "cores": num_cores(),
        "device": accelerator.name_of(current_gpu().index) if gpus else "cpu",
        "num_gpus": gpus,
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
