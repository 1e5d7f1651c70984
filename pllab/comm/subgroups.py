"""Groups inside the world: some ranks exchange messages while the others do something else.

`new_group` numbers the groups in the order in which a rank asks for them, and the number is how the members find
each other. So every rank asks for every group in the same order, also for those it does not belong to.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from pllab.comm.collectives import rank
from pllab.comm.errors import in_words
from pllab.comm.ledger import note_tensor


def make_groups(members: Sequence[Sequence[int]]) -> list[dist.ProcessGroup]:
    """Make one group for each list of ranks and return those that this rank belongs to, in the order given.

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
    """List the groups that this rank asks torch for inside the block, in order; none is made, so nobody waits.

    Example: after `make_groups([[0, 1], [1, 2]])` the list is `[(0, 1), (1, 2)]` on every rank.
    """
    asked: list[tuple[int, ...]] = []
    new_group = dist.new_group

    def listing(ranks: Sequence[int] | None = None, *_: Any, **__: Any) -> object:
        asked.append(tuple(range(dist.get_world_size()) if ranks is None else ranks))
        return object() if dist.get_rank() in asked[-1] else dist.GroupMember.NON_GROUP_MEMBER

    dist.new_group = listing
    try:
        yield asked
    finally:
        dist.new_group = new_group
