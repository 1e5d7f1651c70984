"""A slow link, emulated: on one host messages are nearly free; behind a link they cost as much as on a network.

A thread of each rank is its link. It holds every message for its travel time and then hands it to gloo, so that
nothing arrives early on any rank, while the rank goes on computing.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from pllab.arguments import is_number, require
from pllab.comm.devices import gpu_backend
from pllab.comm.ledger import uncounted

_open: list["Link"] = []  # one at most


class Link:
    """The outgoing link of a rank: one message after another, each for `latency_s + num_bytes / bytes_per_s` seconds.

    Drawn, three messages of a second each, of which two start at 0 and one at 4:

        seconds   0   1   2   3   4   5
        link      [ a ][ b ]      [ c ]

    `.messages` lists their starts and ends on the clock, whose engine is "emulated".
    """

    def __init__(self, latency_s: float, bytes_per_s: float) -> None:
        self.messages: list[tuple[float, float]] = []
        self._latency_s, self._bytes_per_s = latency_s, bytes_per_s
        self._clock = time.monotonic
        self._lock = threading.Lock()  # hooks send from autograd's threads
        self._thread = ThreadPoolExecutor(1, "pllab-link")

    def carry(self, call: Callable[[], Any], num_bytes: int) -> "Future[Any]":
        """Make the call that hands over a message once the link has carried it and all earlier ones."""
        with self._lock:
            free_at = self.messages[-1][1] if self.messages else -math.inf
            start = max(self._clock(), free_at)
            end = start + self._latency_s + num_bytes / self._bytes_per_s
            self.messages.append((start, end))
            return self._thread.submit(self._hand_over, end, call)

    def close(self) -> None:
        """Wait until every message has left."""
        self._thread.shutdown()

    def _hand_over(self, at: float, call: Callable[[], Any]) -> Any:
        while (left_s := at - self._clock()) > 0:
            time.sleep(left_s)
        with uncounted():  # it was noted where it was started
            return call()


@contextmanager
def slow_link(latency_s: float = 0.0, bytes_per_s: float = math.inf) -> Iterator[Link]:
    """Inside the block, put every rank behind a slow link; all ranks call it.

    Example, ten messages of 1 kB that each take 11 ms, and one of 10 kB that takes 20 ms:

        with slow_link(latency_s=0.01, bytes_per_s=1e6) as link:
            for gradient in gradients:
                all_reduce(gradient)
        link.messages   # ten of 11 ms, or one of 20 ms with one bucket

    All collectives and sends of this room use the link, with the bytes that the ledger counts; a receive waits for the
    sender's link. Ranks share no memory meanwhile, as on different hosts. Direct calls of torch.distributed pass it by,
    so make none while messages are under way. The end of the block waits until all have left.

    Raises:
        ValueError: a number is not a valid time or rate, a link is open already, or the backend is nccl.
    """
    require(is_number(latency_s) and 0 <= latency_s < math.inf, f"latency_s is {latency_s!r}; give seconds from 0")
    require(is_number(bytes_per_s) and bytes_per_s > 0, f"bytes_per_s is {bytes_per_s!r}; give a rate above 0")
    require(not _open, "a slow link is open already, and a rank has only one; leave its block first")
    nccl = dist.is_initialized() and dist.get_backend() == gpu_backend()
    require(not nccl, "nccl sends from the GPU, where no link can be put before it; use gloo")
    link = Link(latency_s, bytes_per_s)
    _open.append(link)
    try:
        yield link
    finally:
        link.close()
        _open.remove(link)


def link_is_open() -> bool:
    """Whether messages of this rank go through a slow link."""
    return bool(_open)


def carried(call: Callable[[], Any], num_bytes: int) -> Any:
    """Make a call that sends a message, and return its result; behind an open link, the future of its result."""
    return _open[0].carry(call, num_bytes) if _open else call()
