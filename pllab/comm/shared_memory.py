"""Memory that the ranks of one host share, for one purpose: the sum of their gradients.

gloo sends every byte through a loopback socket, which copies it into the kernel and out again. Ranks on one host need
no socket: a file in memory that all of them map is shared memory. The file has no name, so a killed rank leaves
nothing behind.

Source: NCCL's shared-memory transport (`NCCL_SHM_DISABLE` in its documentation) does the same between GPUs.
"""

import os
import re
import socket
from contextlib import ExitStack
from pathlib import Path

import torch
import torch.distributed as dist

from pllab.arguments import require
from pllab.comm import collectives
from pllab.comm.collectives import Pending
from pllab.comm.errors import in_words
from pllab.comm.ledger import note_tensor
from pllab.comm.links import link_is_open

_FOLDER = "/dev/shm"  # the file system in memory of every Linux
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers of a Linux host
_BLOCK = 2**18  # numbers per block: 1 MiB of float32 is still in a core's cache when it is written out
_ALIGN = 2**10  # rows and chunks begin at multiples of this many numbers: no two ranks write into one cache line


def shared_buffer(
    numel: int, dtype: torch.dtype, device: torch.device | None = None, group: dist.ProcessGroup | None = None
) -> "SharedBuffer | None":
    """Make a flat tensor of zeros that all ranks of the group can sum in memory; None if they cannot.

    Every rank calls it with the same size and type, and all get a buffer or all get None. They can share memory if the
    group is gloo's with more than one rank, all on one Linux host and behind no slow link, with enough free space in
    /dev/shm, and the `device` of each is the CPU (None means the CPU).

    Example, on two ranks:

        buffer = shared_buffer(2, torch.float32)
        buffer.tensor.fill_(rank() + 1)
        buffer.all_reduce()                        # buffer.tensor is [3., 3.] on both

    Raises:
        ValueError: the ranks ask for different sizes or types; raised on every rank.
        PeerError: another rank went away or did not come in time.
    """
    if collectives.backend_name() != "gloo" or collectives.world_size(group) == 1 or link_is_open():
        return None
    with ExitStack() as until_all_have_mapped:
        num_bytes = collectives.world_size(group) * _round_up(numel) * dtype.itemsize
        own = _new_file(num_bytes, until_all_have_mapped) if collectives.rank(group) == 0 else None
        host = host_id() if device is None or device.type == "cpu" else None
        sizes, hosts, files = zip(*collectives.all_gather_object((f"{numel} x {dtype}", host, own), group), strict=True)
        for number, size in enumerate(sizes):
            words = f"rank {number} asks for a shared buffer of {size}, rank 0 for {sizes[0]}"
            require(size == sizes[0], f"{words}; ask for the same on every rank")
        can_share = host is not None and set(hosts) == {host} and files[0] is not None
        memory = _map(files[0][0], files[0][1], num_bytes) if can_share else None
        have_mapped = collectives.all_gather_object(memory is not None, group)
    if memory is None or not all(have_mapped):
        return None
    return SharedBuffer(memory.view(dtype).view(len(sizes), -1)[:, :numel], group)


class SharedBuffer:
    """A flat tensor of this rank, `.tensor`, that the ranks of one host can sum without sending it.

    Drawn, for two ranks; each adds up its own half of the numbers and writes it to both:

        rank 0   | a0 b0 |      | a0+a1  b0    |  rank 0 wrote a      | a0+a1  b0+b1 |
        rank 1   | a1 b1 |  ->  | a0+a1  b1    |  rank 1 writes b ->  | a0+a1  b0+b1 |

    `shared_buffer` makes it: `rows` is the memory of all, with a row for each rank. It is freed when the buffers and
    all views of `.tensor` are gone. While a slow link is open, each method sends a message with the same result: ranks
    behind links share no memory.
    """

    def __init__(self, rows: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
        self._rows = rows
        self._number = collectives.rank(group)
        self._group = group
        self.tensor = rows[self._number]

    def all_reduce(self) -> None:
        """Replace the tensor, on every rank, by the sum over all ranks, in place; one message in the ledger.

        Every rank gets the same bits, because each number is added up by one rank.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        if link_is_open():
            return collectives.all_reduce(self.tensor, self._group)
        # Two barriers suffice. After the first, every rank has written its numbers and is in this call. Until the
        # second, a rank reads and writes only its own chunk of each row, and chunks are disjoint. After the second,
        # all chunks are summed. No rank touches a peer's row before the first barrier of the next call, which waits
        # for that peer, so the peer may use its tensor until then.
        note_tensor("all_reduce", self.tensor, group=self._group)
        with in_words("all_reduce", collectives.rank()), torch.no_grad():
            dist.barrier(self._group)
            start, stop = _chunk(self.tensor.numel(), self._number, len(self._rows))
            for low in range(start, stop, _BLOCK):
                total, *others = self._rows[:, low : min(low + _BLOCK, stop)]
                for other in others:
                    total.add_(other)
                for other in others:
                    other.copy_(total)
            dist.barrier(self._group)

    def reduce_scatter_async(self, part: torch.Tensor) -> Pending:
        """Start filling `part` with this rank's share of the sum of all tensors, none of which changes.

        Worked example with two ranks: [1, 2] and [10, 20] give [11] on rank 0 and [22] on rank 1. A shorter part is
        the share of the first numbers only.

        The ranks say that they have written, and go on; `wait()` adds up. Nothing says when all have read: write into
        this tensor again only after the wait for a later call, of another buffer, that came after the wait for this.

        Raises:
            PeerError: another rank went away or did not come in time (also from `wait`).
        """
        size = part.numel()
        used = self.tensor[: size * len(self._rows)]
        if link_is_open():
            return collectives.reduce_scatter_async(part, used, self._group)
        note_tensor("reduce_scatter", used, group=self._group)
        with in_words("reduce_scatter", collectives.rank()):
            all_have_written = dist.barrier(self._group, async_op=True)
        return _PendingSum(all_have_written, part, self._rows[:, self._number * size :][:, :size])


class _PendingSum(Pending):
    """A sum in shared memory: `wait()` adds up this rank's share once all ranks have written."""

    def __init__(self, all_have_written: dist.Work, part: torch.Tensor, rows: torch.Tensor) -> None:
        super().__init__("reduce_scatter", all_have_written)
        self._part, self._rows = part, rows

    def wait(self) -> None:
        """Fill the part with the sum of the rows."""
        super().wait()
        first, second, *others = self._rows
        torch.add(first, second, out=self._part)
        for other in others:
            self._part.add_(other)


def _chunk(numel: int, number: int, num_ranks: int) -> tuple[int, int]:
    """The numbers that one rank adds up: 5000 by 2 ranks are 0 to 3072 and 3072 to 5000."""
    size = _round_up(-(-numel // num_ranks))
    return min(number * size, numel), min((number + 1) * size, numel)


def _round_up(numel: int) -> int:
    return max(1, -(-numel // _ALIGN)) * _ALIGN


def _new_file(num_bytes: int, until_all_have_mapped: ExitStack) -> tuple[str, tuple[int, int]] | None:
    """Reserve the memory; None if that fails."""
    try:
        descriptor = os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
        until_all_have_mapped.callback(os.close, descriptor)
        # Reserved now: a full /dev/shm is an error here, and would be a killed process at the first write.
        os.posix_fallocate(descriptor, 0, num_bytes)
        return f"/proc/{os.getpid()}/fd/{descriptor}", _identity(descriptor)
    except (OSError, AttributeError):  # the latter where there is no O_TMPFILE
        return None


def _map(path: str, identity: tuple[int, int], num_bytes: int) -> torch.Tensor | None:
    """The memory of all in this process; None if that fails."""
    try:
        with ExitStack() as until_mapped:
            descriptor = os.open(path, os.O_RDWR)
            until_mapped.callback(os.close, descriptor)
            if _identity(descriptor) != identity:  # in another container the same pid is another process
                return None
            return torch.from_file(f"/proc/self/fd/{descriptor}", shared=True, size=num_bytes, dtype=torch.uint8)
    except (OSError, RuntimeError):  # torch raises the latter when there is no room for the mapping
        return None


def _identity(descriptor: int) -> tuple[int, int]:
    """An identity of a file on this host."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def held_for_others() -> int:
    """Bytes of shared memory that are resident here and counted elsewhere, from /proc/self/smaps.

    Example: two ranks share 16 MiB of /dev/shm, 8 for each: `Rss` is 16 MiB, `Pss` is 8, so 8 MiB. `Pss` is the
    proportional set size: a page that two ranks have mapped counts half in each.
    """
    smaps = Path("/proc/self/smaps").read_text() if Path("/proc/self/smaps").exists() else ""
    sizes = re.findall(r" /dev/shm/.*\n(?:[A-Z].*\n)*?Rss: +(\d+) kB\n(?:[A-Z].*\n)*?Pss: +(\d+) kB", smaps)
    return sum(int(resident) - int(proportional) for resident, proportional in sizes) * 1024


def host_id() -> str:
    """An identity of this host: on Linux the random number of its last boot, elsewhere its name."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()
