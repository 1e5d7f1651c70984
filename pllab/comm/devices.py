"""Which GPUs there are, and which of them this process uses: the same words for every kind of GPU that torch knows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
import torch.distributed as dist

from pllab import accelerator


def num_gpus() -> int:
    """GPUs that torch can use here."""
    found = torch.accelerator.current_accelerator()
    return torch.accelerator.device_count() if found is not None and found.type == accelerator.KIND else 0


def is_gpu(device: torch.device) -> bool:
    """Whether the device is a GPU, not a lane of the CPU or the meta device."""
    return device.type == accelerator.KIND


def current_gpu() -> torch.device:
    """The GPU that this thread uses unless it names another."""
    return accelerator.gpu(torch.accelerator.current_device_index())


def used_gpus() -> list[torch.device]:
    """The GPUs that hold memory of this process; to ask makes no context on the others."""
    gpus = map(accelerator.gpu, range(num_gpus()))
    return [gpu for gpu in gpus if accelerator.peak_bytes(gpu) > 0]


def synchronize() -> None:
    """Wait until the GPUs that this process uses have done all that was queued; on the CPU, return at once."""
    for gpu in used_gpus():
        accelerator.synchronize(gpu)


def gpu_backend() -> str:
    """The backend of torch.distributed whose messages are tensors of GPUs."""
    return dist.get_default_backend_for_device(accelerator.KIND)


def event_after(stream: torch.Stream, *, is_timed: bool = False) -> torch.Event:
    """An event after all that is queued on the stream so far."""
    event = accelerator.Event(stream.device, enable_timing=is_timed)
    event.record(stream)
    return event


def large_product(device: torch.device, dtype: torch.dtype) -> tuple[int, Callable[[], object]]:
    """The FLOP of a product of two square matrices that keeps a device busy, and a call that computes it.

    Example: on a CPU 2 x 1024^3 = 2.1e9. Over the seconds of the fastest of some calls, it is the FLOP/s of the device.
    """
    size = 8192 if is_gpu(device) else 1024
    left, right, product = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(3))
    return 2 * size**3, partial(torch.mm, left, right, out=product)


def fork_rng(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random state of the CPU and of this one device after the block, and touch no other GPU."""
    if is_gpu(device):
        return torch.random.fork_rng([device.index or 0], device_type=accelerator.KIND)
    return torch.random.fork_rng([])
