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
def watch_ends() -> Iterator[list[End]]:
    """List every end of a message that this process starts inside the block, through whatever function of torch.

    Example: after `dist.isend(x, 1)` the list is `[End("send", 1, "started")]`, and after its `wait()` the state is
    "through". While a rank stands in `wait()`, or `wait()` has raised, it is "waiting".

    The handles are kept until the end of the block, so a receive that nobody waits for still takes its message, and
    does not look like a deadlock of its sender.
    """
    methods = {name: vars(ProcessGroup)[name] for name in ("send", "recv", "recv_anysource")}
    ends: list[End] = []
    kept: list[_WatchedWork] = []

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(group: ProcessGroup, *args: Any) -> Any:
            peer = None if name == "recv_anysource" else args[1]
            ends.append(End("send" if name == "send" else "receive", peer))
            kept.append(_WatchedWork(method(group, *args), ends[-1]))
            return kept[-1]

        return call

    for name, method in methods.items():
        setattr(ProcessGroup, name, watched(name, method))
    try:
        yield ends
    finally:
        for name, method in methods.items():
            setattr(ProcessGroup, name, method)


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
