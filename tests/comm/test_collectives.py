"""The messages against torch.distributed called directly, counted, in worlds of one to four."""

import threading

import pytest
import torch

from pllab.comm import (
    Message,
    all_gather_object,
    all_reduce,
    all_reduce_async,
    barrier,
    broadcast,
    launch,
    rank,
    receive,
    record_messages,
    send,
    world_size,
)
from tests.comm import programs


def test_without_a_group_it_is_a_world_of_one():
    x = torch.tensor([1.0, 2.0])
    assert all_reduce(x) is None
    all_reduce_async(x).wait()
    broadcast(x)
    barrier()
    assert x.tolist() == [1.0, 2.0]
    assert (rank(), world_size(), all_gather_object("a")) == (0, 1, ["a"])


def test_messages_to_nobody_are_refused():
    x = torch.ones(1)
    with pytest.raises(ValueError, match="cannot send to rank 1 in a world of 1"):
        send(x, 1)
    with pytest.raises(ValueError, match="rank 0 cannot receive from itself"):
        receive(x, 0)
    with pytest.raises(ValueError, match="cannot broadcast from rank 3"):
        broadcast(x, 3)


def test_the_ledger_counts_what_was_sent_while_it_was_open():
    x = torch.ones(3, dtype=torch.float64)
    all_reduce(x)
    with record_messages() as outer:
        all_reduce(x)
        with record_messages() as inner:
            all_reduce_async(x.reshape(3, 1)).wait()
        broadcast(x)
    all_reduce(x)
    assert inner.messages == [Message("all_reduce", (3, 1), 24, None, 0)]
    assert [message.name for message in outer.messages] == ["all_reduce", "all_reduce", "broadcast"]
    assert (outer.count("all_reduce"), outer.num_bytes("all_reduce"), outer.count()) == (2, 48, 3)


def test_equal_ledgers_are_still_two():
    with record_messages() as outer:
        with record_messages():
            pass
        barrier()
    assert outer.count("barrier") == 1


def test_the_ledger_hears_other_threads():
    with record_messages() as ledger:
        threads = [threading.Thread(target=lambda: [barrier() for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [message.order for message in ledger.messages] == list(range(200))


@pytest.mark.ranks
@pytest.mark.parametrize("size", [1, 4])
def test_same_as_torch(size, nothing_left):
    for outcome in launch(programs.exchange, size, backend="gloo", timeout_s=60):
        assert all(outcome.values()), outcome


@pytest.mark.ranks
def test_ring_of_three():
    outcomes = launch(programs.ring, 3, backend="gloo", timeout_s=60)
    assert [got for got, _ in outcomes] == [2.0, 0.0, 1.0]
    assert outcomes[1][1] == [("receive", 0, 4), ("send", 2, 4)]


@pytest.mark.ranks
def test_a_peer_that_left_is_one_sentence_that_names_operation_and_rank():
    _, sentence = launch(programs.peer_error, 2, backend="gloo", timeout_s=60)
    assert sentence.startswith("all_reduce on rank 1 failed because another rank went away")


@pytest.mark.ranks
def test_everything_stays_on_loopback():
    for addresses in launch(programs.listening_addresses, 2, backend="gloo", timeout_s=60):
        assert set(addresses) <= {"127.0.0.1", "::1"}
        assert addresses
