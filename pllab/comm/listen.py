"""Hear the calls that go past this room: a `dist.all_reduce(x)` that a learner writes is a message too.

Whatever Python calls in torch.distributed arrives at a method of torch's process group, so that is where to listen.
The methods are replaced while a ledger is open and put back after the last one, so with none open nothing is slower.
(CommDebugMode reads the calls at the dispatcher, and its first use imports sympy on every rank, which takes seconds.)

What this room calls by itself is not heard: it notes its own calls, by better names. Two all-gathers under
`all_gather_object` are one message there.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

Note = Callable[[str, tuple[int, ...], int, int | None], None]

# The methods of a process group: the name in the ledger, and which argument holds what this rank hands over.
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
_own = threading.local()


@contextmanager
def unheard() -> Iterator[None]:
    """Calls of this thread inside the block are this room's own, and already noted."""
    before = getattr(_own, "calls", False)
    _own.calls = True
    try:
        yield
    finally:
        _own.calls = before


def listen(note: Note) -> Callable[[], None]:
    """Tell `note(name, shape, num_bytes, peer)` of every direct call before it is made; returns how to stop.

    Example: after `stop = listen(print)`, `dist.send(torch.ones(2), dst=1)` prints `send (2,) 8 1`, until `stop()`.
    """
    # From vars, because getattr gives a bare function, which put back would no longer pass the group.
    methods = {name: vars(ProcessGroup)[name] for name in _METHODS if name in vars(ProcessGroup)}
    for name, method in methods.items():
        setattr(ProcessGroup, name, _heard(name, method, note))

    def stop() -> None:
        for name, method in methods.items():
            setattr(ProcessGroup, name, method)

    return stop


def _heard(method_name: str, method: Callable[..., Any], note: Note) -> Callable[..., Any]:
    name, position = _METHODS[method_name]

    def call(group: ProcessGroup, *args: Any, **options: Any) -> Any:
        if not getattr(_own, "calls", False):
            tensors = _tensors(args[position]) if position is not None and position < len(args) else []
            num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            note(name, _shape(tensors), num_bytes, _peer(group, method_name, args))
        return method(group, *args, **options)

    return call


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)] if isinstance(value, list | tuple) else []


def _shape(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The shape of one tensor, of several equal ones stacked, or the number of elements of different ones."""
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1:
        return (sum(math.prod(tensor.shape) for tensor in tensors),)
    shape = shapes.pop() if shapes else ()
    return shape if len(tensors) < 2 else (len(tensors), *shape)


def _peer(group: ProcessGroup, method_name: str, args: Sequence[Any]) -> int | None:
    """The other end, or the root of a collective that has one, as a rank of the world."""
    if method_name in ("send", "recv"):
        return dist.get_global_rank(group, args[1])
    root = getattr(args[-1], "rootRank", None) if args else None
    return None if root is None else dist.get_global_rank(group, root)
