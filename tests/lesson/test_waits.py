"""The calls of a process group: their peers, and whether anybody waited, through all of torch's ways to make them."""

import torch
import torch.distributed as dist

from pllab.comm import launch, record_messages, ring_pass
from pllab.lesson.exercises.ranks import watch_waits


def pass_on(number, size):
    """Messages around a ring of two: package, blocking, in a batch, one that nobody waits for, collectives."""
    other, x, into = 1 - number, torch.ones(3), torch.zeros(3)
    with watch_waits() as calls, record_messages() as ledger:
        ring_pass(x)
        for move in (dist.send, dist.recv) if number else (dist.recv, dist.send):
            move(into, other)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, into, other)]):
            work.wait()
        dist.isend(x, other)
        dist.recv(into)
        before = [f"{call}, {call.state}" for call in calls]
        dist.all_reduce(x, async_op=True)
        dist.all_reduce(x.clone(), async_op=True).get_future().wait()
        dist.barrier()
        later = [f"{call}, {call.state}" for call in calls[len(before) :]]
    dist.barrier()
    return before, later, ledger.count("send")


def test_every_call_is_listed_with_its_state_and_nothing_outside_the_block():
    for number, (ends, later, sends) in enumerate(launch(pass_on, 2, backend="gloo", timeout_s=60)):
        other = f"rank {1 - number}"
        send, receive = f"a send to {other}, through", f"a receive from {other}, through"
        blocking = [send, receive] if number else [receive, send]
        last = [f"a send to {other}, started", "a receive from anybody, through"]
        assert ends == [receive, send, *blocking, send, receive, *last]
        assert later == ["an all_reduce, started", "an all_reduce, through", "a barrier, through"]
        assert sends == 4
