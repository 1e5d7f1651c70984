"""One step of a pipeline from the files of its ranks: all spans on one clock, as a schedule and a timeline.

The files, and their clocks, have to belong together. Kineto writes microseconds since its own start,
`baseTimeNanoseconds`, which differs from file to file. Clocks of two hosts may differ as well. That shows when a result
is used before the work on it began.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Literal

from pllab.arguments import require
from pllab.schedule import Action, Kind, Schedule, collector_paused, needs, problems
from pllab.timeline import Span, Timeline
from pllab.traces.kineto import RankStep, RankTrace, TracedWork, read_ranks

Clock = Literal["kernel", "issue", "host"]
"""What the spans' times measure: kernels on the GPU; the CPU that issued work to a GPU; the CPU that did the work."""


@dataclass(frozen=True)
class Recorded:
    """One step of a recorded run: what every rank did in which order, and when.

    Example: with `recorded = read_trace(["rank0.json", "rank1.json"])`,
    `estimate([(recorded.schedule, recorded.timeline)])` is what its stages cost.

    Args:
        schedule: per rank, its F, B, I and W in the order of their starts.
        timeline: the same actions with their times, from zero, and communication as kind C.
        clock: what the times measure.
        note: what a reader has to know about these times, in words.
        step: number of the step, as the profiler or the order in the file counts.
        steps: all steps of the trace.
    """

    schedule: Schedule
    timeline: Timeline
    clock: Clock
    note: str
    step: int
    steps: tuple[int, ...]


@collector_paused()
def read_trace(paths: Iterable[Path | str] | Path | str, step: int | None = None) -> Recorded:
    """Read a recorded run: what every rank did in which order, and when.

    Example, after `torch.profiler.profile(...)` around some steps of a pipeline and `export_chrome_trace` on each rank:

        recorded = read_trace(["rank0.json", "rank1.json.gz"])
        costs = estimate([(recorded.schedule, recorded.timeline)])
        recorded.timeline.makespan / simulate(recorded.schedule, costs).makespan      # measured over predicted

    Durations are those of the files. Where a span of a CPU waits for its input, and the file says until when, the wait
    is a span of communication and the work is the rest of it.

    Args:
        paths: one file per rank, as torch.profiler writes it for a pipeline of torch.distributed.pipelining; or one
            file for all lanes of a process. Each may be compressed with gzip.
        step: which step, by the profiler's number, or from 0 if it did not count. By default the last complete one.

    Raises:
        ValueError: a file is no trace or has no pipeline, a rank is missing or there twice, the clocks of the ranks do
            not fit, or there is no such complete step.

    Source: torch.profiler's Kineto traces; Trace Event Format (Google).
    """
    names = [paths] if isinstance(paths, Path | str) else list(paths)
    require(bool(names), "no trace is given; give one file per rank")
    traces = sorted((trace for name in names for trace in read_ranks(Path(name))), key=attrgetter("rank"))
    _check_ranks(traces)
    offsets, steps = _offsets_us(traces), _common_steps(traces)
    number = _chosen(steps, step, traces)
    clock = _clock_of(steps[number], traces)
    rows = [list(_placed(one, clock, offset)) for one, offset in zip(steps[number], offsets, strict=True)]
    working = [sorted((one for one in row if one.is_scheduled), key=attrgetter("start")) for row in rows]
    schedule = Schedule.of([[one.action for one in row] for row in working], f"trace, step {number}")
    if clock != "issue":  # a CPU may issue work to its GPU long before the input is there
        _check_clocks(working, schedule.num_stages, [trace.name for trace in traces])
    timeline = Timeline.of(_spans(rows), "real", len(rows))
    return Recorded(schedule, timeline, clock, _note(clock, working), number, tuple(sorted(steps)))


def _check_ranks(traces: Sequence[RankTrace]) -> None:
    """Refuse files, sorted by rank, that are not those of one pipeline's ranks, one each.

    A pipeline is the whole world or, beside other axes, one of its process groups.

    Raises:
        ValueError: a rank is there twice or not at all, or the files are of different runs.
    """
    for before, trace in pairwise(traces):
        if before.rank == trace.rank:
            raise ValueError(f"{before.name} and {trace.name} are both of rank {trace.rank}; give one file per rank")
        if before.world_size != trace.world_size:
            sizes = f"{before.name} is of {before.world_size} ranks and {trace.name} of {trace.world_size}"
            raise ValueError(f"{sizes}; give the files of one run")
    given, size = frozenset(trace.rank for trace in traces), traces[0].world_size
    missing = next((rank for rank in range(size) if rank not in given), None)
    if missing is not None and not all(given in trace.groups for trace in traces):
        what = f"of {size} ranks {len(given)} are given, without rank {missing}"
        raise ValueError(f"{what}; give a file of every rank of the pipeline")


def _offsets_us(traces: Sequence[RankTrace]) -> list[float]:
    """Microseconds to add to the times of each file, so that all are on the clock of the first.

    Raises:
        ValueError: a file does not say when its clock began.
    """
    for trace in traces:
        if trace.base_ns is None and len(traces) > 1:
            problem = f"{trace.name} does not say when its clock began (no baseTimeNanoseconds)"
            raise ValueError(f"{problem}, so its times fit no other file; export it again with torch.profiler")
    bases = [trace.base_ns or 0 for trace in traces]
    return [(base - bases[0]) / 1e3 for base in bases]


def _common_steps(traces: Sequence[RankTrace]) -> dict[int, list[RankStep]]:
    """The steps that every rank has, by the profiler's numbers, or counted from 0 if the profiler did not count."""
    labels = [[step.label for step in trace.steps] for trace in traces]
    if all(None not in each and len(set(each)) == len(each) for each in labels):
        of_rank = [{step.label: step for step in trace.steps if step.label is not None} for trace in traces]
        return {
            number: [steps[number] for steps in of_rank] for number in of_rank[0] if all(number in o for o in of_rank)
        }
    for trace in traces[1:]:
        if len(trace.steps) != len(traces[0].steps):
            problem = f"{traces[0].name} and {trace.name} have {len(traces[0].steps)} and {len(trace.steps)} steps"
            raise ValueError(f"{problem}; record the same steps on every rank, with torch.profiler.schedule")
    return {number: list(of_ranks) for number, of_ranks in enumerate(zip(*(t.steps for t in traces), strict=True))}


def _chosen(steps: Mapping[int, Sequence[RankStep]], step: int | None, traces: Sequence[RankTrace]) -> int:
    """The number of the step to read: the last complete one, or the one that is asked for.

    Raises:
        ValueError: there is no such step, or none is complete.
    """
    require(bool(steps), "the ranks have no step in common; record the same steps on every rank")
    if step is not None and step not in steps:
        there = ", ".join(map(str, sorted(steps)))
        raise ValueError(f"step is {step}, and the traces have the steps {there}; choose one of them")
    wanted = sorted(steps, reverse=True) if step is None else [step]
    complete = next((number for number in wanted if _problem(steps[number]) is None), None)
    if complete is not None:
        return complete
    _check_stages([_actions(one) for one in steps[wanted[0]]], traces)
    sentence = f"step {wanted[0]} is not complete: {_problem(steps[wanted[0]])}"
    raise ValueError(f"{sentence}, or record whole steps, from before the first forward to after the last backward")


def _check_stages(rows: Sequence[Sequence[Action]], traces: Sequence[RankTrace]) -> None:
    """Refuse ranks that share a stage, as ranks of two pipelines do, and stages that no rank has.

    Raises:
        ValueError: a stage has two ranks, or none.
    """
    homes: dict[int, str] = {}
    for row, trace in zip(rows, traces, strict=True):
        for stage in {action.stage for action in row}:
            if stage in homes:
                problem = f"stage {stage} is in {homes[stage]} and in {trace.name}"
                raise ValueError(f"{problem}; give the files of one pipeline, without its data-parallel copies")
            homes[stage] = trace.name
    if max(homes, default=-1) >= len(homes):
        missing = next(stage for stage in range(len(homes)) if stage not in homes)
        raise ValueError(f"stage {missing} is in no file; give the files of all ranks of the pipeline")


def _actions(step: RankStep) -> list[Action]:
    return [work.action for work in step.work if work.is_scheduled]


def _problem(step: Sequence[RankStep]) -> str | None:
    """Why these rows are not a complete step."""
    return next((problem.sentence for problem in problems(Schedule.of([_actions(one) for one in step]))), None)


def _clock_of(steps: Sequence[RankStep], traces: Sequence[RankTrace]) -> Clock:
    if not any(trace.on_gpu for trace in traces):
        return "host"
    return "kernel" if all(one.is_message or one.kernels for step in steps for one in step.work) else "issue"


def _placed(step: RankStep, clock: Clock, offset: float) -> Iterator[TracedWork]:
    """What a rank did on the clock of all; of a GPU, from the first kernel to the last, and no messages of its CPU."""
    for one in step.work:
        if clock == "kernel" and one.kernels:
            start, end = (time + offset for time in one.kernels)
            yield one._replace(begin=start, start=start, end=end)
        elif clock != "kernel":
            begin, start, end = (time + offset for time in (one.begin, one.start, one.end))
            yield one._replace(begin=begin, start=start, end=end, kernels=None)


def _check_clocks(rows: Sequence[Sequence[TracedWork]], num_stages: int, names: Sequence[str]) -> None:
    """Refuse clocks on which a result is used before the work on it began.

    Example: 1F0 on rank 1 worked at 5 ms, and 0F0, whose result it takes, began on rank 0 at 8 ms: the clock of rank 1
    is at least 3 ms behind.

    Args:
        rows: the actions of each rank, on the clock of all.
        num_stages: of the pipeline.
        names: of the ranks' files.

    Raises:
        ValueError: the clocks differ; the message says whose, and by how much at least.
    """
    of_action = {one.action: (rank, one) for rank, row in enumerate(rows) for one in row}
    worst, problem = 0.0, ""
    for rank, taken in of_action.values():
        # Without a receive that ended in it, a span of a CPU may be a wait to its very end.
        earliest = taken.start if taken.kernels or taken.start > taken.begin else taken.end
        for need in needs(taken.action, num_stages, of_action):
            sender, sent = of_action[need]
            if sender != rank and sent.start - earliest > worst:
                worst = sent.start - earliest
                early = f"{taken.action} on rank {rank} worked before {sent.action} on rank {sender} began"
                lag = f"at least {worst / 1e3:.3g} ms behind that of {names[sender]}"
                problem = f"{early}: the clock of {names[rank]} is {lag}"
    if problem:
        raise ValueError(f"{problem}; synchronise the clocks of the hosts and record again")


def _spans(rows: Sequence[Sequence[TracedWork]]) -> Iterator[Span]:
    """The spans in seconds from the first work; messages and waits are communication, as long as someone works."""
    working = [one for row in rows for one in row if not one.is_message]
    first, last = min(one.start for one in working), max(one.end for one in working)
    for rank, row in enumerate(rows):
        for one in row:
            if not one.is_message:
                yield Span(rank, one.action, (one.start - first) / 1e6, (one.end - first) / 1e6)
            start, end = max(one.begin, first), min(one.end if one.is_message else one.start, last)
            if start < end:
                yield Span(rank, one.action._replace(kind=Kind.C), (start - first) / 1e6, (end - first) / 1e6)


def _note(clock: Clock, rows: Sequence[Sequence[TracedWork]]) -> str:
    """What kind of time it is and how it was changed, in words."""
    words = {
        "kernel": "kernel time, from the first to the last kernel of each span on the GPU",
        "issue": "issue time, when the CPUs issued work and not when the GPUs did it: some spans have no kernels; "
        "record with ProfilerActivity.CUDA for kernel time",
        "host": "the time of the CPUs that did the work",
    }[clock]
    waited = sum(one.start - one.begin for row in rows for one in row)
    cut = f"; {waited / 1e3:.3g} ms in which spans waited for their input count as communication"
    return words + (cut if waited else "")
