"""Count the messages that a rank sends while a ledger is open.

A lesson that says "one all-reduce per parameter" shows the ledger, and a test asserts it. The functions of this room
write into every open ledger. Direct calls of torch.distributed are counted too: they all end in a method of torch's
process group, and those methods are replaced while a ledger is open. Without an open ledger nothing is slower.
(CommDebugMode reads the calls at the dispatcher, and its first use imports sympy on every rank, which takes seconds.)

Open ledgers belong to the process, not to a thread, because hooks send from autograd's threads.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

_open: list["Ledger"] = []
_restore: list[Callable[[], None]] = []  # one while a ledger is open
_opening = threading.Lock()  # to open and close one ledger at a time
_thread = threading.local()  # `.is_counted`: whether this thread is in a call of this room, which is noted already

# The methods of a process group: the name in the ledger, and the position of the argument with this rank's tensors.
METHODS = {
    "allreduce": ("all_reduce", 0),
    "allreduce_coalesced": ("all_reduce", 0),
    "broadcast": ("broadcast", 0),
    "reduce": ("reduce", 0),
    "allgather": ("all_gather", 1),
    "all_gather_single": ("all_gather", 1),
    "gather": ("gather", 1),
    "scatter": ("scatter", 1),
    "reduce_scatter": ("reduce_scatter", 1),
    "reduce_scatter_single": ("reduce_scatter", 1),
    "alltoall": ("all_to_all", 1),
    "all_to_all_single": ("all_to_all", 1),
    "barrier": ("barrier", None),
    "send": ("send", 0),
    "recv": ("receive", 0),
    "recv_anysource": ("receive", 0),
}


@dataclass(frozen=True)
class Message:
    """One call of a collective or of send and receive, through this room or torch.distributed directly.

    `num_bytes` is this rank's payload, not the traffic that the algorithm makes of it. `peer` is the rank at the other
    end, the source of a broadcast, or None for all ranks. `order` counts from 0 within a ledger. A call with several
    tensors of one shape, such as a scatter, has that shape with their number in front.
    """

    name: str
    shape: tuple[int, ...]
    num_bytes: int
    peer: int | None
    order: int
    num_ranks: int = field(default=1, compare=False, repr=False)
    """Members of the group that exchanges it."""
    group: str = field(default="", compare=False, repr=False)
    """The name that torch gives this group."""


@dataclass(eq=False)  # two ledgers stay two, even with the same messages
class Ledger:
    """The messages of this rank, in the order they were started.

    Example: after `all_reduce(torch.ones(4))` the messages are
    `[Message("all_reduce", shape=(4,), num_bytes=16, peer=None, order=0)]`.
    """

    messages: list[Message] = field(default_factory=list)
    seconds: float = 0.0
    """What the calls of this room took, waiting for others included; a message started ahead counts where it is
    waited for."""
    on_message: Callable[[Message], None] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, name: str | None = None) -> int:
        """The number of messages of this name, or of all."""
        return len(self._named(name))

    def num_bytes(self, name: str | None = None) -> int:
        """The bytes of payload in messages of this name, or in all."""
        return sum(message.num_bytes for message in self._named(name))

    def add(
        self, name: str, shape: tuple[int, ...], num_bytes: int, peer: int | None, group: ProcessGroup | None = None
    ) -> None:
        """Write down one message; safe from several threads."""
        size = dist.get_world_size(group) if dist.is_initialized() else 1
        with self._lock:
            message = Message(name, shape, num_bytes, peer, len(self.messages), size, group_name(group))
            self.messages.append(message)
            if self.on_message is not None:
                self.on_message(message)

    def add_seconds(self, seconds: float) -> None:
        """Count what a call took; safe from several threads."""
        with self._lock:
            self.seconds += seconds

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
    with _opening:
        _open.append(ledger)
        if not _restore:
            _restore.append(_replace_methods())
    try:
        yield ledger
    finally:
        with _opening:
            _open.remove(ledger)
            if not _open:
                _restore.pop()()


def group_name(group: ProcessGroup | None = None) -> str:
    """The name of a group in the messages of a ledger; without one, that of all ranks."""
    whole = dist.group.WORLD if dist.is_initialized() else None
    named = whole if group is None else group
    return "" if named is None else str(named.group_name)


def traffic(message: Message) -> Fraction:
    """The bytes that a rank sends for a message of `w` ranks in a ring, on average over the ranks.

    Example: of 8 bytes on 4 ranks 12 for an all-reduce and 6 for a reduce-scatter; 24 for an all-gather of parts of 8.

    Source: Thakur et al. 2005; Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms, 2009.
    """
    others, share = message.num_ranks - 1, Fraction(message.num_bytes, message.num_ranks)
    sizes = {"all_reduce": 2 * others * share, "reduce_scatter": others * share, "receive": Fraction()}
    return sizes.get(message.name, Fraction(message.num_bytes) * (others if message.name == "all_gather" else 1))


def ledger_is_open() -> bool:
    """Whether any ledger is open."""
    return bool(_open)


def note_tensor(name: str, tensor: torch.Tensor, peer: int | None = None, group: ProcessGroup | None = None) -> None:
    """Write the message that carries this tensor into every open ledger."""
    if _open:
        note(name, tuple(tensor.shape), tensor.numel() * tensor.element_size(), peer, group)


def note(
    name: str, shape: tuple[int, ...], num_bytes: int, peer: int | None = None, group: ProcessGroup | None = None
) -> None:
    """Write one message into every open ledger; without a group it is of all ranks."""
    for ledger in list(_open):
        ledger.add(name, shape, num_bytes, peer, group)


@contextmanager
def uncounted() -> Iterator[None]:
    """A call of this room: it has noted its message under a better name, and its time goes to every open ledger."""
    before, start = getattr(_thread, "is_counted", False), time.perf_counter()
    _thread.is_counted = True
    try:
        yield
    finally:
        _thread.is_counted = before
        if not before:
            seconds = time.perf_counter() - start
            for ledger in list(_open):
                ledger.add_seconds(seconds)


def count_elsewhere() -> None:
    """Say in a new thread that all its messages are noted where they are started."""
    _thread.is_counted = True


def _replace_methods() -> Callable[[], None]:
    """Note every direct call before it is made; return a function that puts the methods back."""
    # From vars: getattr gives a bare function, which would no longer pass the group when it is put back.
    methods = {name: vars(ProcessGroup)[name] for name in METHODS if name in vars(ProcessGroup)}
    for name, method in methods.items():
        setattr(ProcessGroup, name, _noted(name, method))

    def stop() -> None:
        for name, method in methods.items():
            setattr(ProcessGroup, name, method)

    return stop


def _noted(method_name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    name, position = METHODS[method_name]

    def call(group: ProcessGroup, *args: Any, **options: Any) -> Any:
        if not getattr(_thread, "is_counted", False):
            tensors = tensors_in(args[position]) if position is not None and position < len(args) else []
            num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            note(name, shape_of(tensors), num_bytes, peer_of(group, method_name, args), group)
        return method(group, *args, **options)

    return call


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in an argument of a process group's method, which may nest them in lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in tensors_in(each)] if isinstance(value, list | tuple) else []


def shape_of(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The shape of one tensor, of several equal ones stacked, or the number of elements of different ones."""
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1:
        return (sum(math.prod(tensor.shape) for tensor in tensors),)
    shape = shapes.pop() if shapes else ()
    return shape if len(tensors) < 2 else (len(tensors), *shape)


def peer_of(group: ProcessGroup, method_name: str, args: Sequence[Any]) -> int | None:
    """The other end of a message, or the root of a collective, as a rank of the world; None if there is none."""
    if method_name in ("send", "recv"):
        return dist.get_global_rank(group, args[1])
    root = getattr(args[-1], "rootRank", None) if args else None
    return None if root is None else dist.get_global_rank(group, root)
