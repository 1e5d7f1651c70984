"""Listen to every call of a process group as it is made, for the ledger, the flight record and the checks.

All functions of torch.distributed end in a method of torch's `ProcessGroup`. Those methods are replaced when the first
listener comes and put back when the last one leaves, so that without a listener nothing is slower. (CommDebugMode reads
the calls at the dispatcher, and its first use imports sympy on every rank, which takes seconds.)
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
    `all_reduce (4,)`. The last listener to come hears a call first. One that listens in several blocks hears it once.
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
        wraps = [listener(made) for listener in dict.fromkeys(reversed(_listeners))][::-1]
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
