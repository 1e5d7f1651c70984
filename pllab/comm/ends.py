"""Watch the ends of messages: who sends to whom, who receives, and whether anybody waits for it.

A ledger says what was started. A deadlock, and a message that nobody waited for, are told by how far each end came.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch.distributed import ProcessGroup


@dataclass
class End:
    """One end of a message, and how far it came; `peer` is None for a receive from anybody."""

    name: Literal["send", "receive"]
    peer: int | None
    state: Literal["started", "waiting", "through"] = "started"

    def __str__(self) -> str:
        way = "to" if self.name == "send" else "from"
        return f"a {self.name} {way} {'anybody' if self.peer is None else f'rank {self.peer}'}"


@contextmanager
def watch_group(wrap: Callable[[str, tuple[Any, ...], Any], Any], *names: str) -> Iterator[None]:
    """Inside the block, hand out `wrap(name, arguments, handle)` for what these methods of process groups return.

    Example: `with watch_group(lambda name, args, work: print(name) or work, "allreduce"): ...`
    """
    methods = {name: vars(ProcessGroup)[name] for name in names}

    def watched(name: str) -> Callable[..., Any]:
        def call(group: ProcessGroup, *args: Any, **options: Any) -> Any:
            return wrap(name, args, methods[name](group, *args, **options))

        return call

    for name in names:
        setattr(ProcessGroup, name, watched(name))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(ProcessGroup, name, method)


@contextmanager
def watch_ends() -> Iterator[list[End]]:
    """List every end of a message that this process starts inside the block, through whatever function of torch.

    Example: after `dist.isend(x, 1)` the list is `[End("send", 1, "started")]`, and after its `wait()` the state is
    "through". While a rank stands in `wait()`, or `wait()` has raised, it is "waiting".

    The handles are kept until the end of the block, so a receive that nobody waits for still takes its message, and
    does not look like a deadlock of its sender.
    """
    ends: list[End] = []
    kept: list[_WatchedWork] = []

    def note(name: str, args: tuple[Any, ...], work: Any) -> "_WatchedWork":
        peer = None if name == "recv_anysource" else args[1]
        ends.append(End("send" if name == "send" else "receive", peer))
        kept.append(_WatchedWork(work, ends[-1]))
        return kept[-1]

    with watch_group(note, "send", "recv", "recv_anysource"):
        yield ends


class _WatchedWork:
    """torch's handle of a message under way; it notes whether anybody waited for it."""

    def __init__(self, work: Any, end: End) -> None:
        self._work, self._end = work, end

    def wait(self, *deadline: Any) -> Any:
        self._end.state = "waiting"
        done = self._work.wait(*deadline)
        self._end.state = "through"
        return done

    def is_completed(self) -> bool:
        if done := bool(self._work.is_completed()):
            self._end.state = "through"
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)
