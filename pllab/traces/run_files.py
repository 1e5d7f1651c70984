"""Runs that this package wrote: the bubble studio's Chrome trace, with a process per run and a thread per rank."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast, get_args

from pllab.schedule import Action, Kind, Schedule
from pllab.timeline import Engine, Span, Timeline
from pllab.traces.recorded import Recorded
from pllab.traces.trace_files import Event, TraceFile, times_of

_FIELDS = {"stage", "kind", "microbatch", "engine"}


class _Run(NamedTuple):
    number: int
    ranks: Mapping[Any, int]
    events: list[Event]


def is_own(file: TraceFile) -> bool:
    """Whether a file is one of this package: its first event says stage, kind, micro-batch and engine."""
    return any(_args(event).keys() >= _FIELDS for events in file.spans.values() for event in events[:1])


def read_run(file: TraceFile, number: int | None = None) -> Recorded:
    """One run of a file; runs are numbered from 1, and by default it is the last measured one, or the first.

    Example: a file of the studio with a prediction and its measured run has the runs 1 and 2, and 2 is read.

    Raises:
        ValueError: there is no such run, or an event does not say what it is.
    """
    runs = {run.number: run for run in _runs(file)}
    if number is not None and number not in runs:
        raise ValueError(f"step is {number}, and {file.name} has the runs {', '.join(map(str, runs))}; choose one")
    measured = [each for each, run in runs.items() if _engine(file, run) != "simulated"]
    chosen = number if number is not None else (measured or list(runs)[:1])[-1]
    spans = sorted(_spans(file, runs[chosen]), key=lambda span: span.start)
    engine, num_ranks = _engine(file, runs[chosen]), len(runs[chosen].ranks)
    rows = [[s.action for s in spans if s.rank == rank and s.action.kind in "FBIW"] for rank in range(num_ranks)]
    schedule = Schedule.of(cast(list[list[Action]], rows), f"trace, run {chosen}")
    note = f"times as the {engine} run has them"
    return Recorded(schedule, Timeline.of(spans, engine, num_ranks), "pllab", note, chosen, tuple(runs))


def _args(event: Event) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _runs(file: TraceFile) -> Iterator[_Run]:
    threads: dict[str, list[Any]] = {}
    spans: dict[str, list[Event]] = {}
    for event in file.events:
        process = str(event.get("pid"))
        if event.get("name") == "thread_name":
            threads.setdefault(process, []).append(event.get("tid"))
        elif event.get("ph") == "X":
            spans.setdefault(process, []).append(event)
    for number, (process, events) in enumerate(spans.items(), start=1):
        yield _Run(number, {str(thread): rank for rank, thread in enumerate(threads.get(process, ()))}, events)


def _engine(file: TraceFile, run: _Run) -> Engine:
    engine = _args(run.events[0]).get("engine")
    if engine not in get_args(Engine):
        raise ValueError(f"the engine of {file.name} is {engine!r}; it is one of {', '.join(get_args(Engine))}")
    return cast(Engine, engine)


def _spans(file: TraceFile, run: _Run) -> Iterator[Span]:
    for event in run.events:
        start, end = times_of(event, file.name)
        rank = run.ranks.get(str(event.get("tid")))
        if rank is None:
            raise ValueError(f"{event.get('name')!s:.60} in {file.name} is on a thread without a name; export it again")
        yield Span(rank, _action(file, event), start / 1e6, end / 1e6)


def _action(file: TraceFile, event: Event) -> Action:
    args = _args(event)
    try:
        return Action.parse(f"{args['stage']}{Kind(args['kind'])}{args['microbatch']}")
    except (KeyError, ValueError):
        raise ValueError(
            f"{event.get('name')!s:.60} in {file.name} does not say its stage, kind and micro-batch; export it again"
        ) from None
