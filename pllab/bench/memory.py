"""The most memory this process holds while something runs: torch's count on a GPU, the kernel's on Linux."""

import ctypes
from pathlib import Path

import torch

_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


def watch() -> int | None:
    """Reset the high-water mark and return the bytes held now; None where the kernel keeps no such mark."""
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    _return_freed_memory()
    reset.write_text("5")
    return _status_bytes("VmRSS")


def _return_freed_memory() -> None:
    """Let tensors above 64 KiB go back to the kernel when freed, so that the mark counts them and not holes.

    By default glibc keeps freed blocks of up to 32 MiB, which adds tens of MiB that differ from run to run.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, 2**16)


def highest() -> int:
    """The most bytes held since `watch`."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else _status_bytes("VmHWM")


def _status_bytes(key: str) -> int:
    """A line of /proc/self/status, such as `VmHWM:  52340 kB`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))
