"""What a rank sends: listen to every call of a process group as it is made, and count the messages in a ledger.

All functions of torch.distributed end in a method of torch's `ProcessGroup`. Those methods are replaced when the first
listener comes and put back when the last one leaves, so that without a listener nothing is slower. (CommDebugMode reads
the calls at the dispatcher, and its first use imports sympy on every rank, which takes seconds.) The ledger, the flight
record and the checks listen.

A lesson that says "one all-reduce per parameter" shows the ledger, and a test asserts it. The functions of this room
write into every open ledger, and direct calls of torch.distributed are heard. Open ledgers belong to the process, not
to a thread, because hooks send from autograd's threads.

In order: the calls and their listeners, then the ledger.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

# The methods of a process group: the name of the call, and the position of the argument with this rank's tensors.
_METHODS = {
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


@dataclass(frozen=True, eq=False)
class GroupCall:
    """One call of a method of a process group, with the arguments that torch gives it."""

    group: ProcessGroup
    method: str
    args: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name used in lessons: `all_reduce` for torch's `allreduce`, `receive` for `recv`."""
        return _METHODS[self.method][0]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of this rank, which torch may nest in lists."""
        position = _METHODS[self.method][1]
        return _tensors_in(self.args[position]) if position is not None and position < len(self.args) else []

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one tensor, of several equal ones stacked, or the number of elements of different ones."""
        tensors = self.tensors
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) > 1:
            return (sum(tensor.numel() for tensor in tensors),)
        shape = shapes.pop() if shapes else ()
        return shape if len(tensors) < 2 else (len(tensors), *shape)

    @property
    def peer(self) -> int | None:
        """The other end of a message, or the root of a collective, as a rank of the world; None if there is none."""
        if self.method in ("send", "recv"):
            return dist.get_global_rank(self.group, self.args[1])
        root = getattr(self.args[-1], "rootRank", None) if self.args else None
        return None if root is None else dist.get_global_rank(self.group, root)


Listener = Callable[[GroupCall], Callable[[Any], Any] | None]
"""Called before each call, which an exception prevents; a return value, if any, replaces torch's handle."""

_listeners: list[Listener] = []
_batches: dict[ProcessGroup, list[Callable[[Any], Any] | None]] = {}  # what listeners make of a batch's one handle
_undo = ExitStack()  # gives torch its methods back
_changing = threading.Lock()


@contextmanager
def hear_calls(listener: Listener) -> Iterator[None]:
    """Inside the block, tell the listener of every call of a process group, from any thread and function.

    Example: `with hear_calls(lambda call: print(call.name, call.shape)): dist.all_reduce(torch.ones(4))` prints
    `all_reduce (4,)`. One that listens in several blocks hears a call once.
    """
    with _changing:
        if not _listeners:
            _undo.callback(_batches.clear)  # a call in one may have raised, and torch never ended it
            hearing = dict.fromkeys(_METHODS, _heard) | {"_start_coalescing": _begun, "_end_coalescing": _ended}
            # From vars: getattr gives a bare function, which would no longer pass the group when it is put back.
            for name, method in [(name, vars(ProcessGroup)[name]) for name in hearing if name in vars(ProcessGroup)]:
                _undo.callback(setattr, ProcessGroup, name, method)
                setattr(ProcessGroup, name, hearing[name](name, method))
        _listeners.append(listener)
    try:
        yield
    finally:
        with _changing:
            _listeners.remove(listener)
            if not _listeners:
                _undo.close()


Step = Literal["waiting", "waited", "completed"]


class HeardWork:
    """Torch's handle of a call; it tells `on_step` when a wait begins and ends, and when the result is there."""

    def __init__(self, work: Any, on_step: Callable[[Step], None]) -> None:
        self._work, self._on_step = work, on_step

    def wait(self, *deadline: Any) -> Any:
        """Wait as torch does, with or without a deadline."""
        self._on_step("waiting")
        done = self._work.wait(*deadline)
        self._on_step("waited")  # under nccl it returns at once, so the result may come later
        return done

    def is_completed(self) -> bool:
        """Whether the result is there; never waits."""
        if done := bool(self._work.is_completed()):
            self._on_step("completed")
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _heard(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(group: ProcessGroup, *args: Any, **options: Any) -> Any:
        made = GroupCall(group, name, args)
        wraps = [listener(made) for listener in dict.fromkeys(_listeners)]
        work = method(group, *args, **options)
        if group in _batches:
            _batches[group] += wraps
            return work
        return _wrapped(work, wraps)

    return call


def _begun(_name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Nccl sends several calls as one batch, whose end alone gives a handle; torch drops those of the calls."""

    def call(group: ProcessGroup, *args: Any) -> Any:
        _batches[group] = []
        return method(group, *args)

    return call


def _ended(_name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda group, *args: _wrapped(method(group, *args), _batches.pop(group, []))


def _wrapped(work: Any, wraps: list[Callable[[Any], Any] | None]) -> Any:
    for wrap in wraps:
        work = work if wrap is None else wrap(work)
    return work


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors_in(each)] if isinstance(value, list | tuple) else []


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


def bytes_in(tensor: torch.Tensor) -> int:
    """The bytes of all its numbers; torch has no `nbytes` for a sparse tensor."""
    return tensor.numel() * tensor.element_size()


def note_tensor(name: str, tensor: torch.Tensor, peer: int | None = None, group: ProcessGroup | None = None) -> None:
    """Write the message that carries this tensor into every open ledger."""
    note(name, tuple(tensor.shape), bytes_in(tensor), peer, group)


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
        note(call.name, call.shape, sum(map(bytes_in, call.tensors)), call.peer, call.group)
