"""What the ranks of test_ring_and_groups run; a launched rank imports it."""

import torch

from pllab import comm
from pllab.comm.peers import known_peers_only
from pllab.comm.subgroups import list_new_groups


def pass_and_sum(rank, world_size, members):
    """What the ring gave, its ledger, the sums in the own groups, the groups that would be asked for, a wrong peer."""
    x = torch.full((250_000,), float(rank))
    with comm.record_messages() as ledger:
        got = comm.ring_pass(x)
    sums = []
    for group in comm.make_groups(members):
        total = torch.tensor([10.0**rank])
        comm.sum_in_group(group, total)
        sums.append(total.item())
    with list_new_groups() as asked:
        comm.make_groups(members)
    messages = [(message.name, message.num_bytes, message.peer) for message in ledger.messages]
    return got.unique().tolist(), x.unique().tolist(), messages, sums, asked, refused(world_size)


def refused(world_size):
    with known_peers_only():
        try:
            torch.distributed.isend(torch.ones(1), world_size)
        except ValueError as error:
            return str(error)
