"""The messages: thin functions over torch.distributed that also work in a world of one.

They add three things and nothing else: without a group they act as a world of one, an open ledger counts them, and a
peer that went away is one sentence that names the operation and the rank. They keep torch's conventions: `all_reduce`
works in place and returns None; gloo sums, so an average divides afterwards.

In order: who is here, collectives of all ranks, messages between two ranks, groups inside the world.
"""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pllab.comm.errors import in_words
from pllab.comm.ledger import ledger_is_open, note, note_tensor


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


def all_gather_object(value: Any) -> list[Any]:
    """Collect one picklable value per rank, in order of rank, on every rank.

    Worked example with two ranks: 3 on rank 0 and 5 on rank 1 give [3, 5] on both.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    if ledger_is_open():
        note("all_gather_object", (), len(pickle.dumps(value)))
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * world_size()
    with in_words("all_gather_object", rank()):
        dist.all_gather_object(values, value)
    return values


def send(tensor: torch.Tensor, to: int) -> None:
    """Send the tensor to rank `to`, which has to `receive` one of the same shape and dtype.

    Raises:
        ValueError: there is no rank `to`, or it is this one.
        PeerError: the other rank went away or did not come in time.
    """
    send_async(tensor, to).wait()


def receive(tensor: torch.Tensor, source: int) -> None:
    """Overwrite the tensor with the one that rank `source` sends.

    Raises:
        ValueError: there is no rank `source`, or it is this one.
        PeerError: the other rank went away or did not come in time.
    """
    receive_async(tensor, source).wait()


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
    """Start to send a contiguous tensor to rank `to`; do not change it before `wait_for` has returned.

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
    """Start to receive a tensor from rank `source`; messages of one sender arrive in order.

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
    """A group for each direction between two ranks, if the backend needs one; all ranks call it with the same pairs.

    nccl queues all messages between two ranks, in both directions, one after the other. So two ranks that both start a
    receive before their send would wait for ever. A group for each direction prevents that; gloo needs none.
    """
    if backend_name() != "nccl":
        return dict.fromkeys(pairs)
    return {pair: dist.new_group(list(pair)) for pair in pairs}


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
    number, size = rank(), world_size()
    if size == 1:
        return tensor.clone()
    received = torch.empty_like(tensor)
    sending = send_async(tensor, (number + 1) % size)  # do not wait yet: all ranks send at the same time
    receive(received, (number - 1) % size)
    sending.wait()
    return received


def _check_peer(action: str, peer: int) -> None:
    if not 0 <= peer < world_size():
        raise ValueError(f"cannot {action} rank {peer} in a world of {world_size()}; ranks start at 0")


def _check_other(action: str, peer: int) -> None:
    """Refuse a message to oneself: send and receive need a second rank."""
    _check_peer(action, peer)
    if peer == rank():
        raise ValueError(f"rank {peer} cannot {action} itself; name another rank")


def make_groups(members: Sequence[Sequence[int]]) -> list[dist.ProcessGroup]:
    """Make one group for each list of ranks and return this rank's groups, in the same order.

    Worked example with three ranks and `members = [[0, 1], [1, 2]]`: rank 0 gets one group, rank 1 gets two,
    rank 2 gets one. All ranks call it, with the same `members`.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    groups = []
    for ranks in members:
        with in_words(f"new_group({list(ranks)})", rank()):
            group = dist.new_group(list(ranks))  # every rank, every group
        if rank() in ranks:
            groups.append(group)
    return groups


def sum_in_group(group: dist.ProcessGroup, tensor: torch.Tensor) -> None:
    """Replace the tensor, on every member of the group, by the sum over the members, in place.

    Worked example with three ranks that hold 1, 2 and 4: in the group of ranks 0 and 2 both get 5.

    Raises:
        PeerError: another member went away or did not come in time.
    """
    note_tensor("all_reduce", tensor)
    with in_words("all_reduce", rank()):
        dist.all_reduce(tensor, group=group)


@contextmanager
def list_new_groups() -> Iterator[list[tuple[int, ...]]]:
    """List the groups that this rank asks torch for inside the block, in order; none is made, so no rank waits.

    Example: after `make_groups([[0, 1], [1, 2]])` the list is `[(0, 1), (1, 2)]` on every rank.
    """
    requests: list[tuple[int, ...]] = []
    new_group = dist.new_group

    def listing(ranks: Sequence[int] | None = None, *_: Any, **__: Any) -> object:
        requests.append(tuple(range(dist.get_world_size()) if ranks is None else ranks))
        return object() if dist.get_rank() in requests[-1] else dist.GroupMember.NON_GROUP_MEMBER

    dist.new_group = listing
    try:
        yield requests
    finally:
        dist.new_group = new_group
