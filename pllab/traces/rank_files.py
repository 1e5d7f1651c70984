"""One step of a pipeline from the files of its ranks: the spans of all on one clock, as a schedule and a timeline."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from pllab.schedule import Action, Kind, Schedule, problems
from pllab.timeline import Span, Timeline
from pllab.traces.alignment import Placed, check_clocks, check_ranks, check_stages, offsets_us
from pllab.traces.kineto import UNKNOWN_STAGE, RankStep, RankTrace, Work
from pllab.traces.recorded import Clock, Recorded

_FORWARD_SHARE = 1 / 3  # of a pair of F and B if neither ran alone: a backward is two products for each of the forward


def join_ranks(traces: Sequence[RankTrace], step: int | None = None) -> Recorded:
    """One step of all ranks; by default the last complete one, with a backward if there is one.

    Raises:
        ValueError: the files are not those of one pipeline's ranks, their clocks do not fit, there is no such step, or
            it is not complete.
    """
    traces = sorted(traces, key=attrgetter("rank"))
    check_ranks(traces)
    offsets = offsets_us(traces)
    steps = _common_steps(traces)
    number = _chosen(steps, step, traces)
    clock = _clock_of(steps[number], traces)
    rows = [
        _placed(row, each, clock, offset) for row, (each, offset) in enumerate(zip(steps[number], offsets, strict=True))
    ]
    schedule = Schedule.of([[one.action for one in row] for row in rows], f"trace, step {number}")
    placed = [one for row in rows for one in row]
    if clock != "issue":  # a CPU may issue work to its GPU long before the input is there
        check_clocks(placed, schedule.num_stages, [trace.name for trace in traces])
    timeline = _timeline(placed, steps[number], offsets, clock)
    note = _note(clock, steps[number], placed, offsets)
    return Recorded(schedule, timeline, clock, note, number, tuple(sorted(steps)))


_Steps = Mapping[int, Sequence[RankStep]]


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


def _chosen(steps: _Steps, step: int | None, traces: Sequence[RankTrace]) -> int:
    """The number of the step to read.

    Raises:
        ValueError: there is no such step, or none is complete.
    """
    if not steps:
        raise ValueError("the ranks have no step in common; record the same steps on every rank")
    if step is not None and step not in steps:
        raise ValueError(f"step is {step}, and the traces have {_numbers(sorted(steps))}; choose one of them")
    wanted = sorted(steps, reverse=True) if step is None else [step]
    rows = {number: [_actions(row, one) for row, one in enumerate(steps[number])] for number in wanted}
    wrong = {number: _problem(rows[number]) for number in wanted}
    complete = [number for number in wanted if wrong[number] is None]
    if not complete:
        check_stages(rows[wanted[0]], traces)
        sentence = f"step {wanted[0]} is not complete: {wrong[wanted[0]]}"
        raise ValueError(f"{sentence}, or record whole steps, from before the first forward to after the last backward")
    training = [number for number in complete if any(one.kind is not Kind.F for row in rows[number] for one in row)]
    return (training or complete)[0]


def _numbers(steps: Sequence[int]) -> str:
    return f"step {steps[0]} only" if len(steps) == 1 else f"the steps {', '.join(map(str, steps))}"


def _actions(row: int, step: RankStep) -> list[Action]:
    return [_at(row, action) for work in step.work if not work.is_message for action in work.actions]


def _at(row: int, action: Action) -> Action:
    """The action with its stage: that of GPipe's only one is the place of the rank."""
    return action._replace(stage=row) if action.stage == UNKNOWN_STAGE else action


def _problem(rows: Sequence[Sequence[Action]]) -> str | None:
    """Why these rows are no complete step; a step without any backward is one of inference."""
    schedule = Schedule.of(rows)
    if not all(rows) or any(action.kind is not Kind.F for action in schedule.actions()):
        return next((problem.sentence for problem in problems(schedule)), None)
    expected = schedule.num_stages * schedule.num_microbatches
    stages = sum(len({action.stage for action in row}) for row in rows)
    if schedule.num_actions == expected == len(set(schedule.actions())) and stages == schedule.num_stages:
        return None
    return f"it has {schedule.num_actions} forwards of {expected}; give the files of all ranks"


def _clock_of(steps: Sequence[RankStep], traces: Sequence[RankTrace]) -> Clock:
    if not any(trace.on_gpu for trace in traces):
        return "host"
    return "issue" if _without_kernels(steps)[0] else "kernel"


def _without_kernels(steps: Sequence[RankStep]) -> tuple[int, int]:
    """How many spans have no kernels, and how many there are."""
    work = [one for step in steps for one in step.work if not one.is_message]
    return sum(one.kernels is None for one in work), len(work)


class _Part(NamedTuple):
    """An action's part of a span, and the wait before it."""

    action: Action
    begin: float
    start: float
    end: float


def _placed(row: int, step: RankStep, clock: Clock, offset: float) -> list[Placed]:
    """The actions of one rank in the order of their starts, on the clock of all."""
    work = [one for one in step.work if not one.is_message]
    alone = _alone(work, clock)
    placed = []
    for one in work:
        for part in _parts(one, clock, alone):
            # Without a receive that ended in it, a span of a CPU may be a wait to its very end.
            known = clock == "kernel" or part.start > part.begin
            start, end = part.start + offset, part.end + offset
            placed.append(Placed(row, _at(row, part.action), start, end, start if known else end, one))
    return sorted(placed, key=attrgetter("start"))


def _alone(work: Iterable[Work], clock: Clock) -> dict[tuple[int, Kind], float]:
    """The mean time of each kind of action where it did not overlap another."""
    times = defaultdict(list)
    for one in work:
        if len(one.actions) == 1:
            (part,) = _parts(one, clock, {})
            times[part.action.stage, part.action.kind].append(part.end - part.start)
    return {key: sum(values) / len(values) for key, values in times.items()}


def _parts(work: Work, clock: Clock, alone: Mapping[tuple[int, Kind], float]) -> Iterator[_Part]:
    """The actions of a span, each from when its input was there; with kernels, from the first to the last."""
    begin, end, inputs = work.start, work.end, work.inputs
    if clock == "kernel" and work.kernels is not None:
        (begin, end), inputs = work.kernels, ()
    if len(work.actions) == 1:
        yield _Part(work.actions[0], begin, max((begin, *inputs)), end)
        return
    first, *rest = work.actions  # torch runs the second after the first
    start = inputs[0] if inputs else begin
    cut = inputs[1] if len(inputs) > 1 else start + (end - start) * _share(work.actions, alone)
    yield _Part(first, begin, start, cut)
    for action in rest[:1]:
        yield _Part(action, cut, cut, end)


def _share(actions: Sequence[Action], alone: Mapping[tuple[int, Kind], float]) -> float:
    first, second = (alone.get((action.stage, action.kind), 0.0) for action in actions[:2])
    return first / (first + second) if first and second else _FORWARD_SHARE


def _timeline(placed: Sequence[Placed], steps: Sequence[RankStep], offsets: Sequence[float], clock: Clock) -> Timeline:
    """The spans in seconds from the first work; messages and waits are communication, as long as someone works."""
    first, last = min(one.start for one in placed), max(one.end for one in placed)
    sent = () if clock == "kernel" else (*_waits(placed, offsets), *_messages(steps, offsets))
    cut = [one._replace(start=max(one.start, first), end=min(one.end, last)) for one in sent]
    spans = [
        Span(one.rank, one.action, (one.start - first) / 1e6, (one.end - first) / 1e6)
        for one in (*placed, *cut)
        if one.start < one.end or one.action.kind is not Kind.C
    ]
    return Timeline.of(spans, "real", len(steps))


def _waits(placed: Iterable[Placed], offsets: Sequence[float]) -> Iterator[Placed]:
    """What is left of the spans before their work began."""
    for one in placed:
        begin = one.source.start + offsets[one.rank]
        if one.source.inputs and one.action == _at(one.rank, one.source.actions[0]) and begin < one.start:
            yield one._replace(action=one.action._replace(kind=Kind.C), start=begin, end=one.start)


def _messages(steps: Sequence[RankStep], offsets: Sequence[float]) -> Iterator[Placed]:
    for row, (step, offset) in enumerate(zip(steps, offsets, strict=True)):
        for work in step.work:
            if work.is_message:
                start, end = work.start + offset, work.end + offset
                yield Placed(row, _at(row, work.actions[0]), start, end, start, work)


def _note(clock: Clock, steps: Sequence[RankStep], placed: Sequence[Placed], offsets: Sequence[float]) -> str:
    """What kind of time it is, and what was done to it, for a reader."""
    missing, count = _without_kernels(steps)
    words = {
        "kernel": "kernel time, from the first to the last kernel of each span on the GPU",
        "issue": f"issue time, when the CPUs issued work and not when the GPUs did it: {missing} of {count} spans "
        "have no kernels in the trace; record with ProfilerActivity.CUDA for kernel time",
        "host": "the time of the CPUs that did the work",
    }[clock]
    waited = 0.0 if clock == "kernel" else sum(one.end - one.start for one in _waits(placed, offsets))
    cut = f"; {waited / 1e3:.3g} ms in which spans waited for their input count as communication" if waited else ""
    pairs = sum(len(work.actions) > 1 for step in steps for work in step.work)
    return f"{words}{cut}" + (f"; {pairs} overlapped pairs of F and B were divided between the two" if pairs else "")
