"""Memory that the ranks of one host share: mapped by all of them, and a sum that never leaves it.

gloo sends every byte through a loopback socket, which copies it into the kernel and out again. Ranks of one host need
no socket: a file in memory, mapped by all, is memory that they share. The files have no name, so a killed rank leaves
nothing behind.

Source: NCCL's shared-memory transport (`NCCL_SHM_DISABLE` in its documentation) does the same between GPUs.
"""

import logging
import os
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from pllab.arguments import whole_number
from pllab.comm.collectives import (
    all_gather_async,
    all_gather_object,
    all_reduce,
    backend_name,
    rank,
    reduce_scatter_async,
    world_size,
)
from pllab.comm.errors import in_words
from pllab.comm.ledger import note_tensor
from pllab.comm.links import link_is_open

_log = logging.getLogger(__name__)
_FOLDER = "/dev/shm"  # the file system in memory of every Linux
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers of a Linux host
_SMAPS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")  # such a line begins a mapping in smaps
_BLOCK = 2**18  # numbers per block: 1 MiB of float32 is still in a core's cache when it is written out
_ALIGN = 2**10  # chunks begin at multiples of this many numbers, so that no two ranks write into one cache line


@dataclass(frozen=True)
class _Offer:
    """Where the other ranks find the memory of one rank, and how they check that it is the right one."""

    num_bytes: int
    host_id: str
    pid: int
    descriptor: int
    file_id: tuple[int, int]


def map_shared_memory(num_bytes: int, group: dist.ProcessGroup | None = None) -> list[torch.Tensor] | None:
    """Map memory of every rank into every rank; all ranks call it, each with the number of bytes it wants of its own.

    Drawn, for two ranks that ask for 3 and for 2 bytes; both get a list of the same two tensors:

        rank 0   | a a a |   tensor 0, shape (3,), uint8
        rank 1   | b b |     tensor 1, shape (2,), uint8

    The bytes begin as zeros. All ranks see what one rank writes, so they must agree on who writes when. A tensor's
    memory is freed when no rank has a view of it any more.

    Returns None, on every rank, if the ranks cannot share memory. They can if the group is gloo's with more than one
    rank, all on one Linux host and behind no slow link, with enough free space in /dev/shm.

    Raises:
        ValueError: `num_bytes` is not a whole number of at least 0.
        PeerError: another rank went away or did not come in time.
    """
    num_bytes = whole_number("num_bytes", num_bytes, least=0)
    if backend_name() != "gloo" or world_size(group) == 1 or link_is_open():
        return None
    with ExitStack() as until_all_have_mapped:
        offers = all_gather_object(_offer(num_bytes, until_all_have_mapped), group)
        tensors = _map_all(offers)
        has_worked = all_gather_object(tensors is not None, group)
    return tensors if all(has_worked) else None


def held_for_others(smaps: str | None = None) -> int:
    """Bytes of shared memory that are resident here and counted elsewhere, from /proc/self/smaps or a text like it.

    Example: two ranks map 8 MiB of /dev/shm each, and each other's: `Rss` is 16 MiB, `Pss` is 8, so 8 MiB. `Pss` is the
    proportional set size: a page that two ranks have mapped counts half in each.
    """
    if smaps is None:
        smaps = _SMAPS.read_text() if _SMAPS.exists() else ""
    num_kib, is_shared = 0, False
    for line in smaps.splitlines():
        if _MAPPING.match(line):
            is_shared = " /dev/shm/" in line
        elif is_shared and line.startswith(("Rss:", "Pss:")):
            num_kib += int(line.split()[1]) * (1 if line.startswith("Rss:") else -1)
    return num_kib * 1024


def host_id() -> str:
    """An identity of this host: on Linux the random number of its last boot, elsewhere its name."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def _offer(num_bytes: int, until_all_have_mapped: ExitStack) -> _Offer | None:
    """Reserve the memory of this rank; None if that fails."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        descriptor = os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
        until_all_have_mapped.callback(os.close, descriptor)
        # Reserved now: a full /dev/shm is an error here, and would be a killed process at the first write.
        os.posix_fallocate(descriptor, 0, max(1, num_bytes))
        return _Offer(num_bytes, host_id(), os.getpid(), descriptor, _file_id(descriptor))
    except (OSError, OverflowError) as error:
        _log.info("rank %d cannot share %d bytes: %s", rank(), num_bytes, error)
        return None


def _map_all(offers: list[_Offer | None]) -> list[torch.Tensor] | None:
    """The memory of all ranks in this process; None if a rank offers none or runs on another host."""
    if len({offer and offer.host_id for offer in offers}) > 1:
        return None
    try:
        return [_map(offer) for offer in offers if offer is not None] or None
    except (OSError, RuntimeError) as error:  # torch raises the latter when there is no room for the mapping
        _log.info("rank %d cannot map the memory of another rank: %s", rank(), error)
        return None


def _map(offer: _Offer) -> torch.Tensor:
    """The memory of one rank as a tensor of this process."""
    descriptor = os.open(f"/proc/{offer.pid}/fd/{offer.descriptor}", os.O_RDWR)
    try:
        if _file_id(descriptor) != offer.file_id:  # in another container the same pid is another process
            raise FileNotFoundError(f"process {offer.pid} has another file at descriptor {offer.descriptor}")
        name, size = f"/proc/self/fd/{descriptor}", max(1, offer.num_bytes)
        return torch.from_file(name, shared=True, size=size, dtype=torch.uint8)[: offer.num_bytes]
    finally:
        os.close(descriptor)


def _file_id(descriptor: int) -> tuple[int, int]:
    """An identity of a file on this host."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class SharedBuffer:
    """A flat tensor of this rank, `.tensor`, that the ranks of one host can sum up without sending it.

    Drawn, for two ranks; each adds up its own half of the numbers and writes it to both:

        rank 0   | a0 b0 |      | a0+a1  b0    |  rank 0 wrote a      | a0+a1  b0+b1 |
        rank 1   | a1 b1 |  ->  | a0+a1  b1    |  rank 1 writes b ->  | a0+a1  b0+b1 |

    `shared_buffer` makes it. Its memory is freed when the buffer and all views of `.tensor` are gone. While a slow link
    is open, each method sends a message with the same result: ranks behind links share no memory.
    """

    def __init__(self, tensors: list[torch.Tensor], group: dist.ProcessGroup | None = None) -> None:
        self._tensors = tensors
        self._number = rank(group)
        self._group = group
        self.tensor = tensors[self._number]

    def all_reduce(self) -> None:
        """Replace the tensor, on every rank, by the sum over all ranks, in place; one message in the ledger.

        Every rank gets the same bits, because each number is added up by one rank.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        if link_is_open():
            return all_reduce(self.tensor, self._group)
        # Two barriers suffice. After the first, every rank has written its numbers and is in this call. Until the
        # second, a rank reads and writes only its own chunk of each tensor, and chunks are disjoint. After the second,
        # all chunks are summed. No rank touches a peer's tensor before the first barrier of the next call, which waits
        # for that peer, so the peer may use its tensor until then.
        note_tensor("all_reduce", self.tensor, group=self._group)
        with in_words("all_reduce", rank()), torch.no_grad():
            dist.barrier(self._group)
            self._sum_chunk()
            dist.barrier(self._group)

    def gather(self, whole: torch.Tensor) -> None:
        """Copy the tensors of all ranks, side by side, into `whole`; nothing is sent.

        Who writes to its tensor later waits at a barrier first, and who has written before this, too.
        """
        if link_is_open():
            return all_gather_async(whole, self.tensor.to(whole.dtype), self._group).wait()
        note_tensor("all_gather", self.tensor, group=self._group)
        with in_words("all_gather", rank()):
            torch.cat(self._tensors, out=whole) if whole.dtype == self.tensor.dtype else self._cast_into(whole)

    def reduce_scatter(self, part: torch.Tensor) -> None:
        """Fill `part` with this rank's share of the sum of all tensors; ranks write theirs again after a barrier.

        Worked example with two ranks: [1, 2] and [10, 20] give [11] on rank 0 and [22] on rank 1. A shorter part is
        the share of the first numbers only.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        size = part.numel()
        used = self.tensor[: size * len(self._tensors)]
        if link_is_open():
            return reduce_scatter_async(part, used, self._group).wait()
        note_tensor("reduce_scatter", used, group=self._group)
        with in_words("reduce_scatter", rank()):
            dist.barrier(self._group)
            first, second, *others = (tensor[self._number * size :][:size] for tensor in self._tensors)
            torch.add(first, second, out=part)
            for other in others:
                part.add_(other)

    def _cast_into(self, whole: torch.Tensor) -> None:
        for piece, tensor in zip(whole.chunk(len(self._tensors)), self._tensors, strict=True):
            piece.copy_(tensor)

    def _sum_chunk(self) -> None:
        """Add up this rank's share of the numbers over all ranks and give everyone the sum, block by block."""
        start, stop = _chunk(self.tensor.numel(), self._number, len(self._tensors))
        for low in range(start, stop, _BLOCK):
            total, *others = self._blocks(slice(low, min(low + _BLOCK, stop)))
            for other in others:
                total.add_(other)
            for other in others:
                other.copy_(total)

    def _blocks(self, where: slice) -> list[torch.Tensor]:
        """One block of each rank's tensor, this rank's first."""
        others = [tensor[where] for number, tensor in enumerate(self._tensors) if number != self._number]
        return [self.tensor[where], *others]


def shared_buffer(
    numel: int, dtype: torch.dtype, device: torch.device | None = None, group: dist.ProcessGroup | None = None
) -> SharedBuffer | None:
    """Make a flat tensor of zeros that all ranks of the group can sum in memory; None if they cannot.

    Every rank calls it with the same size and type, and all get a buffer or all get None. They get None if
    `map_shared_memory` returns None, or if the `device` of a rank is not the CPU (None means the CPU).

    Example, on two ranks:

        buffer = shared_buffer(2, torch.float32)
        buffer.tensor.fill_(rank() + 1)
        buffer.all_reduce()                        # buffer.tensor is [3., 3.] on both

    Raises:
        ValueError: the ranks ask for different sizes or types; raised on every rank.
        PeerError: another rank went away or did not come in time.
    """
    if backend_name() != "gloo" or world_size(group) == 1:
        return None
    on_cpu = device is None or device.type == "cpu"
    wishes = all_gather_object((numel, str(dtype), on_cpu), group)
    for number, wish in enumerate(wishes):
        if wish[:2] != wishes[0][:2]:
            raise ValueError(
                f"rank {number} asks for a shared buffer of {wish[0]} x {wish[1]}, rank 0 for {wishes[0][0]} x "
                f"{wishes[0][1]}; ask for the same on every rank"
            )
    tensors = map_shared_memory(numel * dtype.itemsize, group) if all(wish[2] for wish in wishes) else None
    return None if tensors is None else SharedBuffer([tensor.view(dtype) for tensor in tensors], group)


def _chunk(numel: int, number: int, num_ranks: int) -> tuple[int, int]:
    """The numbers that one rank adds up: 5000 by 2 ranks are 0 to 3072 and 3072 to 5000."""
    size = -(-numel // (num_ranks * _ALIGN)) * _ALIGN
    return min(number * size, numel), min((number + 1) * size, numel)
