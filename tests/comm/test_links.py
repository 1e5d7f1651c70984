"""The emulated link on a clock of its own, and ranks behind it: nothing is early, and work hides what it can."""

import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pllab import comm
from pllab.comm.collectives import Pending, send_async
from pllab.parallel import DataParallel, FullyShardedDataParallel
from tests.comm.programs import on_ranks

LATENCY_S = 0.03
BYTES_PER_S = 1e7


def test_messages_queue_on_the_link_and_wait_for_nothing_else(monkeypatch):
    """On a clock that goes on when the link sleeps, once it is let go."""
    now, goes = [0.0], threading.Event()

    def sleep(seconds):
        assert goes.wait(10.0)
        now[0] += seconds

    monkeypatch.setattr("pllab.comm.links.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    link = comm.Link(1.0, 100.0)
    heard = [link.carry(lambda: now[0], num_bytes) for num_bytes in (0, 100)]
    goes.set()
    assert [each.result() for each in heard] == [1.0, 3.0]
    now[0] = 10.0  # the rank computes
    assert link.carry(lambda: now[0], 50).result() == 11.5
    link.close()
    assert link.messages == [(0.0, 1.0), (1.0, 3.0), (10.0, 11.5)]


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"latency_s": -1}, "latency_s is -1; give seconds from 0"),
        ({"latency_s": float("inf")}, "latency_s is inf"),
        ({"bytes_per_s": 0}, "bytes_per_s is 0; give a rate above 0"),
        ({"bytes_per_s": "fast"}, "bytes_per_s is 'fast'"),
    ],
)
def test_what_is_no_link_is_refused(numbers, sentence):
    with pytest.raises(ValueError, match=sentence), comm.slow_link(**numbers):
        pass
    with comm.slow_link(), pytest.raises(ValueError, match="a slow link is open already"), comm.slow_link():
        pass


def test_the_end_of_the_block_waits_until_all_has_left():
    left = []
    with comm.slow_link(LATENCY_S) as link:
        link.carry(lambda: left.append(1), 0)
    assert left == [1]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pllab-link")]


def made_before(number, size):
    """What shared memory and its users give, without a link and behind one, which carries what the ledger counts."""
    buffer, part = comm.shared_buffer(4, torch.float32), torch.empty(4 // size)
    torch.manual_seed(0)
    models = DataParallel(Layers()), FullyShardedDataParallel(Layers(), zero=3)
    rows = []
    for phase in (nullcontext(), comm.slow_link(bytes_per_s=BYTES_PER_S)):
        with phase as link, comm.record_messages() as ledger:
            buffer.tensor.fill_(number + 1)
            buffer.reduce_scatter_async(part).wait()
            buffer.all_reduce()
            comm.ring_pass(part)
            for model in models:
                model.zero_grad()
                model(torch.full((1, 32), number + 1.0, requires_grad=True)).backward()
        if link is not None:
            counted = [each.num_bytes / BYTES_PER_S for each in ledger.messages if each.name != "receive"]
            assert [end - start for start, end in link.messages] == pytest.approx(counted, abs=1e-7)
        grads = [parameter.grad.tolist() for model in models for parameter in model.parameters()]
        rows.append((buffer.tensor.tolist(), part.tolist(), grads))
    return rows


def _pass_on(number, size):
    sending = send_async(torch.ones(1), (number + 1) % size)
    comm.receive(torch.empty(1), (number - 1) % size)
    sending.wait()


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 32, bias=False) for _ in range(5)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum()


@on_ranks(2)
def test_every_message_takes_its_time_and_arrives_as_it_is(number, size):
    seconds, mine = {}, torch.full((4,), float(number + 1))

    def timed(name, call):
        comm.barrier()
        start = time.monotonic()
        call()
        seconds[name] = time.monotonic() - start

    total, into = mine.clone(), mine.clone()
    outside, inside = made_before(number, size)
    assert inside == outside
    with comm.slow_link(LATENCY_S) as link, comm.record_messages() as ledger:
        timed("barrier", comm.barrier)
        timed("all_reduce", lambda: comm.all_reduce(total))
        timed("broadcast", lambda: comm.broadcast(into))
        timed("objects", lambda: comm.all_gather_object(number))
        timed("pair", lambda: _pass_on(number, size))
        timed("ring", lambda: comm.ring_all_reduce(mine))
        assert comm.shared_buffer(4, torch.float32) is None
        assert DataParallel(Layers()).strategy == "flat"  # no memory is shared over a link
    assert min(seconds.values()) >= LATENCY_S and seconds["ring"] >= 2 * LATENCY_S
    assert (total.tolist(), into.tolist(), mine.tolist()) == ([3.0] * 4, [1.0] * 4, [3.0] * 4)
    assert len(link.messages) == len([message for message in ledger.messages if message.name != "receive"])


def test_a_message_that_has_left_the_link_is_through_once_gloo_says_so():
    heard, work = Future(), SimpleNamespace(is_completed=lambda: False)
    message = Pending("all_reduce", heard)
    assert not message.done()
    heard.set_result(work)
    assert not message.done()
    work.is_completed = lambda: True
    assert message.done()


@on_ranks(2)
def test_work_hides_a_message(number, size):
    tensor = torch.ones(1)
    with comm.slow_link(LATENCY_S) as link:
        message = comm.all_reduce_async(tensor)
        assert not (message.done() and time.monotonic() < link.messages[0][1])  # never before its time
        for _ in range(200):  # work, until the message is through
            time.sleep(LATENCY_S)
            if message.done():
                break
        waited_from = time.monotonic()
        message.wait()
    assert tensor.item() == 2.0 and waited_from >= link.messages[0][1]
