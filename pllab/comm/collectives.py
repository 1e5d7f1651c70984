"""The messages: thin functions over torch.distributed that also work in a world of one.

They add three things and nothing else: without a group they act as a world of one, an open ledger counts
them, and a peer that went away is one sentence that names the operation and the rank. They use the default
group and keep torch's conventions: `all_reduce` works in place and returns None; gloo sums, so an average
divides afterwards.
"""

import pickle
from typing import Any

import torch
import torch.distributed as dist

from pllab.comm.errors import in_words
from pllab.comm.ledger import listening, note, note_tensor


def rank() -> int:
    """This process's number in the group; 0 without a group."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many ranks the group has; 1 without a group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def backend_name() -> str | None:
    """The group's backend, `gloo` or `nccl`; None without a group."""
    return dist.get_backend() if dist.is_initialized() else None


def barrier() -> None:
    """Wait until every rank is here.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    note("barrier", (), 0)
    if not dist.is_initialized():
        return
    with in_words("barrier", rank()):
        dist.barrier(device_ids=[torch.cuda.current_device()] if backend_name() == "nccl" else None)


def all_reduce(tensor: torch.Tensor) -> None:
    """Replace the tensor, on every rank, by the sum over all ranks, in place.

    Worked example with two ranks: [1, 2] on rank 0 and [10, 20] on rank 1 become [11, 22] on both.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    note_tensor("all_reduce", tensor)
    if not dist.is_initialized():
        return
    with in_words("all_reduce", rank()):
        dist.all_reduce(tensor)


class Pending:
    """A message under way: `wait()` returns when the tensor holds the result."""

    def __init__(self, operation: str, work: dist.Work | None) -> None:
        self._operation = operation
        self._work = work

    def wait(self) -> None:
        """Wait for the result; on CUDA, make the current stream wait for it.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        if self._work is None:
            return
        with in_words(self._operation, rank()):
            self._work.wait()

    def done(self) -> bool:
        """Whether the result is there; never waits."""
        return self._work is None or self._work.is_completed()


def all_reduce_async(tensor: torch.Tensor) -> Pending:
    """Start an `all_reduce` and return at once; the tensor must not be touched before `wait()` returns.

    Raises:
        PeerError: another rank went away (also from `wait`).
    """
    note_tensor("all_reduce", tensor)
    if not dist.is_initialized():
        return Pending("all_reduce", None)
    with in_words("all_reduce", rank()):
        return Pending("all_reduce", dist.all_reduce(tensor, async_op=True))


def broadcast(tensor: torch.Tensor, source: int = 0) -> None:
    """Overwrite the tensor, on every rank, with the one of rank `source`, in place.

    Raises:
        ValueError: there is no rank `source`.
        PeerError: another rank went away or did not come in time.
    """
    _check_peer("broadcast from", source)
    note_tensor("broadcast", tensor, source)
    if not dist.is_initialized():
        return
    with in_words("broadcast", rank()):
        dist.broadcast(tensor, src=source)


def send(tensor: torch.Tensor, to: int) -> None:
    """Send the tensor to rank `to`, which has to `receive` one of the same shape and dtype.

    Raises:
        ValueError: there is no rank `to`, or it is this one.
        PeerError: the other rank went away or did not come in time.
    """
    _check_other("send to", to)
    note_tensor("send", tensor, to)
    with in_words(f"send to rank {to}", rank()):
        dist.send(tensor, dst=to)


def receive(tensor: torch.Tensor, source: int) -> None:
    """Overwrite the tensor with the one that rank `source` sends.

    Raises:
        ValueError: there is no rank `source`, or it is this one.
        PeerError: the other rank went away or did not come in time.
    """
    _check_other("receive from", source)
    note_tensor("receive", tensor, source)
    with in_words(f"receive from rank {source}", rank()):
        dist.recv(tensor, src=source)


def all_gather_object(value: Any) -> list[Any]:
    """Collect one picklable value per rank, in order of rank, on every rank.

    Worked example with two ranks: 3 on rank 0 and 5 on rank 1 give [3, 5] on both.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    if listening():
        note("all_gather_object", (), len(pickle.dumps(value)))
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * world_size()
    with in_words("all_gather_object", rank()):
        dist.all_gather_object(values, value)
    return values


def _check_peer(action: str, peer: int) -> None:
    if not 0 <= peer < world_size():
        raise ValueError(f"cannot {action} rank {peer} in a world of {world_size()}; ranks start at 0")


def _check_other(action: str, peer: int) -> None:
    """Refuse a message to oneself: send and receive need a second rank."""
    _check_peer(action, peer)
    if peer == rank():
        raise ValueError(f"rank {peer} cannot {action} itself; name another rank")
