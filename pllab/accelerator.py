"""The GPUs that pllab runs on: the one file that names torch.cuda and nccl.

Device, index, count, streams and the backend of messages go through `torch.accelerator` and
`torch.distributed.get_default_backend_for_device`, which treat every kind of GPU alike. What torch 2.13 does not offer
for every kind is here: the kind's name, waiting, events with times, and memory. The tests put a pretended GPU in
the place of this file.
"""

from typing import Final, Literal

import torch

KIND: Final = "cuda"
Backend = Literal["gloo", "nccl"]
Event = torch.Event


def gpu(index: int) -> torch.device:
    """The GPU with this number."""
    return torch.device(KIND, index)


def name_of(index: int) -> str:
    """The maker's name of the GPU with this number."""
    return torch.cuda.get_device_name(index)


def synchronize(device: torch.device) -> None:
    """Wait until this GPU has done all queued work; makes a context on it if this process has none yet."""
    torch.cuda.synchronize(device)


def peak_bytes(device: torch.device) -> int:
    """The most bytes that this process's tensors held on this GPU since the last `reset_peak_bytes`."""
    return torch.cuda.max_memory_allocated(device)


def reset_peak_bytes(device: torch.device) -> None:
    """Restart the count of `peak_bytes`."""
    torch.cuda.reset_peak_memory_stats(device)
