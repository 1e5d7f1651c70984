"""Process groups and messages: how ranks start, meet, exchange tensors and end, on a laptop or on many GPUs.

The only room that calls torch.distributed by itself. Importing it needs torch and nothing else; `Ranks`, for
notebooks, imports ipyparallel when it is used.
"""

from pllab.comm.backend import BackendPlan, plan_backend
from pllab.comm.child import report
from pllab.comm.collectives import (
    Pending,
    all_gather_object,
    all_reduce,
    all_reduce_async,
    backend_name,
    barrier,
    broadcast,
    rank,
    receive,
    send,
    world_size,
)
from pllab.comm.errors import PeerError, RankError
from pllab.comm.group import setup, teardown
from pllab.comm.launch import launch
from pllab.comm.ledger import Ledger, Message, record_messages
from pllab.comm.point_to_point import Travelling, one_way_groups, receive_async, send_async
from pllab.comm.ranks import Ranks, RanksInterrupted
from pllab.comm.ring import ring_pass
from pllab.comm.session import run_in_group
from pllab.comm.shared import SharedBuffer, shared_buffer
from pllab.comm.subgroups import make_groups, sum_in_group

__all__ = [
    "BackendPlan",
    "Ledger",
    "Message",
    "PeerError",
    "Pending",
    "RankError",
    "Ranks",
    "RanksInterrupted",
    "SharedBuffer",
    "Travelling",
    "all_gather_object",
    "all_reduce",
    "all_reduce_async",
    "backend_name",
    "barrier",
    "broadcast",
    "launch",
    "make_groups",
    "one_way_groups",
    "plan_backend",
    "rank",
    "receive",
    "receive_async",
    "record_messages",
    "report",
    "ring_pass",
    "run_in_group",
    "send",
    "send_async",
    "setup",
    "shared_buffer",
    "sum_in_group",
    "teardown",
    "world_size",
]
