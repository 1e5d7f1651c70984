"""The files of the studio: a widget as one HTML file, and its runs as a Chrome trace.

The page has its own source and data, and a stand-in for the kernel that answers from runs made beforehand; it needs no
kernel, no network and no other file. Source of the trace: Trace Event Format (Google); "X" is a complete event, "M"
names a process or a thread, times are microseconds.
"""

import base64
import html
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pllab.show.studio.runs import Shown
from pllab.show.theme import name_of
from pllab.show.widget import Widget
from pllab.timeline import Span, Timeline

FILE_TYPES = {  # the button -> suffix and type
    "PNG": ("png", "image/png"),
    "SVG": ("svg", "image/svg+xml"),
    "CSV": ("csv", "text/csv"),
    "Trace": ("trace.json", "application/json"),
    "HTML": ("html", "text/html"),
}

_THREADS = 1000  # numbers kept for the ranks of one process
_WAYS = 1_000_000  # numbers kept for the micro-batches of one process
_ON_THE_WAY = frozenset("FBI")  # a weight gradient goes nowhere

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; }}
{css}
</style>
</head>
<body>
<main id="widget"></main>
<noscript><p>{alt}</p></noscript>
<script type="text/plain" id="state">{state}</script>
<script type="module">
{source}
{model}
</script>
</body>
</html>
"""


def values_of(widget: Widget, **changes: Any) -> dict[str, Any]:
    """The traits of a widget that a page begins with; bytes come with its runs."""
    values = {name: getattr(widget, name) for name in widget.keys if not name.startswith("_") and name != "layout"}
    plain = {name: value for name, value in values.items() if not isinstance(value, bytes)}
    return plain | {"order": {}, "delivery": {}} | changes


def to_page(
    title: str, alt: str, source: str, css: str, values: Mapping[str, Any], runs: Mapping[str, Shown] | None = None
) -> str:
    """The page of a widget: its module and style sheet, its traits, and the runs that its controls reach.

    `alt` is the sentence shown if scripts are off. The runs travel deflated, as the browser inflates them.
    """
    shown = {key: {**one.to_dict(), "csv": one.schedule.to_csv()} for key, one in (runs or {}).items()}
    blocks = [one.columns.astype("<f4").tobytes() for one in (runs or {}).values()]
    state = json.dumps({"values": values, "runs": shown, "sizes": [len(block) for block in blocks]}).encode()
    packed = zlib.compress(len(state).to_bytes(4, "little") + state + b"".join(blocks), 9)
    model = Path(__file__).with_name("page_model.js").read_text(encoding="utf-8")
    return _PAGE.format(
        title=html.escape(title),
        alt=html.escape(alt),
        css=css,
        state=base64.b64encode(packed).decode(),
        source=source,
        model=model,
    )


def to_chrome_trace(timelines: Mapping[str, Timeline]) -> str:
    """One process per timeline, one thread per rank, one event per action; every timeline starts at zero.

    Processes count from 1, and no thread has the number of another or of a process: Perfetto takes number 0 for the
    idle thread of Linux, and a thread with the number of its process for the main thread. It draws the process with the
    most events on top and sorts equals by name, so names begin with a number: a measured run is below its prediction.
    Arrows follow a micro-batch forward through the stages and back.

    Example: `to_chrome_trace({"1F1B, simulated": timeline})`, saved as `run.json`, opens in ui.perfetto.dev.
    """
    digits = len(str(len(timelines)))
    events: list[dict[str, Any]] = []
    for pid, (name, timeline) in enumerate(timelines.items(), start=1):
        events += _events(pid, f"{pid:0{digits}}: {name}" if len(timelines) > 1 else name, timeline)
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _events(pid: int, name: str, timeline: Timeline) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    threads = [_THREADS * pid + rank for rank in range(timeline.num_ranks)]
    for rank, thread in enumerate(threads):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": f"rank {rank}"}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": thread, "args": {"sort_index": rank}}
    arrows = _arrows(pid, timeline)
    for span in timeline.spans:
        stage, kind, microbatch = span.action.stage, str(span.action.kind), span.action.microbatch
        start, end = (round((time - timeline.start) * 1e6, 3) for time in (span.start, span.end))  # as the next begins
        yield {
            "ph": "X",
            "name": f"{stage}{kind}{microbatch}",
            "cat": name_of(kind),
            "pid": pid,
            "tid": threads[span.rank],
            "ts": start,
            "dur": round(end - start, 3),
            "args": {"stage": stage, "kind": kind, "microbatch": microbatch, "engine": timeline.engine},
        } | arrows.get(span, {})


def _arrows(pid: int, timeline: Timeline) -> dict[Span, dict[str, Any]]:
    """The fields that connect the spans of a micro-batch with arrows: one number per micro-batch."""
    ways: dict[int, list[Span]] = {}
    for span in timeline.spans:
        if span.action.kind in _ON_THE_WAY:
            ways.setdefault(span.action.microbatch, []).append(span)
    return {
        span: {"bind_id": _WAYS * pid + microbatch, "flow_in": span is not way[0], "flow_out": span is not way[-1]}
        for microbatch, way in ways.items()
        if len(way) > 1  # an arrow has two ends
        for span in way
    }
