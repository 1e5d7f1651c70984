"""Solutions of lesson 02 by somebody who read the lesson alone."""

from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

# ================= 02.1


# ================= 02.2


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


# ================= 02.3


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
    "02.1": [rx_recv_any],
    "02.2": [r2_store, r2_path],
    "02.3": [r3_sentinel, rx_get_rank],
}
