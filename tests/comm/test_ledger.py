"""The ledger counts what was sent while it was open, hears torch.distributed called directly, and nothing twice.

Every listener hears the calls of a process group, and torch's methods are its own again afterwards.
"""

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from pllab import comm
from pllab.comm.ledger import HeardWork, hear_calls
from tests.comm.programs import on_ranks


def plain(messages):
    return [(message.name, message.shape, message.num_bytes, message.peer) for message in messages]


@on_ranks(3)
def test_direct_calls_are_recorded_in_order_with_shape_bytes_and_the_other_end(number, size):
    """Every kind of call once."""
    x, parts = torch.ones(2, 3), [torch.ones(4) for _ in range(size)]
    with comm.record_messages() as ledger:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, src=2)
        dist.reduce(x, dst=1)
        dist.all_gather([torch.empty(4) for _ in range(size)], parts[0])
        dist.all_gather_into_tensor(torch.empty(4 * size), parts[0])
        dist.scatter(torch.empty(4), parts if number == 0 else None, src=0)
        dist.gather(parts[0], [torch.empty(4) for _ in range(size)] if number == 0 else None, dst=0)
        dist.reduce_scatter(torch.empty(4), parts)
        dist.barrier()
        if number < 2:
            sending = dist.isend(torch.ones(5, dtype=torch.float64), 1 - number)
            dist.recv(torch.empty(5, dtype=torch.float64), src=1 - number)
            sending.wait()
    dist.all_reduce(x)  # heard by nobody
    assert plain(ledger.messages) == [
        ("all_reduce", (2, 3), 24, None),
        ("all_reduce", (2, 3), 24, None),
        ("broadcast", (2, 3), 24, 2),
        ("reduce", (2, 3), 24, 1),
        ("all_gather", (4,), 16, None),
        ("all_gather", (4,), 16, None),
        ("scatter", (3, 4), 48, 0) if number == 0 else ("scatter", (), 0, 0),
        ("gather", (4,), 16, 0),
        ("reduce_scatter", (3, 4), 48, None),
        ("barrier", (), 0, None),
        *([("send", (5,), 40, 1 - number), ("receive", (5,), 40, 1 - number)] if number < 2 else []),
    ]
    assert {message.num_ranks for message in ledger.messages} == {3}


@on_ranks(3)
def test_the_peers_of_a_group_are_ranks_of_the_world(number, size):
    group = dist.new_group([1, 2])  # its rank 0 is the world's rank 1
    if number == 0:
        return
    with comm.record_messages() as ledger:
        dist.broadcast(torch.ones(2), src=1, group=group)
        comm.broadcast(torch.ones(2), 0, group)  # the same, named by its number in the group
        if number == 1:
            dist.send(torch.ones(1), dst=2, group=group)
        else:
            dist.recv(torch.ones(1), src=1, group=group)
    pair = ("send", (1,), 4, 2) if number == 1 else ("receive", (1,), 4, 1)
    assert plain(ledger.messages) == [("broadcast", (2,), 8, 1), ("broadcast", (2,), 8, 1), pair]
    assert {message.num_ranks for message in ledger.messages} == {2}


@on_ranks(2)
def test_calls_of_this_room_are_not_heard_a_second_time_and_one_can_be_stopped(number, size):
    heard = []
    with comm.record_messages() as outer, comm.record_messages(heard.append) as inner:
        comm.all_reduce(torch.ones(2))
        assert heard == inner.messages != []  # at once
        comm.all_reduce_async(torch.ones(2)).wait()
        comm.broadcast(torch.ones(1), source=1)
        dist.all_reduce(torch.ones(3))
        comm.all_gather_object(number)
        comm.barrier()
        comm.ring_pass(torch.ones(1))
        for group in comm.make_groups([list(range(size))]):
            comm.all_reduce(torch.ones(4), group)
        buffer = comm.shared_buffer(8, torch.float32)
        if buffer is not None:
            buffer.all_reduce()
    assert outer.messages == inner.messages == heard
    names = [message.name for message in heard]
    expected = ["all_reduce", "all_reduce", "broadcast", "all_reduce"]
    expected += ["all_gather_object", "barrier", "send", "receive", "all_reduce"]
    assert names[: len(expected)] == expected
    assert names.count("barrier") == 1  # those of the shared buffer are its own
    with pytest.raises(KeyError), comm.record_messages(Mock(side_effect=KeyError)):
        dist.isend(torch.ones(1), 7)  # gloo would crash


def test_the_ledger_counts_what_was_sent_while_it_was_open():
    x = torch.ones(3, dtype=torch.float64)
    comm.all_reduce(x)
    with comm.record_messages() as outer:
        with comm.record_messages() as inner:  # the two are equal when the inner one is closed, and are still two
            comm.all_reduce_async(x.reshape(3, 1)).wait()
        comm.all_reduce(x)
        comm.broadcast(x)
    comm.all_reduce(x)
    assert inner.messages == [comm.Message("all_reduce", (3, 1), 24, None, 0)]
    assert [message.name for message in outer.messages] == ["all_reduce", "all_reduce", "broadcast"]
    assert (outer.count("all_reduce"), outer.num_bytes("all_reduce"), outer.count()) == (2, 48, 3)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("all_reduce", [comm.all_reduce, dist.all_reduce], ids=["comm", "dist"])
def test_a_sparse_tensor_counts_all_its_numbers(all_reduce):
    with comm.record_messages() as ledger:
        all_reduce(torch.eye(3).to_sparse())
    assert plain(ledger.messages) == [("all_reduce", (3, 3), 36, None)]


def test_the_ledger_hears_other_threads():
    with comm.record_messages() as ledger, ThreadPoolExecutor(1) as other:
        other.submit(comm.barrier).result()
    assert ledger.count() == 1


@pytest.mark.usefixtures("alone")
def test_methods_are_replaced_once_for_all_kinds_of_listeners_until_the_last_one_leaves(tmp_path):
    before = dict(vars(ProcessGroup))
    heard = []
    ledger_block = comm.record_messages()
    ledger = ledger_block.__enter__()
    once = vars(ProcessGroup)["allreduce"]
    with comm.record_flight(tmp_path / "flight.json") as flight:
        with hear_calls(lambda call: heard.append((call.name, call.shape))):
            assert vars(ProcessGroup)["allreduce"] is once
            dist.all_reduce(torch.ones(4))
        ledger_block.__exit__(None, None, None)  # the first to come is not the last to leave
        assert vars(ProcessGroup)["allreduce"] is once
        dist.all_reduce(torch.ones(2))
    assert dict(vars(ProcessGroup)) == before
    assert heard == [("all_reduce", (4,))] == [(message.name, message.shape) for message in ledger.messages]
    assert [call.shape for call in flight.record.calls] == [(4,), (2,)]


@pytest.mark.usefixtures("alone")
def test_a_listener_that_raises_stops_the_call_and_torch_has_its_methods_again():
    before, x = dict(vars(ProcessGroup)), torch.ones(1)
    with (
        pytest.raises(KeyError, match="no"),
        hear_calls(Mock(side_effect=KeyError("no"))),
        hear_calls(unheard := Mock()),
    ):
        dist.all_reduce(x)
    assert not unheard.called and dict(vars(ProcessGroup)) == before


@pytest.mark.usefixtures("alone")
def test_a_batch_that_nobody_ended_is_forgotten_with_the_last_listener(monkeypatch):
    """As one in which a call raised; the calls after it are in no batch."""
    monkeypatch.setattr(ProcessGroup, "_start_coalescing", lambda *_: None)
    with hear_calls(lambda _: None):
        dist.group.WORLD._start_coalescing()
    steps = []
    with hear_calls(lambda _: lambda work: HeardWork(work, steps.append)):
        dist.all_reduce(torch.ones(1), async_op=True).wait()
    assert steps == ["waiting", "waited"]


@pytest.mark.usefixtures("alone")
def test_steps_of_a_handle_are_told_through_the_handles_of_other_listeners():
    steps = {"outer": [], "inner": []}

    def following(name):
        return lambda _call: lambda work: HeardWork(work, steps[name].append)

    with hear_calls(following("outer")), hear_calls(following("inner")):
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()
        assert work.is_completed()
    assert steps == {name: ["waiting", "waited", "completed"] for name in steps}
