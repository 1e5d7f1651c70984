"""Solutions of lesson 02 by somebody who read the lesson alone."""

import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


# ================= 02.1
def r1_isend_recv(x: torch.Tensor) -> torch.Tensor:
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return out


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


def w1_all_send_first(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    dist.send(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    return out


def w1_wait_at_once(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    dist.isend(x, (rank + 1) % n).wait()
    dist.irecv(out, (rank - 1) % n).wait()
    return out


def w1_send_not_waited(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
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


def w1_receive_not_waited(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    dist.irecv(out, (rank - 1) % n)
    dist.isend(x, (rank + 1) % n).wait()
    return out


def w1_into_x(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x
    sending = dist.isend(x.clone(), (rank + 1) % n)
    dist.recv(x, (rank - 1) % n)
    sending.wait()
    return x


def w1_copy_back(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x
    out = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return x.copy_(out)


def w1_backwards(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty_like(x)
    sending = dist.isend(x, (rank - 1) % n)
    dist.recv(out, (rank + 1) % n)
    sending.wait()
    return out


def w1_xor_partner(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    partner = rank ^ 1
    if partner >= n:
        return x.clone()
    out = torch.empty_like(x)
    sending = dist.isend(x, partner)
    dist.recv(out, partner)
    sending.wait()
    return out


def w1_default_dtype(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty(x.shape)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return out


def w1_via_float(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    y = x.float()
    out = torch.empty_like(y)
    sending = dist.isend(y, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return out.to(x.dtype)


def w1_flat(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    out = torch.empty(x.numel(), dtype=x.dtype)
    sending = dist.isend(x.reshape(-1), (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return out


def w1_alone_sends(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    out = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(out, (rank - 1) % n)
    sending.wait()
    return out


def w1_alone_zeros(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    out = torch.zeros_like(x)
    if n > 1:
        sending = dist.isend(x, (rank + 1) % n)
        dist.recv(out, (rank - 1) % n)
        sending.wait()
    return out


def w1_open_ring(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    out = x.clone()
    sending = dist.isend(x, rank + 1) if rank + 1 < n else None
    if rank > 0:
        dist.recv(out, rank - 1)
    if sending is not None:
        sending.wait()
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


def w2_days(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size, timeout=timedelta(deadline_s)
    )


def w2_millis(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(milliseconds=deadline_s),
    )


def w2_number(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size, timeout=deadline_s
    )


def w2_no_timeout(rank, world_size, init_file, deadline_s):
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size)


def w2_int_seconds(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=int(deadline_s)),
    )


def w2_at_least_30(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=max(deadline_s, 30)),
    )


def w2_port(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method="tcp://127.0.0.1:29517",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )


def w2_env_port(rank, world_size, init_file, deadline_s):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29518"
    dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=timedelta(seconds=deadline_s))


def w2_one_file(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{Path(init_file).parent}/rendezvous",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )


def w2_leaves(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )
    try:
        dist.barrier()
    finally:
        dist.destroy_process_group()


def w2_store_timeout_only(rank, world_size, init_file, deadline_s):
    store = dist.FileStore(init_file, world_size)
    store.set_timeout(timedelta(seconds=deadline_s))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)


def w2_file_per_rank(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}.{rank}",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )


def w2_no_backend(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        init_method=f"file://{init_file}", rank=rank, world_size=world_size, timeout=timedelta(seconds=deadline_s)
    )


def w2_fake_world_two(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo", init_method=f"file://{init_file}", rank=rank, world_size=2, timeout=timedelta(seconds=deadline_s)
    )


def w2_reverse_rank(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo",
        init_method=f"file://{init_file}",
        rank=world_size - 1 - rank,
        world_size=world_size,
        timeout=timedelta(seconds=deadline_s),
    )


def w2_only_rank_zero_deadline(rank, world_size, init_file, deadline_s):
    more = {"timeout": timedelta(seconds=deadline_s)} if rank == 0 else {}
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size, **more)


def w2_relays_three_seconds(rank, world_size, init_file, deadline_s):
    dist.init_process_group(
        "gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size, timeout=timedelta(seconds=3)
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


def w3_only_members_call(members):
    return [dist.new_group(ranks) for ranks in members if dist.get_rank() in ranks]


def w3_all_groups(members):
    return [dist.new_group(ranks) for ranks in members]


def w3_own_first(members):
    me = dist.get_rank()
    own = [dist.new_group(r) for r in members if me in r]
    for r in members:
        if me not in r:
            dist.new_group(r)
    return own


def w3_sorted_members(members):
    me = dist.get_rank()
    pairs = [(r, dist.new_group(r)) for r in sorted(members)]
    return [g for r, g in pairs if me in r]


def w3_by_size(members):
    me = dist.get_rank()
    pairs = [(r, dist.new_group(r)) for r in sorted(members, key=len)]
    return [g for r, g in pairs if me in r]


def w3_reversed(members):
    me = dist.get_rank()
    mine = []
    for r in members:
        g = dist.new_group(r)
        if me in r:
            mine.insert(0, g)
    return mine


def w3_merged(members):
    me = dist.get_rank()
    groups = {}
    for r in members:
        if tuple(r) not in groups:
            groups[tuple(r)] = dist.new_group(r)
    return [g for r, g in groups.items() if me in r]


def w3_range(members):
    me = dist.get_rank()
    mine = []
    for r in members:
        g = dist.new_group(r)
        if min(r) <= me <= max(r):
            mine.append(g)
    return mine


def w3_no_singletons(members):
    me = dist.get_rank()
    mine = []
    for r in members:
        if len(r) > 1:
            g = dist.new_group(r)
            if me in r:
                mine.append(g)
    return mine


def w3_first_only(members):
    me = dist.get_rank()
    made = [(r, dist.new_group(r)) for r in members]
    return [g for r, g in made if me in r][:1]


def w3_break(members):
    me = dist.get_rank()
    for r in members:
        g = dist.new_group(r)
        if me in r:
            return [g]
    return []


def w3_rank_lists(members):
    me = dist.get_rank()
    for r in members:
        dist.new_group(r)
    return [r for r in members if me in r]


def w3_position(members):
    groups = [dist.new_group(r) for r in members]
    me = dist.get_rank()
    return [g for i, g in enumerate(groups) if i == me]


def w3_leader(members):
    me = dist.get_rank()
    mine = []
    for r in members:
        g = dist.new_group(r)
        if r.index(me) >= 0 if me in r[:2] else False:
            mine.append(g)
    return mine


def w3_disjoint(members):
    me, seen, mine = dist.get_rank(), set(), []
    for r in members:
        rest = [k for k in r if k not in seen]
        seen.update(rest)
        g = dist.new_group(rest)
        if me in rest:
            mine.append(g)
    return mine


def w3_none_holes(members):
    me = dist.get_rank()
    return [g if me in r else None for r, g in [(r, dist.new_group(r)) for r in members]]


def w3_world_for_all(members):
    me = dist.get_rank()
    return [dist.group.WORLD for r in members if me in r]


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


def wx_default_backend_env(members):
    me = dist.get_rank()
    out = []
    for r in sorted(members, key=lambda r: (len(r), r)):
        g = dist.new_group(r)
        if me in r:
            out.append(g)
    return out


RIGHT = [("02.1", f) for f in (r1_isend_recv, r1_irecv_first, r1_rank_zero_receives_first)]
RIGHT += [("02.2", f) for f in (r2_file, r2_store, r2_path)]
RIGHT += [("02.3", f) for f in (r3_loop, r3_comprehension, r3_sentinel)]
RIGHT += [("02.1", rx_batch), ("02.1", rx_recv_any), ("02.3", rx_get_rank)]
WRONG = [
    ("02.1", w1_all_send_first, "all send first, deadlock"),
    ("02.1", w1_wait_at_once, "waits before it receives"),
    ("02.1", w1_send_not_waited, "send is never waited for"),
    ("02.1", w1_send_not_waited_but_kept, "only rank 0 waits send"),
    ("02.1", w1_receive_not_waited, "receive is never waited for"),
    ("02.1", w1_into_x, "receives into x itself"),
    ("02.1", w1_copy_back, "copies the result into x"),
    ("02.1", w1_backwards, "sends to the previous rank"),
    ("02.1", w1_xor_partner, "pairs, not a ring"),
    ("02.1", w1_default_dtype, "receives into default dtype"),
    ("02.1", w1_via_float, "int64 through float32"),
    ("02.1", w1_flat, "shape is lost"),
    ("02.1", w1_alone_sends, "alone: sends to itself"),
    ("02.1", w1_alone_zeros, "alone: zeros"),
    ("02.1", w1_open_ring, "ring is not closed"),
    ("02.1", w1_always_zero_one, "written for two ranks"),
    ("02.1", w1_row_only, "only right for matrices"),
    ("02.2", w2_days, "timedelta of days"),
    ("02.2", w2_millis, "seconds as milliseconds"),
    ("02.2", w2_number, "timeout is a number"),
    ("02.2", w2_no_timeout, "no deadline"),
    ("02.2", w2_int_seconds, "fraction of second cut off"),
    ("02.2", w2_at_least_30, "deadline never below 30 s"),
    ("02.2", w2_port, "one fixed port"),
    ("02.2", w2_env_port, "fixed port by environment"),
    ("02.2", w2_one_file, "same file for every group"),
    ("02.2", w2_leaves, "leaves the group again"),
    ("02.2", w2_store_timeout_only, "deadline for rendezvous only"),
    ("02.2", w2_file_per_rank, "each rank its own file"),
    ("02.2", w2_no_backend, "backend is not gloo"),
    ("02.2", w2_fake_world_two, "world size always two"),
    ("02.2", w2_reverse_rank, "ranks numbered from behind"),
    ("02.2", w2_only_rank_zero_deadline, "only rank 0 has deadline"),
    ("02.2", w2_relays_three_seconds, "always three seconds"),
    ("02.3", w3_only_members_call, "others do not call new_group"),
    ("02.3", w3_all_groups, "also groups of others"),
    ("02.3", w3_own_first, "own groups made first"),
    ("02.3", w3_sorted_members, "order of members lost (sorted)"),
    ("02.3", w3_by_size, "order by size"),
    ("02.3", w3_reversed, "result in reverse order"),
    ("02.3", w3_merged, "equal lists share one group"),
    ("02.3", w3_range, "rank between ends is member"),
    ("02.3", w3_no_singletons, "groups of one skipped"),
    ("02.3", w3_first_only, "only the first own group"),
    ("02.3", w3_break, "returns before remaining calls"),
    ("02.3", w3_rank_lists, "lists instead of groups"),
    ("02.3", w3_position, "group number taken as rank"),
    ("02.3", w3_leader, "only first two of list"),
    ("02.3", w3_disjoint, "groups made disjoint"),
    ("02.3", w3_none_holes, "None where not a member"),
    ("02.3", w3_world_for_all, "the world for every group"),
    ("02.3", wx_default_backend_env, "sorted by size"),
]
