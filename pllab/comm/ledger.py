"""Count the messages that a rank sends while a ledger is open.

A lesson that says "one all-reduce per parameter" shows the ledger, and a test asserts it. The functions of this room
write into every open ledger. Direct calls of torch.distributed are counted too: `hear_calls` tells of them.

Open ledgers belong to the process, not to a thread, because hooks send from autograd's threads.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from pllab.comm.group_calls import GroupCall, hear_calls

_open: list["Ledger"] = []
_writing = threading.Lock()
_is_counted = ContextVar("is_counted", default=False)  # whether this thread is in a call of this room, already noted


@dataclass(frozen=True)
class Message:
    """One call of a collective or of send and receive, through this room or torch.distributed directly.

    `num_bytes` is this rank's payload, not the traffic that the algorithm causes. `peer` is the rank at the other
    end, the source of a broadcast, or None for all ranks. `order` counts from 0 within a ledger. A call with several
    tensors of one shape, such as a scatter, has that shape with their number in front.
    """

    name: str
    shape: tuple[int, ...]
    num_bytes: int
    peer: int | None
    order: int
    num_ranks: int = field(default=1, compare=False, repr=False)
    """The number of ranks in the group that exchanges it."""
    group: str = field(default="", compare=False, repr=False)
    """The name that torch gives this group."""


@dataclass(eq=False)  # two ledgers stay two, even with the same messages
class Ledger:
    """The messages of this rank, in the order in which they were started.

    Example: after `all_reduce(torch.ones(4))` the messages are
    `[Message("all_reduce", shape=(4,), num_bytes=16, peer=None, order=0)]`.
    """

    messages: list[Message] = field(default_factory=list)
    on_message: Callable[[Message], None] | None = field(default=None, repr=False)

    def count(self, name: str | None = None) -> int:
        """The number of messages of this name, or of all."""
        return len(self._named(name))

    def num_bytes(self, name: str | None = None) -> int:
        """The bytes of payload in messages of this name, or in all."""
        return sum(message.num_bytes for message in self._named(name))

    def _named(self, name: str | None) -> list[Message]:
        return [message for message in list(self.messages) if name in (None, message.name)]


@contextmanager
def record_messages(on_message: Callable[[Message], None] | None = None) -> Iterator[Ledger]:
    """Record the messages of this rank inside the block.

    Example:
        with record_messages() as ledger:
            all_reduce(gradient)
            dist.all_reduce(gradient)
        ledger.count("all_reduce")   # 2

    Args:
        on_message: called with each message before it is sent; an exception in it stops the message.
    """
    ledger = Ledger(on_message=on_message)
    with hear_calls(_note_direct_call):
        _open.append(ledger)
        try:
            yield ledger
        finally:
            _open.remove(ledger)


def group_name(group: ProcessGroup | None = None) -> str:
    """The name of a group in the messages of a ledger; without one, that of all ranks."""
    named = dist.group.WORLD if group is None else group
    return "" if named is None else str(named.group_name)


def traffic(message: Message) -> Fraction:
    """The bytes that a rank sends for a message of `w` ranks in a ring, on average over the ranks.

    Example: of 8 bytes on 4 ranks 12 for an all-reduce and 6 for a reduce-scatter; 24 for an all-gather of parts of 8.

    Source: Thakur et al. 2005; Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms, 2009.
    """
    others, share = message.num_ranks - 1, Fraction(message.num_bytes, message.num_ranks)
    sizes = {"all_reduce": 2 * others * share, "reduce_scatter": others * share, "receive": Fraction()}
    return sizes.get(message.name, Fraction(message.num_bytes) * (others if message.name == "all_gather" else 1))


def note_tensor(name: str, tensor: torch.Tensor, peer: int | None = None, group: ProcessGroup | None = None) -> None:
    """Write the message that carries this tensor into every open ledger."""
    note(name, tuple(tensor.shape), _num_bytes(tensor), peer, group)


def note(
    name: str, shape: tuple[int, ...], num_bytes: int, peer: int | None = None, group: ProcessGroup | None = None
) -> None:
    """Write one message into every open ledger; without a group it is a message of all ranks."""
    for ledger in list(_open):
        num_ranks = dist.get_world_size(group) if dist.is_initialized() else 1
        with _writing:
            message = Message(name, shape, num_bytes, peer, len(ledger.messages), num_ranks, group_name(group))
            ledger.messages.append(message)
            if ledger.on_message is not None:
                ledger.on_message(message)


@contextmanager
def uncounted() -> Iterator[None]:
    """Inside the block: a call of this room, which has already noted its message under a better name."""
    before = _is_counted.set(True)
    try:
        yield
    finally:
        _is_counted.reset(before)


def _note_direct_call(call: GroupCall) -> None:
    """Write a call into every open ledger, unless it is one of this room's."""
    if not _is_counted.get():
        note(call.name, call.shape, sum(map(_num_bytes, call.tensors)), call.peer, call.group)


def _num_bytes(tensor: torch.Tensor) -> int:
    """The bytes of all its numbers; torch has no `nbytes` for a sparse tensor."""
    return tensor.numel() * tensor.element_size()
