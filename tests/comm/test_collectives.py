"""The messages in worlds of one to four: what they give, and what is said when they cannot be exchanged."""

from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist

from pllab import comm
from pllab.comm.collectives import list_new_groups, receive_async, send_async
from pllab.comm.ledger import hear_calls

MEMBERS = [[0, 1], [1, 2], [0, 1, 2]]


def exchange(number, size):
    """What each operation gives a rank whose number is a decimal place."""
    total, later, from_last = (torch.tensor([10.0**number]) for _ in range(3))
    comm.all_reduce(total)
    comm.all_reduce_async(later).wait()
    comm.broadcast(from_last, source=size - 1)
    comm.barrier()
    return total.item(), later.item(), from_last.item(), comm.all_gather_object({"rank": number})


def in_rings_and_groups(number, size):
    """Three ways around the ring, the ledger of two, the sums and deadlines in groups, and the groups asked for."""
    right, left = (number + 1) % size, (number - 1) % size
    out, into, late = torch.tensor([float(number)]), torch.empty(1), torch.empty(1)
    steps = [lambda: comm.send(out, right), lambda: comm.receive(into, left)]
    with comm.record_messages() as by_hand:
        for step in steps if number % 2 == 0 else reversed(steps):
            step()
    receiving, sending = receive_async(late, left), send_async(out, right)
    receiving.wait()
    sending.wait()
    got = [into.item(), late.item()]
    large = torch.full((250_000,), float(number))
    heard: list[str] = []
    with comm.record_messages() as by_ring_pass, hear_calls(lambda call: heard.append(call.name)):
        got += comm.ring_pass(large).unique().tolist()
    sums, deadlines = [], []
    for group in [*comm.make_groups(MEMBERS), dist.new_group()]:
        deadlines.append(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())
        total = torch.tensor([10.0**number])
        comm.all_reduce(total, group)
        sums.append(total.item())
    with list_new_groups() as asked:
        comm.make_groups(MEMBERS)
    ledgers = [[(m.name, m.peer, m.num_bytes) for m in ledger.messages] for ledger in (by_hand, by_ring_pass)]
    return got, large.unique().tolist(), ledgers, sums, asked, heard, deadlines


def left_alone(number, size):
    """What a rank reads, by kind of message, when its peer leaves without making the same call."""
    buffer = comm.shared_buffer(5, torch.float32)
    if number == 0:
        return None
    ways = {
        "all_reduce": lambda: comm.all_reduce(torch.ones(1)),
        "over a link": lambda: comm.all_reduce_async(torch.ones(1)).wait(),
        "around a ring": lambda: comm.ring_all_reduce(torch.ones(4)),
    }
    ways |= {} if buffer is None else {"in shared memory": buffer.all_reduce}  # there is none outside Linux
    sentences = {}
    for name, call in ways.items():
        with comm.slow_link(0.01) if name == "over a link" else nullcontext(), pytest.raises(comm.PeerError) as caught:
            call()
        sentences[name] = str(caught.value)
    return sentences


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


@pytest.mark.parametrize("size", [1, 4])
def test_every_rank_gets_the_sum_the_copy_and_the_objects(size):
    total, objects = float("1" * size), [{"rank": number} for number in range(size)]
    expected = (total, total, 10.0 ** (size - 1), objects)
    assert comm.launch(exchange, size, backend="gloo", timeout_s=60) == [expected] * size


def test_rings_of_three_and_groups_that_overlap():
    seen = comm.launch(in_rings_and_groups, 3, backend="gloo", timeout_s=60)
    for number, (got, sent, (by_hand, by_ring_pass), _, asked, ends, deadlines) in enumerate(seen):
        following, previous = (number + 1) % 3, (number - 1) % 3
        assert (got, sent) == ([previous] * 3, [number])
        assert by_hand == [("send", following, 4), ("receive", previous, 4)][:: 1 if number % 2 == 0 else -1]
        assert by_ring_pass == [("send", following, 1_000_000), ("receive", previous, 1_000_000)]
        assert asked == [tuple(ranks) for ranks in MEMBERS]
        assert ends == ["receive", "send"]  # a send that waits for its receive would hold up the ring
        assert set(deadlines) == {60.0}
    assert [one[3] for one in seen] == [[11.0, 111.0, 111.0], [11.0, 110.0, 111.0, 111.0], [110.0, 111.0, 111.0]]


def test_a_peer_that_left_is_one_sentence_that_names_operation_and_rank():
    _, sentences = comm.launch(left_alone, 2, backend="gloo", timeout_s=60)
    around = sentences.pop("around a ring")
    assert around.startswith(
        ("receive from rank 0 on rank 1 failed because", "send to rank 0 on rank 1 failed because")
    )
    for sentence in sentences.values():
        assert sentence.startswith("all_reduce on rank 1 failed because another rank went away")
