"""The spans of one rank of a pipeline, or of the lanes of one process, as torch.profiler (Kineto) writes them.

The schedule runtime of torch.distributed.pipelining names its spans `PP:0F0`. A span of the CPU also covers the wait
for its input: the runtime receives in `PP:1RECV_F0`, and waits in `PP:1F0`. Gloo says when the wait was over: its
`gloo:recv` ends then. So the work begins there:

    PP:1RECV_F0  [==]
    gloo:recv      [==============]
    PP:1F0           [.............=========]        . waits   = works

Of a GPU's work the CPU's span says only when it was issued, and is over long before. A kernel has the number of its
launch, so its span is the one in which it was launched, also by a thread of autograd:

    CPU     PP:1B0     [  launch launch  ]
    GPU     stream 7              [kernel] [kernel]             the same correlation as a launch in the span
    GPU     stream 20  [ncclDevKernel_SendRecv]                 a message, and no work

The file may come from anywhere, so it is read as JSON and nothing else.

Source: `_get_profiler_function_name` in torch.distributed.pipelining.schedules; Kineto's `output_json.cpp`; Trace Event
Format (Google).
"""

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pllab.arguments import is_number, plain_file, require, whole_number
from pllab.schedule import Action, Kind

Event = Mapping[str, Any]

_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})")
_RUNTIME = re.compile(r"PP:([0-9]{1,9})(?:([FBIWR])|(?:SEND|RECV)_[FB])([0-9]{1,9})")
_GZIP = b"\x1f\x8b"
_MESSAGE = ("nccl", "rccl", "oneccl")  # how kernels of messages begin, in any case
_NO_NAMES = (
    "has no spans of a pipeline, such as PP:0F0; PyTorch's ScheduleGPipe and Schedule1F1B write none, so run their "
    "order with pllab.pipeline.to_torch(one_f_one_b(num_ranks, num_microbatches), stages, loss), whose runtime names "
    "every action"
)


class TracedWork(NamedTuple):
    """What a rank did, in microseconds: a span from `begin` to `end`, whose input was there at `start`.

    `kernels` is the time in which a GPU did it, from the first to the last; None if the file has none. A message has
    the kind C.
    """

    action: Action
    begin: float
    start: float
    end: float
    kernels: tuple[float, float] | None = None

    @property
    def is_message(self) -> bool:
        """Whether it sends or receives instead of computing."""
        return self.action.kind is Kind.C

    @property
    def is_scheduled(self) -> bool:
        """Whether a schedule contains it: it contains neither messages nor recomputed forwards."""
        return self.action.kind not in (Kind.C, Kind.R)


class RankStep(NamedTuple):
    """One step of one rank; the label is the profiler's number, if it counted."""

    label: int | None
    work: tuple[TracedWork, ...]


class RankTrace(NamedTuple):
    """What one file says: whose it is, on which clock, and the steps it recorded."""

    name: str
    rank: int
    world_size: int
    groups: frozenset[frozenset[int]]
    base_ns: int | None
    on_gpu: bool
    steps: tuple[RankStep, ...]


class TraceFile(NamedTuple):
    """The complete events ("X") of a file by category, and its other contents; the name is for messages."""

    name: str
    about: Mapping[str, Any]
    spans: Mapping[str, list[Event]]

    def of_category(self, *endings: str) -> list[Event]:
        """The complete events of the categories with this ending: `"_runtime"` for `cuda_runtime`."""
        return [event for name, events in self.spans.items() if name.endswith(endings) for event in events]


def read_ranks(path: Path) -> list[RankTrace]:
    """Read the spans of one rank; or of several, where a process without a group runs lanes, one thread for each.

    Example: `read_ranks(Path("rank1.json.gz"))[0].steps[0].work[0].action` is `1F0`.

    Raises:
        ValueError: the file is no trace, does not say which rank wrote it and has no lanes, or has no spans of a
            pipeline.
    """
    file = _read_file(path)
    try:
        return _ranks_in(file)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a part of {file.name} has another form than torch.profiler's ({error!r})") from None


def _ranks_in(file: TraceFile) -> list[RankTrace]:
    info, spans = file.about.get("distributedInfo"), file.spans.get("user_annotation", [])
    if info:
        rank, size = (whole_number(f"{name} in {file.name}", info[name], least=0) for name in ("rank", "world_size"))
        return [_rank_trace(file, spans, file.name, rank, size)]
    lanes = _lanes(spans)
    if len(lanes) < 2:
        problem = f"{file.name} does not say which rank wrote it (no distributedInfo)"
        raise ValueError(f"{problem}; start the profiler after torch.distributed.init_process_group")
    return [
        _rank_trace(file, lane, f"{file.name}, lane {number}", number, len(lanes)) for number, lane in enumerate(lanes)
    ]


def _read_file(path: Path) -> TraceFile:
    """A trace as plain data, compressed or not."""
    data = plain_file(path).read_bytes()
    try:
        content = json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)
        spans: dict[str, list[Event]] = defaultdict(list)
        for event in content.pop("traceEvents"):
            if event["ph"] == "X":
                spans[str(event.get("cat"))].append(event)
    except Exception as error:  # what is no trace raises nearly anything
        told = f"{str(path)!r} is no whole trace ({type(error).__name__}: {error})"
        raise ValueError(f"{told}; give one as torch.profiler's export_chrome_trace writes it") from None
    return TraceFile(path.name, content, spans)


def _lanes(spans: list[Event]) -> list[list[Event]]:
    """The spans of each thread that runs a pipeline's actions; the lane of stage 0 comes first."""
    of_thread: dict[str, list[tuple[int, Event]]] = defaultdict(list)
    for event in spans:
        if (action := action_of(event["name"])) is not None:
            of_thread[str(event.get("tid"))].append((action.stage, event))
    lanes = sorted(of_thread.values(), key=lambda lane: min(stage for stage, _ in lane))
    return [[event for _, event in lane] for lane in lanes]


def _rank_trace(file: TraceFile, spans: list[Event], name: str, rank: int, size: int) -> RankTrace:
    info = file.about.get("distributedInfo") or {}
    work = _work(file, spans, None if info else spans[0].get("tid"))
    # The lanes of a process, or a gloo group, may have GPUs in their machine, and not use them.
    has_gpu = bool(info and info.get("backend") != "gloo" and file.about.get("deviceProperties"))
    on_gpu = info.get("backend") == "nccl" or has_gpu or any(one.kernels for one in work)
    groups = frozenset(frozenset(group["ranks"]) for group in info.get("pg_config", ()) if len(group["ranks"]) > 1)
    steps, base = tuple(_steps(work, _profiler_steps(file))), file.about.get("baseTimeNanoseconds")
    base_ns = None if base is None else whole_number(f"baseTimeNanoseconds in {file.name}", base, least=0)
    return RankTrace(name, rank, size, groups, base_ns, on_gpu, steps)


def _work(file: TraceFile, spans: list[Event], thread: Any) -> list[TracedWork]:
    """The named spans by start; of a lane, which has a thread, with the kernels of its own stream alone."""
    named = [(event, action) for event in spans if (action := action_of(event["name"])) is not None]
    if all(action.kind is Kind.C for _, action in named):
        raise ValueError(f"{file.name} {_NO_NAMES}")
    received = sorted(_times_of(event)[1] for event in spans if event["name"].endswith(":recv"))
    kernels = _kernels(file, thread)
    moments = [moment for moment, _, _ in kernels]
    work = []
    for event, action in named:
        begin, end = _times_of(event)
        inputs = received[bisect_left(received, begin) : bisect_right(received, end)]
        if action.kind is Kind.C:
            work.append(TracedWork(action, begin, begin, end))
            continue
        own = kernels[bisect_left(moments, begin) : bisect_right(moments, end)]
        window = (min(start for _, start, _ in own), max(stop for _, _, stop in own)) if own else None
        work.append(TracedWork(action, begin, max((begin, *inputs)), end, window))
    return sorted(work, key=lambda one: one.begin)


def _kernels(file: TraceFile, thread: Any) -> list[tuple[float, float, float]]:
    """When each kernel that is no message was launched, and its start and end, by launch.

    Any thread may have launched it, for autograd has threads of its own; but of a lane's thread only what runs on the
    streams on which that thread launches, because other lanes launch at the same time.
    """
    launches = {_correlation(event): event for event in file.of_category("_runtime", "_driver")}
    of_stream: dict[Any, list[tuple[float, float, float]]] = defaultdict(list)
    own = set()
    for kernel in file.of_category("kernel"):
        launch = launches.get(_correlation(kernel))
        is_message = kernel["name"].lower().startswith(_MESSAGE)
        if launch is not None and _correlation(kernel) is not None and not is_message:
            stream = str((kernel.get("pid"), kernel.get("tid")))
            of_stream[stream].append((_times_of(launch)[0], *_times_of(kernel)))
            if thread in (None, launch.get("tid")):
                own.add(stream)
    return sorted(one for stream in own for one in of_stream[stream])


def _correlation(event: Event) -> int | None:
    number: int | None = event.get("args", {}).get("correlation")
    return number


def _times_of(event: Event) -> tuple[float, float]:
    """Start and end of a complete event in microseconds.

    Raises:
        ValueError: they are no such times; within some 30,000 years, they are.
    """
    start, length = event["ts"], event["dur"]
    is_time = is_number(start) and is_number(length) and abs(start) < 1e18 and 0 <= length < 1e18
    require(is_time, f"{event['name']:.60} starts at {start!r:.30} and lasts {length!r:.30} microseconds")
    return start, start + length


@lru_cache(maxsize=1 << 16)
def action_of(name: str) -> Action | None:
    """The action or message that a span is named after; None for any other name.

    Example: `"PP:0F1"` is `0F1`, and `"PP:0SEND_F1"` is `0C1`. FSDP's `PP:0UNSHARD` belongs to no micro-batch.
    """
    one = _RUNTIME.fullmatch(name)
    return Action(int(one[1]), Kind(one[2] or "C"), int(one[3])) if one else None


def _profiler_steps(file: TraceFile) -> list[tuple[float, int]]:
    """Start and number of each `ProfilerStep#2`, which a profiler with a schedule writes."""
    steps = ((event, _STEP.fullmatch(event["name"])) for event in file.spans.get("user_annotation", []))
    return sorted((_times_of(event)[0], int(step[1])) for event, step in steps if step)


def _steps(work: Iterable[TracedWork], profiled: list[tuple[float, int]]) -> Iterator[RankStep]:
    """Cut where the profiler starts the next step, and where an action comes again."""
    starts = [start for start, _ in profiled]
    label: int | None = None
    names: set[Action] = set()
    step: list[TracedWork] = []
    for each in work:
        place = bisect_right(starts, each.begin) - 1
        now = profiled[place][1] if place >= 0 else None
        # The first receive of a step may be counted with the step before, where it lies after all work and is left out.
        if step and (now != label or (not each.is_message and each.action in names)):
            yield RankStep(label, tuple(step))
            names, step = set(), []
        label = now
        names.add(each.action)
        step.append(each)
    if step:
        yield RankStep(label, tuple(step))
