"""What the ranks of test_ledger.py run: torch.distributed called directly, and through the room."""

import torch
import torch.distributed as dist

from pllab import comm


def plain(messages):
    return [(message.name, message.shape, message.num_bytes, message.peer) for message in messages]


def direct_calls(number, size):
    """Three ranks call torch itself, every kind of call once."""
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
    return plain(ledger.messages)


def in_a_group(number, size):
    """Ranks 1 and 2 as a group: its rank 0 is the world's rank 1."""
    del size
    group = dist.new_group([1, 2])
    with comm.record_messages() as ledger:
        if number:
            dist.broadcast(torch.ones(2), src=1, group=group)
            if number == 1:
                dist.send(torch.ones(1), dst=2, group=group)
            else:
                dist.recv(torch.ones(1), src=1, group=group)
    return plain(ledger.messages)


def through_the_room(number, size):
    """The room's own functions, mixed with one direct call, in two ledgers."""
    told = []
    with comm.record_messages() as outer, comm.record_messages(told.append) as inner:
        comm.all_reduce(torch.ones(2))
        comm.all_reduce_async(torch.ones(2)).wait()
        comm.broadcast(torch.ones(1), source=1)
        dist.all_reduce(torch.ones(3))
        comm.all_gather_object(number)
        comm.barrier()
        comm.ring_pass(torch.ones(1))
        for group in comm.make_groups([list(range(size))]):
            comm.sum_in_group(group, torch.ones(4))
        buffer = comm.shared_buffer(8, torch.float32)
        if buffer is not None:
            buffer.all_reduce()
    assert outer.messages == inner.messages == told
    return [message.name for message in outer.messages]
