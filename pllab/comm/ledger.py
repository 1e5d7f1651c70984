"""Count the messages: what a rank sent while someone was listening.

A lesson that says "one all-reduce per parameter" shows the ledger, and a test asserts it. The functions of
`collectives` write into every open ledger, and so does `listen` for who calls torch.distributed directly; with no
ledger open that costs one look at an empty list. Open ledgers belong to the process, not to a thread, because
hooks send from autograd's threads.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from pllab.comm.listen import listen

_open: list["Ledger"] = []
_stop_listening: list[Callable[[], None]] = []  # one while a ledger is open
_door = threading.Lock()  # to open and close one at a time


@dataclass(frozen=True)
class Message:
    """One call of a collective or of send and receive, through this room or torch.distributed directly.

    `num_bytes` is the payload handed over by this rank, not the traffic the algorithm makes of it. `peer` is
    the rank at the other end, the source of a broadcast, or None for all ranks. `order` counts from 0 within
    a ledger. A call that hands over several tensors of one shape, such as a scatter, has that shape with their
    number in front.
    """

    name: str
    shape: tuple[int, ...]
    num_bytes: int
    peer: int | None
    order: int


@dataclass(eq=False)  # two ledgers stay two, even with the same messages
class Ledger:
    """The messages of this rank, in the order they were started.

    Example: after `all_reduce(torch.ones(4))` the messages are
    `[Message("all_reduce", shape=(4,), num_bytes=16, peer=None, order=0)]`.
    """

    messages: list[Message] = field(default_factory=list)
    on_message: Callable[[Message], None] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, name: str | None = None) -> int:
        """How many messages of this name, or of any."""
        return len(self._named(name))

    def num_bytes(self, name: str | None = None) -> int:
        """How many bytes of payload in messages of this name, or of any."""
        return sum(message.num_bytes for message in self._named(name))

    def add(self, name: str, shape: tuple[int, ...], num_bytes: int, peer: int | None) -> None:
        """Write down one message; safe from several threads."""
        with self._lock:
            message = Message(name, shape, num_bytes, peer, len(self.messages))
            self.messages.append(message)
            if self.on_message is not None:
                self.on_message(message)

    def _named(self, name: str | None) -> list[Message]:
        return [message for message in list(self.messages) if name in (None, message.name)]


@contextmanager
def record_messages(on_message: Callable[[Message], None] | None = None) -> Iterator[Ledger]:
    """Listen to the messages of this rank inside the block.

    Example:
        with record_messages() as ledger:
            all_reduce(gradient)
            dist.all_reduce(gradient)
        ledger.count("all_reduce")   # 2

    Args:
        on_message: called with each message before it is sent, so it is told even of one that never arrives.
    """
    ledger = Ledger(on_message=on_message)
    with _door:
        _open.append(ledger)
        if not _stop_listening:
            _stop_listening.append(listen(note))
    try:
        yield ledger
    finally:
        with _door:
            _open.remove(ledger)
            if not _open:
                _stop_listening.pop()()


def listening() -> bool:
    """Whether any ledger is open."""
    return bool(_open)


def note_tensor(name: str, tensor: torch.Tensor, peer: int | None = None) -> None:
    """Write the message that carries this tensor into every open ledger."""
    if _open:
        note(name, tuple(tensor.shape), tensor.numel() * tensor.element_size(), peer)


def note(name: str, shape: tuple[int, ...], num_bytes: int, peer: int | None = None) -> None:
    """Write one message into every open ledger."""
    for ledger in list(_open):
        ledger.add(name, shape, num_bytes, peer)
