"""Collectives made of messages against gloo's own, to the last bit, and against the list of their transfers."""

from itertools import product

import pytest
import torch
import torch.distributed as dist

from pllab import comm, transfers
from tests.comm.programs import on_ranks
from tests.tiers import exhaustive

SHAPES = [(0,), (), (1,), (7,), (3, 5), (1001,), (70_001,)]
DTYPES = [torch.int64, torch.float32, torch.float64, torch.bfloat16]
LARGE = (1_700_001,), torch.float32  # more than two segments of 1 MiB for each rank, where gloo cuts chunks otherwise


def bits(tensor):
    return tensor.view(-1).view(torch.uint8).numpy().tobytes()


def numbers(shape, dtype, number):
    """Others on each rank, and of such sizes that the order of a sum shows in its last bits."""
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    return (drawn * 10**6).to(dtype)


@on_ranks(2, 3, *exhaustive(1, 4, 5))
def test_the_ring_and_the_broadcast_have_the_bits_of_gloo(number, size):
    has_trees_bits = {}
    for shape, dtype in [*product(SHAPES, DTYPES), LARGE]:
        ring, tree, theirs = (numbers(shape, dtype, number) for _ in range(3))
        comm.ring_all_reduce(ring)
        comm.run_transfers(transfers.tree_all_reduce(size), tree)
        dist.all_reduce(theirs)
        copies = [numbers(shape, dtype, number) for _ in range(2)]
        comm.tree_broadcast(copies[0], root=size - 1)
        dist.broadcast(copies[1], src=size - 1)
        assert bits(ring) == bits(theirs) and bits(copies[0]) == bits(copies[1]), (shape, dtype)
        assert len({*comm.all_gather_object((bits(ring), bits(tree)))}) == 1, (shape, dtype)
        has_trees_bits[shape, dtype] = bits(tree) == bits(theirs)
    assert all(has_trees_bits[shape, torch.int64] for shape in SHAPES)
    assert size < 3 or not has_trees_bits[(1001,), torch.float32]  # else the numbers would not show an order


@on_ranks(3)
def test_the_ledger_has_the_transfers_and_ranks_of_a_group_count_in_it(number, size):
    with comm.record_messages() as ledger:
        comm.ring_all_reduce(torch.ones(12))
    assert [(message.name, message.peer, message.num_bytes) for message in ledger.messages] == [
        (name, peer, 16)
        for each in transfers.ring_all_reduce(3).rounds
        for name, peers in [
            ("send", [one.to for one in each if one.source == number]),
            ("receive", [one.source for one in each if one.to == number]),
        ]
        for peer in peers
    ]
    total, copy = torch.tensor([10.0**number, 1.0]), torch.tensor([number])
    with comm.record_messages() as ledger:
        for group in comm.make_groups([[1, 2]]):
            comm.ring_all_reduce(total, group)
            comm.tree_broadcast(copy, 1, group)
    assert (total.tolist(), copy.item()) == (([110.0, 2.0], 2) if number else ([1.0, 1.0], 0))
    assert {message.peer for message in ledger.messages} == ({3 - number} if number else set())


@on_ranks(3)
def test_refusals_are_sentences(number, size):
    with pytest.raises(ValueError, match="ring all-reduce is for 5 ranks, but there are 3 here; make it for 3"):
        comm.run_transfers(transfers.ring_all_reduce(5), torch.ones(1))
    with pytest.raises(ValueError, match="mine leaves rank 0"):
        comm.run_transfers(transfers.Collective("mine", "all_reduce", size, ()), torch.ones(1))
