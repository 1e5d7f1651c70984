"""The spans of one rank of a pipeline, or of the lanes of one process, as torch.profiler (Kineto) writes them.

The schedule runtime of torch.distributed.pipelining names its spans `PP:0F0`, and GPipe `Forward 0` and `Backward 0`.
A span of the CPU also covers the wait for its input: the runtime receives in `PP:1RECV_F0`, and waits in `PP:1F0`. Gloo
says when the wait was over: its `gloo:recv` ends then. So the work begins there:

    PP:1RECV_F0  [==]
    gloo:recv      [==============]
    PP:1F0           [.............=========]        . waits   = works

Source: `_get_profiler_function_name` and `ScheduleGPipe` in torch.distributed.pipelining.schedules.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from pllab.schedule import Action, Kind
from pllab.traces.kernels import Window, kernel_windows
from pllab.traces.trace_files import Event, TraceFile, times_of

UNKNOWN_STAGE = -1
"""The stage of `Forward 0`: its rank has one stage, and its place among the ranks is not in the file."""

_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})")
_RUNTIME = re.compile(r"PP:([0-9]{1,9})(?:([FBIW])|(?:SEND|RECV)_[FB])([0-9]{1,9})")
_OVERLAPPED = re.compile(r"PP:\(([0-9FBIW;]*)\)OVERLAP_F_B")
_GPIPE = re.compile(r"(Forward|Backward) ([0-9]{1,9})")
_NO_NAMES = (
    "has no spans of a pipeline, such as PP:0F0 or 'Forward 0'; PyTorch's Schedule1F1B names none, so run its order by "
    "pllab.pipeline.to_torch(one_f_one_b(num_ranks, num_microbatches), stages, loss), whose runtime names all"
)


class Work(NamedTuple):
    """A span of a rank: its action (two if they overlap), and microseconds on the clock of its file.

    `inputs` are the ends of the waits for its inputs, and `kernels` the time in which a GPU did it; both may be
    missing. A message has the kind C.
    """

    actions: tuple[Action, ...]
    start: float
    end: float
    inputs: tuple[float, ...] = ()
    kernels: Window | None = None

    @property
    def is_message(self) -> bool:
        """Whether it sends or receives, and does not compute."""
        return self.actions[0].kind is Kind.C


class RankStep(NamedTuple):
    """One step of one rank; the label is the profiler's number, if it counted."""

    label: int | None
    work: tuple[Work, ...]


class RankTrace(NamedTuple):
    """What one file says: whose it is, on which clock, and the steps it recorded."""

    name: str
    rank: int
    world_size: int
    groups: frozenset[frozenset[int]]
    base_ns: int | None
    on_gpu: bool
    steps: tuple[RankStep, ...]


def read_ranks(file: TraceFile) -> list[RankTrace]:
    """Read the spans of one rank; or of several, where a process without a group runs lanes, one thread for each.

    Example: `read_ranks(read_file("rank1.json"))[0].steps[0].work[0].actions` is `(1F0,)`.

    Raises:
        ValueError: the file does not say which rank wrote it and has no lanes, has no spans of a pipeline, or one has
            no time.
    """
    info, spans = file.about.get("distributedInfo"), file.spans.get("user_annotation", [])
    rank, size = (_count_in(info, name) for name in ("rank", "world_size"))
    if rank is not None and size is not None:
        return [_rank_trace(file, spans, file.name, rank, size)]
    lanes = _lanes(spans) if info is None else []
    if len(lanes) < 2:
        problem = f"{file.name} does not say which rank wrote it (no distributedInfo)"
        raise ValueError(f"{problem}; start the profiler after torch.distributed.init_process_group")
    return [
        _rank_trace(file, lane, f"{file.name}, lane {number}", number, len(lanes)) for number, lane in enumerate(lanes)
    ]


def _lanes(spans: list[Event]) -> list[list[Event]]:
    """The spans of each thread that runs a pipeline's actions; the lane of stage 0 comes first."""
    of_thread: dict[object, list[Event]] = defaultdict(list)
    for event in spans:
        if actions_of(event["name"]):
            of_thread[event.get("tid")].append(event)
    return sorted(of_thread.values(), key=lambda lane: min(actions_of(event["name"])[0].stage for event in lane))


def _rank_trace(file: TraceFile, spans: list[Event], name: str, rank: int, size: int) -> RankTrace:
    info = file.about.get("distributedInfo")
    found = _work(file, spans)
    windows = kernel_windows(file, [event for event, _ in found])
    pairs = zip(found, windows, strict=True)
    work = [each._replace(kernels=window) if window else each for (_, each), window in pairs]
    on_gpu = any(windows) or _is_on_gpu(file)
    steps = tuple(_steps(work, _profiler_steps(file, file.spans.get("user_annotation", []))))
    return RankTrace(name, rank, size, _groups(info), _count_in(file.about, "baseTimeNanoseconds"), on_gpu, steps)


def _is_on_gpu(file: TraceFile) -> bool:
    """Whether the ranks compute on GPUs; a gloo group may have some in its machine, and not use them."""
    info = file.about.get("distributedInfo")
    backend = info.get("backend") if isinstance(info, dict) else None
    return backend == "nccl" or (backend != "gloo" and bool(file.about.get("deviceProperties")))


def _count_in(values: Any, name: str) -> int | None:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _groups(info: Any) -> frozenset[frozenset[int]]:
    """The ranks of every process group, as far as the file has them."""
    config = info.get("pg_config") if isinstance(info, dict) else None
    members = [group.get("ranks") for group in config if isinstance(group, dict)] if isinstance(config, list) else []
    ranks = (set(filter(lambda rank: isinstance(rank, int), each)) for each in members if isinstance(each, list))
    return frozenset(map(frozenset, ranks))


def _work(file: TraceFile, spans: list[Event]) -> list[tuple[Event, Work]]:
    """The named spans with their events, by start; names of GPipe count only where the runtime has none."""
    named = [(event, actions) for event in spans if (actions := actions_of(event["name"]))]
    computing = [actions for _, actions in named if actions[0].kind is not Kind.C]
    if not computing:
        raise ValueError(f"{file.name} {_NO_NAMES}")
    if any(actions[0].stage != UNKNOWN_STAGE for actions in computing):
        named = [(event, actions) for event, actions in named if actions[0].stage != UNKNOWN_STAGE]
    received = sorted(times_of(event, file.name)[1] for event in spans if event["name"].endswith(":recv"))
    found = []
    for event, actions in named:
        start, end = times_of(event, file.name)
        inputs = () if actions[0].kind is Kind.C else _between(received, start, end)
        found.append((event, Work(actions, start, end, inputs)))
    return sorted(found, key=lambda each: each[1].start)


def _between(times: list[float], start: float, end: float) -> tuple[float, ...]:
    return tuple(times[bisect_left(times, start) : bisect_right(times, end)])


@lru_cache(maxsize=1 << 16)
def actions_of(name: str) -> tuple[Action, ...]:
    """What a span is called after: an action, two that overlap, a message; nothing for any other name.

    Example: `"PP:0F1"` is `(0F1,)`, `"PP:(0F1;3B0)OVERLAP_F_B"` is `(0F1, 3B0)` and `"PP:0SEND_F1"` is `(0C1,)`. FSDP's
    `PP:0UNSHARD`, `PP:0RESHARD` and `PP:0REDUCE_GRAD` are nobody's micro-batch.
    """
    if one := _RUNTIME.fullmatch(name):
        return (Action(int(one[1]), Kind(one[2] or "C"), int(one[3])),)
    if one := _GPIPE.fullmatch(name):
        return (Action(UNKNOWN_STAGE, Kind(one[1][0]), int(one[2])),)
    one = _OVERLAPPED.fullmatch(name)
    parts = [_RUNTIME.fullmatch(f"PP:{part}") for part in one[1].split(";")] if one else []
    return tuple(Action(int(part[1]), Kind(part[2]), int(part[3])) for part in parts if part and part[2])


def _profiler_steps(file: TraceFile, spans: list[Event]) -> list[tuple[float, int]]:
    """Start and number of each `ProfilerStep#2`, which a profiler with a schedule writes."""
    steps = ((event, _STEP.fullmatch(event["name"])) for event in spans)
    return sorted((times_of(event, file.name)[0], int(step[1])) for event, step in steps if step)


def _steps(work: Iterable[Work], profiled: list[tuple[float, int]]) -> Iterator[RankStep]:
    """Cut where the profiler counts on, and where an action or a message comes again."""
    starts = [start for start, _ in profiled]
    label: int | None = None
    names: set[object] = set()
    step: list[Work] = []
    for each in work:
        place = bisect_right(starts, each.start) - 1
        now = profiled[place][1] if place >= 0 else None
        # The first receive of a step may be counted with the step before, where it lies after all work and is left out.
        if step and (now != label or (not each.is_message and not names.isdisjoint(each.actions))):
            yield RankStep(label, tuple(step))
            names, step = set(), []
        label = now
        names.update(each.actions)
        step.append(each)
    if step:
        yield RankStep(label, tuple(step))
