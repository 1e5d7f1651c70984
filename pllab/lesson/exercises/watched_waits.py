"""Which started messages somebody waited for: one that nobody waits for may still be under way when it is read.

gloo runs several messages at a time, so the last one that was started may be the first to arrive.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pllab.comm.ends import watch_group


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
    """Yield a list that fills with the messages that are started inside the block."""
    started: list[Watched] = []

    def note(_name: str, _args: tuple[Any, ...], work: Any) -> Watched:
        started.append(Watched(work))
        return started[-1]

    with watch_group(note, "allreduce", "broadcast", "reduce"):
        yield started
