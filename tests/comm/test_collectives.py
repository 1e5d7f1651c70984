"""The messages in worlds of one to four: what they give, and what is said when they cannot be exchanged."""

from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist

from pllab import comm
from pllab.comm.collectives import list_new_groups, receive_async, send_async
from pllab.comm.ledger import hear_calls
from tests.comm.programs import on_ranks

MEMBERS = [[0, 1], [1, 2], [0, 1, 2]]


def test_without_a_group_it_is_a_world_of_one():
    x = torch.tensor([1.0, 2.0])
    assert comm.all_reduce(x) is None
    comm.all_reduce_async(x).wait()
    comm.broadcast(x)
    comm.barrier()
    assert x.tolist() == [1.0, 2.0]
    assert (comm.rank(), comm.world_size(), comm.all_gather_object("a")) == (0, 1, ["a"])
    got = comm.ring_pass(x)
    assert got.tolist() == [1.0, 2.0]
    assert got.data_ptr() != x.data_ptr()
    with comm.record_messages() as ledger:
        comm.ring_all_reduce(x)
        comm.tree_broadcast(x)
    assert (x.tolist(), ledger.count(), comm.shared_buffer(3, torch.float32)) == ([1.0, 2.0], 0, None)


def test_messages_to_nobody_are_refused():
    x = torch.ones(1)
    with pytest.raises(ValueError, match="cannot send to rank 1 in a world of 1"):
        comm.send(x, 1)
    with pytest.raises(ValueError, match="rank 0 cannot receive from itself"):
        comm.receive(x, 0)
    with pytest.raises(ValueError, match="cannot broadcast from rank 3"):
        comm.broadcast(x, 3)


@pytest.fixture
def group_for_gpus():
    """A group of this process alone that carries tensors of GPUs and no others, as nccl's does."""
    dist.init_process_group("cuda:gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    comm.teardown()


@pytest.mark.usefixtures("group_for_gpus")
@pytest.mark.parametrize("call", [comm.all_reduce, comm.all_reduce_async])
def test_a_cpu_tensor_in_a_group_for_gpus_is_one_sentence_with_the_way_out(call):
    with pytest.raises(ValueError) as caught:
        call(torch.ones(2))
    assert str(caught.value) == (
        "all_reduce on rank 0 has a tensor on the device cpu, which the group's backend, cuda:gloo, does not carry; "
        "make the tensor on pllab.comm.own_device(), or start the ranks with backend='gloo'"
    )


@on_ranks(1, 4)
def test_every_rank_gets_the_sum_the_copy_and_the_objects(number, size):
    total, later, from_last = (torch.tensor([10.0**number]) for _ in range(3))
    comm.all_reduce(total)
    comm.all_reduce_async(later).wait()
    comm.broadcast(from_last, source=size - 1)
    comm.barrier()
    assert (total.item(), later.item(), from_last.item()) == (float("1" * size),) * 2 + (10.0 ** (size - 1),)
    assert comm.all_gather_object({"rank": number}) == [{"rank": other} for other in range(size)]


@on_ranks(3)
def test_three_ways_around_a_ring_and_their_ledgers(number, size):
    right, left = (number + 1) % size, (number - 1) % size
    out, into, late = torch.tensor([float(number)]), torch.empty(1), torch.empty(1)
    steps = [lambda: comm.send(out, right), lambda: comm.receive(into, left)]
    around = [("send", right, 4), ("receive", left, 4)]
    with comm.record_messages() as ledger:
        for step in steps if number % 2 == 0 else reversed(steps):
            step()
    assert plain(ledger) == (around if number % 2 == 0 else around[::-1])
    receiving, sending = receive_async(late, left), send_async(out, right)
    receiving.wait()
    sending.wait()
    large, heard = torch.full((250_000,), float(number)), []
    with comm.record_messages() as ledger, hear_calls(lambda call: heard.append(call.name)):
        passed = comm.ring_pass(large)
    assert plain(ledger) == [("send", right, 1_000_000), ("receive", left, 1_000_000)]
    assert heard == ["receive", "send"]  # a send that waits for its receive would hold up the ring
    assert [into.item(), late.item(), *passed.unique().tolist(), *large.unique().tolist()] == [left, left, left, number]


def plain(ledger):
    return [(message.name, message.peer, message.num_bytes) for message in ledger.messages]


@on_ranks(3)
def test_groups_that_overlap_have_their_sums_and_the_deadline_of_all(number, size):
    sums = []
    for group in [*comm.make_groups(MEMBERS), dist.new_group()]:
        assert group._get_backend(torch.device("cpu")).options._timeout.total_seconds() == 60.0
        total = torch.tensor([10.0**number])
        comm.all_reduce(total, group)
        sums.append(total.item())
    assert sums == [[11.0, 111.0, 111.0], [11.0, 110.0, 111.0, 111.0], [110.0, 111.0, 111.0]][number]
    with list_new_groups() as asked:
        comm.make_groups(MEMBERS)
    assert asked == [tuple(ranks) for ranks in MEMBERS]


@on_ranks(2)
def test_a_peer_that_left_is_one_sentence_that_names_operation_and_rank(number, size):
    buffer = comm.shared_buffer(5, torch.float32)
    if number == 0:
        return
    ways = [
        ("all_reduce", nullcontext(), lambda: comm.all_reduce(torch.ones(1))),
        ("all_reduce", comm.slow_link(0.01), lambda: comm.all_reduce_async(torch.ones(1)).wait()),
        ("(receive from|send to) rank 0", nullcontext(), lambda: comm.ring_all_reduce(torch.ones(4))),
    ]
    if buffer is not None:  # there is none outside Linux
        ways.append(("all_reduce", nullcontext(), buffer.all_reduce))
    for name, block, call in ways:
        words = f"^{name} on rank 1 failed because another rank went away"
        with block, pytest.raises(comm.PeerError, match=words):
            call()
