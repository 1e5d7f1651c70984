"""The messages: thin functions over torch.distributed that also work in a world of one.

They add four things: without a group they act as a world of one, an open ledger counts them, a slow
link delays them, and a peer that went away is one sentence that names the operation and the rank. They keep torch's
conventions: `all_reduce` works in place and returns None; gloo sums, so an average divides afterwards.

A collective takes all ranks, or the members of a `group`, whose ranks count from 0 within it.

In order: rank and world size, collectives, messages between two ranks, groups inside the world.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from pllab.comm.devices import current_gpu, gpu_backend, is_gpu
from pllab.comm.errors import in_words
from pllab.comm.ledger import bytes_in, note, note_tensor
from pllab.comm.links import carried

Group = dist.ProcessGroup
MAX = dist.ReduceOp.MAX
# torch 2.13 has new names for these two, and warns of the old ones.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def rank(group: Group | None = None) -> int:
    """This process's number in the group, by default in the group of all ranks; 0 without a group."""
    return dist.get_rank(group) if dist.is_initialized() else 0


def world_size(group: Group | None = None) -> int:
    """The number of ranks in the group; 1 without a group."""
    return dist.get_world_size(group) if dist.is_initialized() else 1


def in_world(number: int, group: Group | None) -> int:
    """The number among all ranks of a group's rank."""
    return number if group is None else dist.get_global_rank(group, number)


def backend_name() -> str | None:
    """The group's backend, `gloo` or `nccl`; None without a group."""
    return dist.get_backend() if dist.is_initialized() else None


def own_device() -> torch.device:
    """The device whose tensors this rank's messages carry: its GPU under nccl, else the CPU.

    The backend `fake` sends nothing, so one process can count the messages of many ranks; its device is `meta`,
    whose tensors have shapes but no values.
    """
    if backend_name() == gpu_backend():
        bound = dist.distributed_c10d._get_default_group().bound_device_id  # the current GPU is each thread's own
        return bound or current_gpu()
    return torch.device("meta" if backend_name() == "fake" else "cpu")


def readable_device() -> torch.device:
    """The device for numbers that this rank sends and reads back: its own, or the CPU if its own has no values."""
    return torch.device("cpu") if own_device().type == "meta" else own_device()


def barrier(group: Group | None = None) -> None:
    """Wait until every rank is here.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    note("barrier", (), 0, group=group)
    devices = [own_device().index] if is_gpu(own_device()) else None
    _start("barrier", partial(dist.barrier, group, device_ids=devices), 0).wait()


def all_reduce(
    tensor: torch.Tensor, group: Group | None = None, operation: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
) -> None:
    """Replace the tensor, on every rank, by the sum (or maximum, ...) over all ranks, in place.

    Worked example with two ranks: [1, 2] on rank 0 and [10, 20] on rank 1 become [11, 22] on both.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    note_tensor("all_reduce", tensor, group=group)
    _start("all_reduce", partial(dist.all_reduce, tensor, operation, group=group), bytes_in(tensor)).wait()


class Pending:
    """A message under way: `wait()` returns when the tensor holds the result."""

    def __init__(self, operation: str, work: "dist.Work | Future[dist.Work] | None") -> None:
        self._operation = operation
        self._work = work

    def wait(self) -> None:
        """Wait for the result; on CUDA, make the current stream wait for it.

        Raises:
            PeerError: another rank went away or did not come in time.
        """
        with in_words(self._operation, rank()):
            work = self._work.result() if isinstance(self._work, Future) else self._work
            if work is not None:
                work.wait()

    def done(self) -> bool:
        """Whether the result is there; never waits."""
        if isinstance(self._work, Future):
            return self._work.done() and self._work.result().is_completed()
        return self._work is None or self._work.is_completed()


def all_reduce_async(tensor: torch.Tensor, group: Group | None = None) -> Pending:
    """Start an `all_reduce` and return at once; the tensor must not be touched before `wait()` returns.

    Raises:
        PeerError: another rank went away (also from `wait`).
    """
    note_tensor("all_reduce", tensor, group=group)
    return _start("all_reduce", partial(dist.all_reduce, tensor, group=group, async_op=True), bytes_in(tensor))


def all_gather_async(whole: torch.Tensor, part: torch.Tensor, group: Group | None = None) -> Pending:
    """Start filling `whole`, on every rank, with the parts of all ranks, side by side in order of rank.

    Worked example with two ranks: parts [1, 2] and [3, 4] make [1, 2, 3, 4] on both.

    Raises:
        PeerError: another rank went away (also from `wait`).
    """
    if not dist.is_initialized():
        whole.copy_(part)
    note_tensor("all_gather", part, group=group)
    return _start("all_gather", partial(_all_gather, whole, part, group=group, async_op=True), bytes_in(part))


def reduce_scatter_async(part: torch.Tensor, whole: torch.Tensor, group: Group | None = None) -> Pending:
    """Start filling `part` with this rank's share of the sum of all ranks' `whole`, cut in order of rank.

    Worked example with two ranks: [1, 2] and [10, 20] give [11] on rank 0 and [22] on rank 1.

    Raises:
        PeerError: another rank went away (also from `wait`).
    """
    if not dist.is_initialized():
        part.copy_(whole)
    note_tensor("reduce_scatter", whole, group=group)
    return _start("reduce_scatter", partial(_reduce_scatter, part, whole, group=group, async_op=True), bytes_in(whole))


def _start(operation: str, call: Callable[[], Any], num_bytes: int) -> Pending:
    """Make a torch call that sends a message, over the slow link if there is one; in a world of one, do nothing."""
    if not dist.is_initialized():
        return Pending(operation, None)
    with in_words(operation, rank()):
        return Pending(operation, carried(call, num_bytes))


def broadcast(tensor: torch.Tensor, source: int = 0, group: Group | None = None) -> None:
    """Overwrite the tensor, on every rank, with the one of rank `source` of the group, in place.

    Raises:
        ValueError: there is no rank `source`.
        PeerError: another rank went away or did not come in time.
    """
    _check_peer("broadcast from", source, group)
    note_tensor("broadcast", tensor, in_world(source, group), group)
    _start("broadcast", partial(dist.broadcast, tensor, group=group, group_src=source), bytes_in(tensor)).wait()


def all_gather_object(value: Any, group: Group | None = None) -> list[Any]:
    """Collect one picklable value per rank, in order of rank, on every rank.

    Worked example with two ranks: 3 on rank 0 and 5 on rank 1 give [3, 5] on both.

    Raises:
        PeerError: another rank went away or did not come in time.
    """
    num_bytes = len(pickle.dumps(value))
    note("all_gather_object", (), num_bytes, group=group)
    values = [value] * world_size(group)
    _start("all_gather_object", partial(dist.all_gather_object, values, value, group=group), num_bytes).wait()
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


def send_async(tensor: torch.Tensor, to: int, group: Group | None = None) -> Pending:
    """Start sending a contiguous tensor to rank `to`; do not change it before `wait()` has returned.

    Raises:
        ValueError: there is no rank `to`, or it is this one.
        PeerError: the other rank went away.
    """
    _check_other("send to", to)
    note_tensor("send", tensor, to, group)
    return _start(f"send to rank {to}", partial(dist.isend, tensor, dst=to, group=group), bytes_in(tensor))


def receive_async(tensor: torch.Tensor, source: int, group: Group | None = None) -> Pending:
    """Start receiving a tensor from rank `source`; messages from one sender arrive in order.

    Raises:
        ValueError: there is no rank `source`, or it is this one.
        PeerError: the other rank went away.
    """
    _check_other("receive from", source)
    note_tensor("receive", tensor, source, group)
    operation = f"receive from rank {source}"
    with in_words(operation, rank()):
        return Pending(operation, dist.irecv(tensor, src=source, group=group))


def ring_pass(tensor: torch.Tensor) -> torch.Tensor:
    """Send the tensor to the next rank and return the one that the previous rank sent; all ranks call it.

    Worked example with three ranks:

        rank            0    1    2
        passes on       a    b    c
        returns         c    a    b

    Every rank passes the same shape and dtype; the tensor does not change. A rank alone gets a copy of its own.

    Raises:
        PeerError: a neighbour went away or did not come in time.
    """
    number, size = rank(), world_size()
    if size == 1:
        return tensor.clone()
    received, following, previous = torch.empty_like(tensor), (number + 1) % size, (number - 1) % size
    note_tensor("send", tensor, following)
    note_tensor("receive", received, previous)
    # In one batch, because nccl makes single messages one after the other, and a ring of sends would wait for ever.
    both = [dist.P2POp(dist.irecv, received, previous), dist.P2POp(dist.isend, tensor, following)]

    def exchange() -> None:
        for work in dist.batch_isend_irecv(both):
            work.wait()

    _start("ring_pass", exchange, bytes_in(tensor)).wait()
    return received


def _check_peer(action: str, peer: int, group: Group | None = None) -> None:
    if not 0 <= peer < world_size(group):
        raise ValueError(f"cannot {action} rank {peer} in a world of {world_size(group)}; ranks start at 0")


def _check_other(action: str, peer: int) -> None:
    """Refuse a message to oneself: send and receive need a second rank."""
    _check_peer(action, peer)
    if peer == rank():
        raise ValueError(f"rank {peer} cannot {action} itself; name another rank")


def make_groups(members: Sequence[Sequence[int]]) -> list[Group]:
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


@contextmanager
def list_new_groups() -> Iterator[list[tuple[int, ...]]]:
    """List, in order, the groups that this rank asks torch for inside the block; none is made, so no rank waits.

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
