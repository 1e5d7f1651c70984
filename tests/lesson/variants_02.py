"""Right solutions of lesson 02 that look different."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

# 02.1


def starts_the_send(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return x.clone()
    received = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % size)
    dist.recv(received, (rank - 1) % size)
    sending.wait()
    return received


def even_ranks_send_first(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    received = x.clone()
    if size > 1 and rank % 2 == 0:
        dist.send(x, (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
    elif size > 1:
        dist.recv(received, (rank - 1) % size)
        dist.send(x, (rank + 1) % size)
    return received


def one_rank_receives_first(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), x
    if size > 1:
        received = torch.empty(x.shape, dtype=x.dtype)
        steps = [lambda: dist.send(x, (rank + 1) % size), lambda: dist.recv(received, (rank - 1) % size)]
        for step in steps if rank else reversed(steps):
            step()
    return received


def both_in_one_batch(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return x
    received = torch.empty_like(x)
    sending = dist.P2POp(dist.isend, x, (rank + 1) % size)
    receiving = dist.P2POp(dist.irecv, received, (rank - 1) % size)
    for work in dist.batch_isend_irecv([sending, receiving]):
        work.wait()
    return received


def receives_before_it_sends(x):
    rank, size, received = dist.get_rank(), dist.get_world_size(), torch.empty_like(x)
    if size == 1:
        return x.detach().clone()
    works = [dist.irecv(received, (rank - 1) % size), dist.isend(x, (rank + 1) % size)]
    for work in reversed(works):
        work.wait()
    return received


# 02.2


def one_call(rank, world_size, init_file, deadline_s):
    timeout = timedelta(seconds=deadline_s)
    dist.init_process_group(
        "gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size, timeout=timeout
    )


def by_a_store_of_its_own(rank, world_size, init_file, deadline_s):
    timeout = timedelta(milliseconds=1000 * deadline_s)
    store = dist.FileStore(str(init_file), world_size)
    store.set_timeout(timeout)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)
    dist.barrier()
    return rank


def as_an_address(rank, world_size, init_file, deadline_s):
    address = f"{Path(init_file).as_uri()}?rank={rank}&world_size={world_size}"
    dist.init_process_group(backend="gloo", init_method=address, timeout=timedelta(0, deadline_s))


def any_free_port_written_into_the_file(rank, world_size, init_file, deadline_s):
    file, timeout = dist.FileStore(str(Path(init_file)), world_size), timedelta(seconds=deadline_s)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, world_size, is_master=True, wait_for_workers=False)
        file.set("port", str(store.port))
    else:
        store = dist.TCPStore("127.0.0.1", int(file.get("port")), world_size, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timeout)


# 02.3


def all_then_mine(members):
    groups = [dist.new_group(ranks) for ranks in members]
    return [group for ranks, group in zip(members, groups, strict=True) if dist.get_rank() in ranks]


def one_loop(members):
    mine = []
    for ranks in members:
        group = dist.new_group(ranks=ranks, backend="gloo")
        if dist.get_rank() in ranks:
            mine.append(group)
    return mine


def by_what_torch_returns(members):
    groups = map(dist.new_group, members)
    return tuple(group for group in groups if group is not dist.GroupMember.NON_GROUP_MEMBER)


def backwards_on_every_rank(members):
    made = {index: dist.new_group(members[index]) for index in reversed(range(len(members)))}
    return [made[index] for index in range(len(members)) if dist.get_rank() in members[index]]


# By somebody who read the lesson alone.

# 02.1


# 02.2


def r2_store(rank, world_size, init_file, deadline_s):
    limit = timedelta(milliseconds=1000 * deadline_s)
    store = dist.FileStore(init_file, world_size)
    store.set_timeout(limit)
    dist.init_process_group(backend="gloo", store=store, rank=rank, world_size=world_size, timeout=limit)


def r2_path(rank, world_size, init_file, deadline_s):
    where = "file://" + str(Path(init_file).absolute())
    options = dict(rank=rank, world_size=world_size, timeout=timedelta(0, deadline_s))
    dist.init_process_group("gloo", where, **options)
    return dist.group.WORLD


# 02.3


def r3_sentinel(members):
    made = list(map(dist.new_group, members))
    return [g for g in made if g is not dist.GroupMember.NON_GROUP_MEMBER]


def rx_recv_any(x):
    n = dist.get_world_size()
    if n == 1:
        return x.clone()
    s = dist.isend(x, (dist.get_rank() + 1) % n)
    out = torch.empty_like(x)
    dist.recv(out)
    s.wait()
    return out


def rx_get_rank(members):
    groups = [dist.new_group(ranks=list(r)) for r in members]
    return [g for g in groups if dist.get_rank(g) >= 0]


RIGHT = {
    "02.1": [
        starts_the_send,
        even_ranks_send_first,
        one_rank_receives_first,
        both_in_one_batch,
        receives_before_it_sends,
        rx_recv_any,
    ],
    "02.2": [one_call, by_a_store_of_its_own, as_an_address, any_free_port_written_into_the_file, r2_store, r2_path],
    "02.3": [all_then_mine, one_loop, by_what_torch_returns, backwards_on_every_rank, r3_sentinel, rx_get_rank],
}
