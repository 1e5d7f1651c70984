"""The most memory this process holds while something runs: torch's count on a GPU, the kernel's on Linux.

Memory that ranks share is resident in each of them. It is counted once: a page that two ranks have mapped
counts half in each (the kernel's proportional set size), which over all ranks is what its owner reserved.
"""

import ctypes
import re
from pathlib import Path

import torch

_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
_SHARED = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ +/dev/shm/")  # such a line begins a mapping in smaps
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")


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
    """The most bytes held since `watch`, less what is held for other ranks.

    Every rank has to call it while all of them still hold what they share.
    """
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    return _status_bytes("VmHWM") - held_for_others(Path("/proc/self/smaps").read_text())


def held_for_others(smaps: str) -> int:
    """Bytes of shared memory that are resident here and counted elsewhere, from the text of /proc/self/smaps.

    Example: two ranks map 8 MiB of /dev/shm each, and each other's: `Rss` is 16 MiB, `Pss` is 8, so 8 MiB.
    """
    num_kib, is_shared = 0, False
    for line in smaps.splitlines():
        if _MAPPING.match(line):
            is_shared = _SHARED.match(line) is not None
        elif is_shared and line.startswith(("Rss:", "Pss:")):
            num_kib += int(line.split()[1]) * (1 if line.startswith("Rss:") else -1)
    return num_kib * 1024


def _status_bytes(key: str) -> int:
    """A line of /proc/self/status, such as `VmHWM:  52340 kB`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))
