"""Messages that are started and not waited for: a pipeline computes while its activations travel.

Two ranks that start messages in the same order, one sending and one receiving, need no other word between them.
"""

from datetime import timedelta

import torch
import torch.distributed as dist

from pllab.comm.collectives import Pending, _check_other, backend_name, rank
from pllab.comm.errors import in_words
from pllab.comm.ledger import note_tensor


class Travelling(Pending):
    """A message to or from one rank, with its tensor, which stays alive until the message is through."""

    def __init__(self, operation: str, work: dist.Work | None, tensor: torch.Tensor) -> None:
        super().__init__(operation, work)
        self.tensor = tensor

    def wait_for(self, timeout_s: float) -> torch.Tensor:
        """Wait at most `timeout_s` seconds and return the tensor; on CUDA, make the current stream wait for it.

        Raises:
            PeerError: the other rank went away or did not come in time.
        """
        if self._work is not None:
            with in_words(self._operation, rank()):
                # nccl would hold up the host; there the group's own watchdog keeps the deadline.
                deadline = () if self.tensor.is_cuda else (timedelta(seconds=timeout_s),)
                self._work.wait(*deadline)
        return self.tensor


def send_async(tensor: torch.Tensor, to: int, group: dist.ProcessGroup | None = None) -> Travelling:
    """Start to send a contiguous tensor to rank `to`; leave it as it is until the message has been waited for.

    Raises:
        ValueError: there is no rank `to`, or it is this one.
        PeerError: the other rank went away.
    """
    _check_other("send to", to)
    note_tensor("send", tensor, to)
    operation = f"send to rank {to}"
    with in_words(operation, rank()):
        return Travelling(operation, dist.isend(tensor, dst=to, group=group), tensor)


def receive_async(tensor: torch.Tensor, source: int, group: dist.ProcessGroup | None = None) -> Travelling:
    """Start to receive what rank `source` sends into the tensor; messages of one sender arrive in their order.

    Raises:
        ValueError: there is no rank `source`, or it is this one.
        PeerError: the other rank went away.
    """
    _check_other("receive from", source)
    note_tensor("receive", tensor, source)
    operation = f"receive from rank {source}"
    with in_words(operation, rank()):
        return Travelling(operation, dist.irecv(tensor, src=source, group=group), tensor)


def one_way_groups(pairs: list[tuple[int, int]]) -> dict[tuple[int, int], dist.ProcessGroup | None]:
    """A group for each direction between two ranks where the backend needs one; all ranks call it alike.

    nccl queues all messages between two ranks one after the other, whichever way they go, so two ranks that both
    start a receive before their send would wait for ever. With a group for each way they do not; gloo needs none.
    """
    if backend_name() != "nccl":
        return dict.fromkeys(pairs)
    return {pair: dist.new_group(list(pair)) for pair in pairs}
