"""Collectives made of messages against gloo's own, to the last bit, and against the list of their transfers."""

from itertools import product

import pytest
import torch
import torch.distributed as dist

from pllab import comm, transfers
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


def against_gloo(number, size):
    """Per shape and type: whether ring, tree and broadcast have gloo's bits, and whether all ranks have the same."""
    seen = {}
    for shape, dtype in [*product(SHAPES, DTYPES), LARGE]:
        ring, tree, theirs = (numbers(shape, dtype, number) for _ in range(3))
        comm.ring_all_reduce(ring)
        comm.run_transfers(transfers.tree_all_reduce(size), tree)
        dist.all_reduce(theirs)
        copies = [numbers(shape, dtype, number) for _ in range(2)]
        comm.tree_broadcast(copies[0], root=size - 1)
        dist.broadcast(copies[1], src=size - 1)
        everywhere = comm.all_gather_object((bits(ring), bits(tree)))
        seen[(shape, dtype)] = {
            "ring": bits(ring) == bits(theirs),
            "tree": bits(tree) == bits(theirs),
            "broadcast": bits(copies[0]) == bits(copies[1]),
            "same": len(set(everywhere)) == 1,
        }
    return seen


def ledgers_and_refusals(number, size):
    """The ledger of a ring of all; ranks 1 and 2 as a group, with the peers in the ledger; and what is refused."""
    with comm.record_messages() as of_all:
        comm.ring_all_reduce(torch.ones(12))
    total, copy = torch.tensor([10.0**number, 1.0]), torch.tensor([number])
    with comm.record_messages() as ledger:
        for group in comm.make_groups([[1, 2]]):
            comm.ring_all_reduce(total, group)
            comm.tree_broadcast(copy, 1, group)
    sent = [(message.name, message.peer, message.num_bytes) for message in of_all.messages]
    return sent, (total.tolist(), copy.item(), {message.peer for message in ledger.messages}), refusals(size)


def refusals(size):
    sentences = []
    for collective in (transfers.ring_all_reduce(5), transfers.Collective("mine", "all_reduce", size, ())):
        with pytest.raises(ValueError) as caught:
            comm.run_transfers(collective, torch.ones(1))
        sentences.append(str(caught.value))
    return sentences


@pytest.mark.parametrize("size", [2, 3, *exhaustive(1, 4, 5)])
def test_the_ring_and_the_broadcast_have_the_bits_of_gloo(size):
    for seen in comm.launch(against_gloo, size, backend="gloo", timeout_s=60):
        for case, outcome in seen.items():
            assert {name for name, is_so in outcome.items() if not is_so} <= {"tree"}, case
        assert all(seen[shape, torch.int64]["tree"] for shape in SHAPES)
    assert size < 3 or not seen[(1001,), torch.float32]["tree"]  # else the numbers would not show an order


def test_the_ledger_has_the_transfers_ranks_of_a_group_count_in_it_and_refusals_are_sentences():
    sent, in_a_group, refused = zip(*comm.launch(ledgers_and_refusals, 3, backend="gloo", timeout_s=60), strict=True)
    for number, seen in enumerate(sent):
        listed = [
            [("send", t.to, 16) for t in each if t.source == number]
            + [("receive", t.source, 16) for t in each if t.to == number]
            for each in transfers.ring_all_reduce(3).rounds
        ]
        assert seen == sum(listed, [])
    assert in_a_group == (([1.0, 1.0], 0, set()), ([110.0, 2.0], 2, {2}), ([110.0, 2.0], 2, {1}))
    for sentences in refused:
        assert sentences[0] == "ring all-reduce is for 5 ranks, but there are 3 here; make it for 3"
        assert sentences[1].startswith("mine leaves rank 0")
