"""One clock for the spans of all ranks: the host's, or a common zero where the ranks are on several hosts."""

import socket
import time
from pathlib import Path

from pllab.comm import all_gather_object, barrier, world_size
from pllab.timeline import Span, Timeline

_BOOT = Path("/proc/sys/kernel/random/boot_id")  # the same in all containers of a Linux host


def is_shared() -> bool:
    """Whether all ranks of the group read one clock, which counts from the start of their host; asks all ranks."""
    return world_size() == 1 or len(set(all_gather_object(_host()))) == 1


def from_common_zero(timeline: Timeline) -> Timeline:
    """This rank's spans on a clock that is zero where all ranks leave a barrier; asks all ranks.

    They leave it within about the time a message travels, and so far two hosts' spans may be apart.
    """
    barrier()
    zero = time.perf_counter()
    spans = (Span(one.rank, one.action, one.start - zero, one.end - zero) for one in timeline.spans)
    return Timeline.of(spans, timeline.engine, timeline.num_ranks)


def _host() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()
