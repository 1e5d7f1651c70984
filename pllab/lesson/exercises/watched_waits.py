"""Which started messages somebody waited for: one that nobody waits for may still be under way when it is read.

A ledger says what was started. A deadlock, and a message that nobody waited for, are told by how far each came. gloo
runs several messages at a time, so the last one that was started may be the first to arrive.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pllab.comm.group_calls import GroupCall, HeardWork, Step, hear_calls


@dataclass
class End:
    """One end of a message, and how far it came; `peer` is None for a receive from anybody."""

    name: Literal["send", "receive"]
    peer: int | None
    state: Literal["started", "waiting", "through"] = "started"

    def __str__(self) -> str:
        way = "to" if self.name == "send" else "from"
        return f"a {self.name} {way} {'anybody' if self.peer is None else f'rank {self.peer}'}"

    def went_on(self, step: Step) -> None:
        """Somebody waits for it, or it is through."""
        self.state = "waiting" if step == "waiting" else "through"


@contextmanager
def watch_ends() -> Iterator[list[End]]:
    """List every end of a message that this process starts inside the block, through whatever function of torch.

    Example: after `dist.isend(x, 1)` the list is `[End("send", 1, "started")]`, and after its `wait()` the state is
    "through". While a rank stands in `wait()`, or `wait()` has raised, it is "waiting".

    The handles are kept until the end of the block, so a receive that nobody waits for still takes its message, and
    does not look like a deadlock of its sender.
    """
    ends: list[End] = []
    kept: list[HeardWork] = []

    def listen(call: GroupCall) -> Callable[[Any], HeardWork] | None:
        if call.name not in ("send", "receive"):
            return None

        def started(work: Any) -> HeardWork:
            peer = None if call.method == "recv_anysource" else call.args[1]
            ends.append(End("send" if call.name == "send" else "receive", peer))
            kept.append(HeardWork(work, ends[-1].went_on))
            return kept[-1]

        return started

    with hear_calls(listen):
        yield ends


class Watched:
    """A message under way, as torch's `Work`, that remembers whether somebody asked for its end."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self.waited_for = False

    def __getattr__(self, name: str) -> Any:
        if name in ("wait", "get_future", "get_future_result", "is_completed", "result"):
            self.waited_for = True
        return getattr(self._work, name)


@contextmanager
def watch_waits() -> Iterator[list[Watched]]:
    """Yield a list that fills with the all-reduces, broadcasts and reduces that are started inside the block."""
    started: list[Watched] = []

    def start(work: Any) -> Watched:
        started.append(Watched(work))
        return started[-1]

    with hear_calls(lambda call: start if call.method in ("allreduce", "broadcast", "reduce") else None):
        yield started
