"""Which calls of a process group somebody waited for: what nobody waits for may still be under way when it is read.

A ledger says what was started. A deadlock, and a call that nobody waited for, are told by how far each came. gloo runs
several messages at a time, so the last one that was started may be the first to arrive.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pllab.comm.group_calls import GroupCall, HeardWork, Step, hear_calls


@dataclass
class Started:
    """A call that this process made, and how far it came; `peer` is None for a receive from anybody."""

    name: str
    peer: int | None
    state: Literal["started", "waiting", "through"] = "started"

    def __str__(self) -> str:
        what = f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"
        if self.name not in ("send", "receive"):
            return what
        other = "anybody" if self.peer is None else f"rank {self.peer}"
        return f"{what} {'to' if self.name == 'send' else 'from'} {other}"


class _Handle(HeardWork):
    """torch's handle of a call; whoever asks for its future or its result takes care of the end."""

    def __getattr__(self, name: str) -> Any:
        if name in ("get_future", "get_future_result", "result"):
            self._on_step("waited")
        return super().__getattr__(name)


@contextmanager
def watch_waits() -> Iterator[list[Started]]:
    """List every call that this process starts inside the block, through whatever function of torch.

    Example: after `dist.isend(x, 1)` the list is `[Started("send", 1, "started")]`, and after its `wait()` the state is
    "through". While a rank stands in `wait()`, or `wait()` has raised, it is "waiting".

    A handle is kept until its call is through, or else to the end of the block, so a receive that nobody waits for
    still takes its message, and does not look like a deadlock of its sender. With its call it lets go of the tensors.
    """
    calls: list[Started] = []
    kept: dict[int, HeardWork] = {}

    def listen(call: GroupCall) -> Callable[[Any], HeardWork]:
        def started(work: Any) -> HeardWork:
            number, one = len(calls), Started(call.name, call.args[1] if call.method in ("send", "recv") else None)

            def go_on(step: Step) -> None:
                one.state = "waiting" if step == "waiting" else "through"
                if one.state == "through":
                    kept.pop(number, None)

            calls.append(one)
            handle = kept[number] = _Handle(work, go_on)
            return handle

        return started

    with hear_calls(listen):
        yield calls
