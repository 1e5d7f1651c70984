"""The ends of messages: their peers, and whether anybody waited, through all of torch's ways to send."""

import pytest
import torch
import torch.distributed as dist

from pllab.comm import launch, record_messages, ring_pass
from pllab.lesson.exercises.watched_waits import watch_ends


def pass_on(number, size):
    """Four messages around a ring of two: package, blocking, in a batch, and one whose send nobody waits for."""
    other, x, into = 1 - number, torch.ones(3), torch.zeros(3)
    with watch_ends() as ends, record_messages() as ledger:
        ring_pass(x)
        for call in (dist.send, dist.recv) if number else (dist.recv, dist.send):
            call(into, other)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, into, other)]):
            work.wait()
        dist.isend(x, other)
        dist.recv(into)
        before = [str(end) + ", " + end.state for end in ends]
        dist.barrier()
    dist.barrier()
    return before, len(ends), ledger.count("send")


@pytest.mark.ranks
def test_every_end_is_listed_with_its_state_and_nothing_outside_the_block(quick_ranks):
    for number, (ends, later, sends) in enumerate(launch(pass_on, 2, backend="gloo", timeout_s=60)):
        other = f"rank {1 - number}"
        send, receive = f"a send to {other}, through", f"a receive from {other}, through"
        blocking = [send, receive] if number else [receive, send]
        last = [f"a send to {other}, started", "a receive from anybody, through"]
        assert ends == [receive, send, *blocking, send, receive, *last]
        assert (later, sends) == (8, 4)
