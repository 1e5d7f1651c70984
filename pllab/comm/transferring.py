"""Collectives made of send and receive: they show what gloo's collectives do.

`pllab.transfers` says who sends what in which round. Here each rank does its part of a round, and goes on when that is
complete.
"""

import torch

from pllab import transfers
from pllab.arguments import require
from pllab.comm.collectives import Group, backend_name, in_world, rank, receive_async, send_async, world_size
from pllab.comm.devices import gpu_backend
from pllab.transfers import Collective, Transfer

_SEGMENT_BYTES = 2**20  # gloo's `kMaxSegmentSize`


def ring_all_reduce(tensor: torch.Tensor, group: Group | None = None) -> None:
    """Replace the tensor, on every rank, by the sum over all ranks, in place, by messages around a ring.

    Worked example with two ranks: [1, 2] on rank 0 and [10, 20] on rank 1 become [11, 22] on both, by two messages of
    one number from each rank. `print(pllab.transfers.ring_all_reduce(2))` lists them.

    Every rank gets the same bits, because each number is added up by one rank. They are gloo's bits too: its
    `all_reduce` goes around the same way, cuts at the same places, and so adds floats in the same order.

    Raises:
        RuntimeError: the tensor is not contiguous.
        ValueError: the backend is not gloo.
        PeerError: another rank went away or did not come in time.
    """
    run_transfers(transfers.ring_all_reduce(world_size(group)), tensor, group)


def tree_broadcast(tensor: torch.Tensor, root: int = 0, group: Group | None = None) -> None:
    """Overwrite the tensor, on every rank, with the one of rank `root` of the group, in place, by messages down a tree.

    Worked example with five ranks: rank 0 sends to 1, 2 and 4, and rank 1 to 3.

    Raises:
        RuntimeError: the tensor is not contiguous.
        ValueError: there is no rank `root`, or the backend is not gloo.
        PeerError: another rank went away or did not come in time.
    """
    run_transfers(transfers.tree_broadcast(world_size(group), root), tensor, group)


def run_transfers(collective: Collective, tensor: torch.Tensor, group: Group | None = None) -> None:
    """Run this rank's part of a collective on its tensor, in place; all ranks call it with the same shape and dtype.

    Example: `run_transfers(pllab.transfers.tree_all_reduce(world_size()), tensor)` sums up and down a tree. It adds in
    another order than a ring, so its floats differ from gloo's in the last bits; whole numbers do not.

    The ledger counts a send for each transfer from this rank and a receive for each one to it.

    Raises:
        RuntimeError: the tensor is not contiguous.
        ValueError: the collective misses its goal or is for another number of ranks, or the backend is not gloo.
        PeerError: another rank went away or did not come in time.
    """
    transfers.check(collective)
    _check_place(collective, group)
    me, flat = rank(group), tensor.detach().view(-1)
    size = _chunk_size(flat, collective.num_chunks)
    chunks = [flat[chunk * size :][:size] for chunk in range(collective.num_chunks)]
    for each in collective.rounds:
        take_part([one for one in each if me in one[:2]], chunks, me, group)


def take_part(mine: list[Transfer], chunks: list[torch.Tensor], me: int, group: Group | None) -> None:
    """Send and receive at the same time, as a ring must; what has arrived is used only once all are done."""
    leaving = [send_async(chunks[one.chunk], in_world(one.to, group), group) for one in mine if one.source == me]
    coming = [(one, torch.empty_like(chunks[one.chunk])) for one in mine if one.to == me]
    arriving = [receive_async(new, in_world(one.source, group), group) for one, new in coming]
    for message in [*arriving, *leaving]:
        message.wait()
    for one, new in coming:
        chunks[one.chunk].add_(new) if one.adds else chunks[one.chunk].copy_(new)


def _chunk_size(flat: torch.Tensor, num_chunks: int) -> int:
    """The length of each chunk except the last ones: a whole number of equal segments, at least two, as gloo cuts them.

    Example: 10 numbers for 3 ranks are 6 segments of 2, so chunks of 4, 4 and 2.
    """
    segments = max(2, -(-flat.numel() * flat.element_size() // (_SEGMENT_BYTES * num_chunks)))
    return segments * -(-flat.numel() // (segments * num_chunks))


def _check_place(collective: Collective, group: Group | None) -> None:
    size = world_size(group)
    require(
        collective.num_ranks == size,
        f"{collective.name} is for {collective.num_ranks} ranks, but there are {size} here; make it for {size}",
    )
    # nccl runs messages of one rank one after the other, so a ring of them would wait for ever.
    require(backend_name() != gpu_backend(), f"{collective.name} by messages needs gloo, and this group is nccl's")
