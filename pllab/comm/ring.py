"""Pass a tensor around a ring: the smallest exchange in which every rank sends and receives.

It is also the smallest one that can deadlock. If every rank sends first, every send waits for a receive that
nobody has started. So the send is started here, and waited for after the receive.
"""

import torch
import torch.distributed as dist

from pllab.comm.collectives import rank, receive, world_size
from pllab.comm.errors import in_words
from pllab.comm.ledger import note


def ring_pass(tensor: torch.Tensor) -> torch.Tensor:
    """Send the tensor to the next rank and return the one that the previous rank sent; all ranks call it.

    Worked example with three ranks:

        rank            0    1    2
        passes on       a    b    c
        returns         c    a    b

    Every rank passes the same shape and dtype; the tensor stays as it is. A rank alone gets a copy of its own.

    Raises:
        PeerError: a neighbour went away or did not come in time.
    """
    here, size = rank(), world_size()
    if size == 1:
        return tensor.clone()
    following, previous = (here + 1) % size, (here - 1) % size
    received = torch.empty_like(tensor)
    note("send", tuple(tensor.shape), tensor.numel() * tensor.element_size(), following)
    with in_words(f"send to rank {following}", here):
        sending = dist.isend(tensor, dst=following)  # started, not waited for: all ranks can be here at once
        receive(received, previous)
        if sending is not None:
            sending.wait()
    return received
