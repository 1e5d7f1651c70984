"""Right solutions of lesson 02 that look different."""

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from pllab import comm

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


def as_the_package_does(x):
    return comm.ring_pass(x)


# 02.2


def try_and_finally(rank, world_size, init_file, work):
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size)
    try:
        return work()
    finally:
        dist.destroy_process_group()


@contextmanager
def _group(rank, world_size, init_file):
    store = dist.FileStore(str(init_file), world_size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=30))
    try:
        yield
    finally:
        dist.destroy_process_group()


def context_manager(rank, world_size, init_file, work):
    with _group(rank, world_size, init_file):
        return work()


def stack_of_things_to_undo(rank, world_size, init_file, work):
    with ExitStack() as undo:
        dist.init_process_group("gloo", f"file://{init_file}", world_size=world_size, rank=rank)
        undo.callback(dist.destroy_process_group)
        return work()


def setup_and_teardown_of_the_package(rank, world_size, init_file, work):
    comm.setup(rank, world_size, "gloo", init_file=init_file)
    try:
        result = work()
    except BaseException:
        comm.teardown()
        raise
    comm.teardown()
    return result


def any_free_port_written_into_the_file(rank, world_size, init_file, work):
    file = dist.FileStore(str(Path(init_file)), world_size)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, world_size, is_master=True, wait_for_workers=False)
        file.set("port", str(store.port))
    else:
        store = dist.TCPStore("127.0.0.1", int(file.get("port")), world_size, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    try:
        return work()
    finally:
        dist.barrier()  # the store goes with rank 0
        dist.destroy_process_group()


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


def as_the_package_makes_them(members):
    return comm.make_groups(members)


RIGHT = [
    ("02.1", starts_the_send),
    ("02.1", even_ranks_send_first),
    ("02.1", one_rank_receives_first),
    ("02.1", both_in_one_batch),
    ("02.1", as_the_package_does),
    ("02.2", try_and_finally),
    ("02.2", context_manager),
    ("02.2", stack_of_things_to_undo),
    ("02.2", setup_and_teardown_of_the_package),
    ("02.2", any_free_port_written_into_the_file),
    ("02.3", all_then_mine),
    ("02.3", one_loop),
    ("02.3", by_what_torch_returns),
    ("02.3", backwards_on_every_rank),
    ("02.3", as_the_package_makes_them),
]
