"""Process groups and messages: how ranks start, meet, exchange tensors and end, on a laptop or on many GPUs.

The only room that calls torch.distributed by itself. Importing it needs torch and nothing else; `Ranks`, for
notebooks, imports ipyparallel when it is used. To read it: `group.py` and `collectives.py`, then `launching.py`.
"""

from pllab.comm.collectives import (
    MAX,
    Group,
    Pending,
    all_gather_async,
    all_gather_object,
    all_reduce,
    all_reduce_async,
    backend_name,
    barrier,
    broadcast,
    make_groups,
    own_device,
    rank,
    readable_device,
    receive,
    reduce_scatter_async,
    ring_pass,
    send,
    world_size,
)
from pllab.comm.errors import PeerError, RankError
from pllab.comm.flight import record_flight
from pllab.comm.group import counted_rank, plan_backend, setup, teardown
from pllab.comm.launching import launch, report
from pllab.comm.ledger import Ledger, Message, group_name, record_messages, traffic
from pllab.comm.links import Link, slow_link
from pllab.comm.mesh import AXES, Mesh, group_of, make_mesh
from pllab.comm.notebook_ranks import Ranks
from pllab.comm.shared_memory import shared_buffer
from pllab.comm.transferring import ring_all_reduce, run_transfers, tree_broadcast

__all__ = [
    "AXES",
    "MAX",
    "Group",
    "Ledger",
    "Link",
    "Mesh",
    "Message",
    "PeerError",
    "Pending",
    "RankError",
    "Ranks",
    "all_gather_async",
    "all_gather_object",
    "all_reduce",
    "all_reduce_async",
    "backend_name",
    "barrier",
    "broadcast",
    "counted_rank",
    "group_name",
    "group_of",
    "launch",
    "make_groups",
    "make_mesh",
    "own_device",
    "plan_backend",
    "rank",
    "readable_device",
    "receive",
    "record_flight",
    "record_messages",
    "reduce_scatter_async",
    "report",
    "ring_all_reduce",
    "ring_pass",
    "run_transfers",
    "send",
    "setup",
    "shared_buffer",
    "slow_link",
    "teardown",
    "traffic",
    "tree_broadcast",
    "world_size",
]
