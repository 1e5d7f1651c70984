"""Solutions of lesson 02 by somebody who read the lesson alone."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


# ================= 02.1
def r1_irecv_first(x):
    n = dist.get_world_size()
    me = dist.get_rank()
    if n < 2:
        return x
    after = me + 1 if me < n - 1 else 0
    before = me - 1 if me > 0 else n - 1
    got = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    works = [dist.irecv(got, src=before), dist.isend(x, dst=after)]
    for w in works:
        w.wait()
    return got


def r1_rank_zero_receives_first(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    out = x.detach().clone()
    if n > 1:
        nxt, prev = (rank + 1) % n, (rank + n - 1) % n
        if rank % 2 == 0:
            dist.send(x, nxt)
            dist.recv(out, prev)
        else:
            dist.recv(out, prev)
            dist.send(x, nxt)
    return out


def w1_send_not_waited_but_kept(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    while not sending.is_completed() and rank == 0:
        pass
    return out


def w1_always_zero_one(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    if rank == 0:
        dist.send(x, 1)
        dist.recv(out, 1)
    else:
        dist.recv(out, rank - 1)
        dist.send(x, (rank + 1) % 2)
    return out


def w1_row_only(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = x.new_empty(x.size(0), x[0].numel())
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return out


# ================= 02.2
def r2_file(rank: int, world_size: int, init_file: str, deadline_s: float) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )


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


def w2_one_file(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{Path(init_file).parent}/rendezvous",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )


def w2_fake_world_two(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo", init_method=f"file://{init_file}", rank=rank, world_size=2, timeout=timedelta(seconds=deadline_s)
    )


# ================= 02.3
def r3_loop(members):
    me, mine = dist.get_rank(), []
    for ranks in members:
        group = dist.new_group(ranks)
        if me in ranks:
            mine.append(group)
    return mine


def r3_comprehension(members):
    groups = [dist.new_group(ranks) for ranks in members]
    return [g for g, ranks in zip(groups, members, strict=True) if dist.get_rank() in ranks]


def r3_sentinel(members):
    made = list(map(dist.new_group, members))
    return [g for g in made if g is not dist.GroupMember.NON_GROUP_MEMBER]


def w3_disjoint(members):
    me, seen, mine = dist.get_rank(), set(), []
    for r in members:
        rest = [k for k in r if k not in seen]
        seen.update(rest)
        g = dist.new_group(rest)
        if me in rest:
            mine.append(g)
    return mine


def rx_batch(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x
    out = torch.empty_like(x)
    ops = [dist.P2POp(dist.isend, x, (rank + 1) % n), dist.P2POp(dist.irecv, out, (rank - 1) % n)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    return out


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
    "02.1": [r1_irecv_first, r1_rank_zero_receives_first, rx_batch, rx_recv_any],
    "02.2": [r2_file, r2_store, r2_path],
    "02.3": [r3_loop, r3_comprehension, r3_sentinel, rx_get_rank],
}
WRONG = [
    ("02.1", w1_send_not_waited_but_kept, "only rank 0 waits send"),
    ("02.1", w1_always_zero_one, "written for two ranks"),
    ("02.1", w1_row_only, "only right for matrices"),
    ("02.2", w2_fake_world_two, "world size always two"),
    ("02.3", w3_disjoint, "groups made disjoint"),
]
