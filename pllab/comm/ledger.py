"""Count the messages: what a rank sent while someone was listening.

A lesson that says "one all-reduce per parameter" shows the ledger, and a test asserts it. The functions of
`collectives` write into every open ledger; with none open that costs one look at an empty list. Open ledgers
belong to the process, not to a thread, because hooks send from autograd's threads.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_open: list["Ledger"] = []


@dataclass(frozen=True)
class Message:
    """One call of a collective or of send and receive.

    `num_bytes` is the payload handed over by this rank, not the traffic the algorithm makes of it. `peer` is
    the rank at the other end, the source of a broadcast, or None for all ranks. `order` counts from 0 within
    a ledger.
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
            self.messages.append(Message(name, shape, num_bytes, peer, len(self.messages)))

    def _named(self, name: str | None) -> list[Message]:
        return [message for message in list(self.messages) if name in (None, message.name)]


@contextmanager
def record_messages() -> Iterator[Ledger]:
    """Listen to the messages of this rank inside the block.

    Example:
        with record_messages() as ledger:
            all_reduce(gradient)
        ledger.count("all_reduce")   # 1
    """
    ledger = Ledger()
    _open.append(ledger)
    try:
        yield ledger
    finally:
        _open.remove(ledger)


def listening() -> bool:
    """Whether any ledger is open."""
    return bool(_open)


def note(name: str, shape: tuple[int, ...], num_bytes: int, peer: int | None = None) -> None:
    """Write one message into every open ledger."""
    for ledger in list(_open):
        ledger.add(name, shape, num_bytes, peer)
