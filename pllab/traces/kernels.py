"""When a GPU did the work of a span: from its first kernel to its last.

The CPU only issues the work, and its span is over long before. Kineto repeats a span's name on the GPU's streams
(`gpu_user_annotation`), around the kernels that were launched by the span's own thread. A backward launches from the
threads of autograd, so its kernels are found by the launches that lie within the span:

    CPU     PP:1B0     [  launch launch  ]                      annotation: same name and External id
    GPU     stream 7              [kernel] [kernel]             kernels: same correlation as a launch in the span
    GPU     stream 20  [ncclDevKernel_SendRecv]                 a message, and no work

Source: Kineto's `output_json.cpp`; pytorch/pytorch#144778 on annotations and the backward.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pllab.traces.trace_files import Event, TraceFile, times_of

Window = tuple[float, float]
"""First start and last end in microseconds."""

_ANNOTATION = "gpu_user_annotation"
_MESSAGE = ("nccl", "rccl", "oneccl")  # how kernels of messages begin, in any case


def kernel_windows(file: TraceFile, spans: Sequence[Event]) -> list[Window | None]:
    """For each span of the CPU, when the GPU did its work; None if no kernel of it is in the file.

    Args:
        file: the file of one rank.
        spans: its spans, by start.

    Raises:
        ValueError: an event has no time.
    """
    kernels = file.of_category("kernel")
    if not kernels and not file.of_category(_ANNOTATION):
        return [None] * len(spans)
    messages = {_lane(event) for event in kernels if _is_message(event)}
    found: dict[int, Window] = {}
    for number, event in (*_launched(file, spans, kernels), *_annotated(file, spans, messages)):
        start, end = times_of(event, file.name)
        first, last = found.get(number, (start, end))
        found[number] = min(first, start), max(last, end)
    return [found.get(number) for number in range(len(spans))]


def _is_message(event: Event) -> bool:
    return str(event.get("name")).lower().startswith(_MESSAGE)


def _lane(event: Event) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def _argument(event: Event, name: str) -> Any:
    args = event.get("args")
    value = args.get(name) if isinstance(args, dict) else None
    return value if isinstance(value, int) else None


def _launched(file: TraceFile, spans: Sequence[Event], kernels: list[Event]) -> Iterator[tuple[int, Event]]:
    """The kernels that were launched within a span, by any thread, with the number of the span."""
    if not kernels:
        return
    times = [times_of(event, file.name) for event in spans]
    starts = [start for start, _ in times]
    launches = {_argument(event, "correlation"): event for event in file.of_category("_runtime", "_driver")}
    for kernel in kernels:
        launch = launches.get(_argument(kernel, "correlation"))
        if launch is None or _argument(kernel, "correlation") is None or _is_message(kernel):
            continue
        moment, _ = times_of(launch, file.name)
        number = bisect_right(starts, moment) - 1
        if number >= 0 and moment <= times[number][1]:
            yield number, kernel


def _annotated(file: TraceFile, spans: Sequence[Event], messages: set[tuple[str, str]]) -> Iterator[tuple[int, Event]]:
    """The annotations of spans on the stream that computes: without messages, and with the most annotations."""
    numbers = dict(zip(_keys(spans), range(len(spans)), strict=True))
    named = [event for event in file.of_category(_ANNOTATION) if _lane(event) not in messages]
    names = {event["name"] for event in spans}
    lanes = Counter(_lane(event) for event in named if event.get("name") in names)
    if not lanes:
        return
    busiest = lanes.most_common(1)[0][0]
    own = [event for event in named if _lane(event) == busiest]
    for key, event in zip(_keys(own), own, strict=True):
        if key in numbers:
            yield numbers[key], event


def _keys(events: Sequence[Event]) -> Iterator[tuple[str, str, int]]:
    """A name, and which of its spans it is: Kineto numbers them, and without a number they count."""
    seen: Counter[str] = Counter()
    for event in events:
        name, number = str(event.get("name")), _argument(event, "External id")
        yield (name, "nth", seen[name]) if number is None else (name, "id", number)
        seen[name] += 1
