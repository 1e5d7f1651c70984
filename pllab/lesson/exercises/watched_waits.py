"""Which started messages somebody waited for: one that nobody waits for may still be under way when it is read.

gloo runs several messages at a time, so the last one that was started may be the first to arrive.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pllab.comm import Group

_METHODS = ("allreduce", "broadcast", "reduce")


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
    methods = {name: vars(Group)[name] for name in _METHODS}
    for name, method in methods.items():
        setattr(Group, name, _watching(method, started))
    try:
        yield started
    finally:
        for name, method in methods.items():
            setattr(Group, name, method)


def _watching(method: Callable[..., Any], started: list[Watched]) -> Callable[..., Any]:
    def call(group: Group, *args: Any, **options: Any) -> Watched:
        started.append(Watched(method(group, *args, **options)))
        return started[-1]

    return call
