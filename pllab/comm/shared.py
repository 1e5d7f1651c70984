"""A sum that never leaves memory: the ranks of one host map each other's tensors and add them up where they lie.

gloo's all-reduce sends every byte through a loopback socket, which copies it into the kernel and out again.
Ranks of one host need no socket: a file in memory, mapped by all, is one piece of memory with several owners.
The files have no name, so a rank that is killed leaves nothing behind.

Source: NCCL's shared-memory transport (`NCCL_SHM_DISABLE` in its documentation) does the same between GPUs.
"""

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from pllab.comm.collectives import all_gather_object, backend_name, rank, world_size
from pllab.comm.errors import in_words
from pllab.comm.ledger import note_tensor

_log = logging.getLogger(__name__)
_FOLDER = "/dev/shm"  # the file system in memory of every Linux
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BLOCK = 2**18  # numbers per block: 1 MiB of float32 is still in a core's cache when it is written out
_ALIGN = 2**10  # chunks begin at multiples of this many numbers, so that no two ranks write into one cache line


@dataclass(frozen=True)
class _Offer:
    """Where the other ranks find the memory of one rank, and how they know that it is the right one."""

    boot_id: str
    pid: int
    descriptor: int
    file_id: tuple[int, int]


class SharedBuffer:
    """A flat tensor of this rank, `.tensor`, that the ranks of one host can sum up without sending it.

    Drawn, for two ranks; each adds up its own half of the numbers and writes it to both:

        rank 0   | a0 b0 |      | a0+a1  b0    |  rank 0 wrote a      | a0+a1  b0+b1 |
        rank 1   | a1 b1 |  ->  | a0+a1  b1    |  rank 1 writes b ->  | a0+a1  b0+b1 |

    `shared_buffer` makes it. Its memory is given back when the buffer and all views of `.tensor` are gone.
    """

    def __init__(self, tensors: list[torch.Tensor], number: int) -> None:
        self._tensors = tensors
        self._number = number
        self.tensor = tensors[number]

    def all_reduce(self) -> None:
        """Replace the tensor, on every rank, by the sum over all ranks, in place; one message in the ledger.

        Every rank gets the same bits, because each number is added up by one rank.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        # Two barriers suffice. After the first, every rank has written its numbers and is in here, and until the
        # second a rank reads and writes nothing but its own chunk of each tensor: chunks are disjoint, so no rank
        # touches what another one touches. After the second, all chunks are summed, and nobody touches a peer's
        # tensor before the first barrier of the next call, which waits for that peer: it may use its tensor until
        # then.
        note_tensor("all_reduce", self.tensor)
        with in_words("all_reduce", rank()), torch.no_grad():
            dist.barrier()
            self._sum_chunk()
            dist.barrier()

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
        """One block of each rank's tensor, the own one first."""
        others = [tensor[where] for number, tensor in enumerate(self._tensors) if number != self._number]
        return [self.tensor[where], *others]


def shared_buffer(numel: int, dtype: torch.dtype, device: torch.device | None = None) -> SharedBuffer | None:
    """Make a flat tensor of zeros that all ranks of the group can sum in memory; None where they cannot.

    Every rank has to call it with the same size and type, and all get a buffer or all get None. They can
    share memory when the group is gloo's with more than one rank, all on one Linux host, with `device` the
    CPU (also meant by None) and enough free space in /dev/shm.

    Example, on two ranks:

        buffer = shared_buffer(2, torch.float32)
        buffer.tensor.fill_(rank() + 1)
        buffer.all_reduce()                        # buffer.tensor is [3., 3.] on both

    Raises:
        ValueError: the ranks ask for different sizes or types; raised on every rank.
        PeerError: another rank went away or did not come in time.
    """
    if backend_name() != "gloo" or world_size() == 1:
        return None
    with ExitStack() as until_all_have_mapped:
        offer = _offer(numel, dtype, device, until_all_have_mapped)
        wishes = all_gather_object((offer, numel, str(dtype)))
        _check_same([wish[1:] for wish in wishes])
        tensors = _map_all([wish[0] for wish in wishes], numel, dtype)
        if not all(all_gather_object(tensors is not None)) or tensors is None:
            return None
    return SharedBuffer(tensors, rank())


def _chunk(numel: int, number: int, num_ranks: int) -> tuple[int, int]:
    """The numbers that one rank adds up: 5000 by 2 ranks are 0 to 3072 and 3072 to 5000."""
    size = -(-numel // (num_ranks * _ALIGN)) * _ALIGN
    return min(number * size, numel), min((number + 1) * size, numel)


def _offer(numel: int, dtype: torch.dtype, device: torch.device | None, stack: ExitStack) -> _Offer | None:
    """Reserve the memory of this rank; None where that cannot be done."""
    if (device is not None and device.type != "cpu") or not hasattr(os, "O_TMPFILE"):
        return None
    try:
        descriptor = os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
        stack.callback(os.close, descriptor)
        # Reserved now: a full /dev/shm is an error here, and would be a killed process at the first write.
        os.posix_fallocate(descriptor, 0, max(1, numel) * dtype.itemsize)
        return _Offer(_BOOT_ID.read_text(), os.getpid(), descriptor, _file_id(descriptor))
    except OSError as error:
        _log.info("rank %d cannot share %d numbers: %s", rank(), numel, error)
        return None


def _map_all(offers: list[_Offer | None], numel: int, dtype: torch.dtype) -> list[torch.Tensor] | None:
    """The tensors of all ranks in this process; None where a rank offers none or runs elsewhere."""
    if len({offer and offer.boot_id for offer in offers}) > 1:
        return None
    try:
        return [_map(offer, numel, dtype) for offer in offers if offer is not None] or None
    except (OSError, RuntimeError) as error:  # torch raises the latter when there is no room for the mapping
        _log.info("rank %d cannot map the memory of another rank: %s", rank(), error)
        return None


def _map(offer: _Offer, numel: int, dtype: torch.dtype) -> torch.Tensor:
    """The memory of one rank as a tensor of this process."""
    descriptor = os.open(f"/proc/{offer.pid}/fd/{offer.descriptor}", os.O_RDWR)
    try:
        if _file_id(descriptor) != offer.file_id:  # in another container the same pid is another process
            raise FileNotFoundError(f"process {offer.pid} has another file at descriptor {offer.descriptor}")
        name = f"/proc/self/fd/{descriptor}"
        return torch.from_file(name, shared=True, size=max(1, numel), dtype=dtype)[:numel]
    finally:
        os.close(descriptor)


def _file_id(descriptor: int) -> tuple[int, int]:
    """What tells a file from all others of one host."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _check_same(wishes: list[tuple[int, str]]) -> None:
    """Refuse buffers of different sizes, which could not be summed."""
    for number, wish in enumerate(wishes):
        if wish != wishes[0]:
            raise ValueError(
                f"rank {number} asks for a shared buffer of {wish[0]} x {wish[1]}, rank 0 for {wishes[0][0]} x "
                f"{wishes[0][1]}; ask for the same on every rank"
            )
