"""Timelines as a Chrome trace, the JSON that Perfetto and chrome://tracing open.

Source: Trace Event Format (Google); "X" is a complete event, "M" names a process or a thread, times are microseconds.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pllab.show.theme import paint_of
from pllab.timeline import Timeline


def to_chrome_trace(timelines: Mapping[str, Timeline]) -> str:
    """One process per timeline, one thread per rank, one event per action; every timeline starts at zero.

    Example: `to_chrome_trace({"1F1B, simulated": timeline})`, saved as `run.json`, opens in ui.perfetto.dev.
    """
    events = [event for pid, (name, one) in enumerate(timelines.items()) for event in _events(pid, name, one)]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _events(pid: int, name: str, timeline: Timeline) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    for rank in range(timeline.num_ranks):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": rank, "args": {"name": f"rank {rank}"}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": rank, "args": {"sort_index": rank}}
    for span in timeline.spans:
        stage, kind, microbatch = span.action.stage, str(span.action.kind), span.action.microbatch
        yield {
            "ph": "X",
            "name": f"{stage}{kind}{microbatch}",
            "cat": paint_of(kind).name,
            "pid": pid,
            "tid": span.rank,
            "ts": round((span.start - timeline.start) * 1e6, 3),
            "dur": round(span.duration * 1e6, 3),
            "args": {"stage": stage, "kind": kind, "microbatch": microbatch, "engine": timeline.engine},
        }
