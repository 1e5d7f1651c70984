"""A group for the time of one piece of work: whatever the work does, the group is gone afterwards."""

import os
from collections.abc import Callable
from typing import TypeVar

from pllab.comm.group import setup, teardown

Result = TypeVar("Result")


def run_in_group(
    rank: int,
    world_size: int,
    init_file: str | os.PathLike[str],
    work: Callable[[], Result],
    *,
    timeout_s: float = 60.0,
) -> Result:
    """Join the gloo group that meets at `init_file`, return what `work()` returns, and leave the group.

    Every rank calls it with its own number and with the same file, which does not exist yet. A file has a name
    of its own where a port would have to be free, so any number of groups can meet at the same time.

    Example, in two processes with `rank` 0 and 1:

        run_in_group(rank, 2, "meeting-7", barrier)

    Raises:
        PeerError: the other ranks did not come within `timeout_s` seconds.
        Exception: whatever `work` raises; the group is left in that case too.
    """
    setup(rank, world_size, "gloo", init_file=init_file, timeout_s=timeout_s)
    try:
        return work()
    finally:
        teardown()
