"""Why a run took longer than predicted: replay it five times, each time with one more measured fact.

Device-seconds do not say why: where one stage is slow, most of the loss shows as waiting on the other ranks, and where
messages are late, as idle time at both ends. A replay says what a cause costs the whole step, with all that follows
from it, and the five differences add up to the error.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pllab.schedule import Action, Kind, Schedule, needs
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

CAUSES = ("work", "imbalance", "wait", "message", "launch")
_Seconds = Mapping[Action, float]
_PerStage = Mapping[tuple[Kind, int], float]


def attribute(schedule: Schedule, costs: Costs, measured: Timeline) -> dict[str, float]:
    """The seconds by which each cause made a run longer than `simulate(schedule, costs)`; the sum is the difference.

    Each replay adds one measured fact to those before it:

        work       every kind of work is slower by a factor: that of the stage that slowed least
        imbalance  every stage takes its own average time for each kind
        wait       every action takes its own time: others wait for a long one, and a short one helps no rank
        message    results travel as long as they did
        launch     actions start as late as they did after their input arrived: now the replay is the run

    A late start after a wait is part message and part launch. The launch is as long as the run usually needs to start
    an action whose input has long been there. A message that held up no rank takes as long as the usual message that
    did, or its cost if that is more.
    Calibrated costs contain the usual launch, so a run like its calibration shows a little launch and as much less
    work.

    Example: if one stage is slower than its costs, all is imbalance; if all stages are slower by a tenth, all is work.

    Raises:
        ValueError: an action of the schedule is not in the timeline.
    """
    steps, spans = _steps(schedule), _spans(schedule, measured)
    predicted = {action: costs.duration(action.stage, action.kind) for action in spans}
    average, each = _average(spans), {action: span.duration for action, span in spans.items()}
    expected = {step.action: _expected(step, costs) for step in steps}
    travelled, late = _lags(steps, spans, expected)
    common, at_once = _shared(average, costs), dict.fromkeys(spans, 0.0)
    makespans = [
        _replay(steps, predicted, expected, at_once),
        _replay(steps, {a: predicted[a] * common[a.kind] for a in spans}, expected, at_once),
        _replay(steps, {a: average[a.kind, a.stage] for a in spans}, expected, at_once),
        _replay(steps, each, expected, at_once),
        _replay(steps, each, travelled, at_once),
        _replay(steps, each, travelled, late),
    ]
    return {cause: after - before for cause, (before, after) in zip(CAUSES, pairwise(makespans), strict=True)}


class _Step(NamedTuple):
    """An action, the one before it on its rank, and the one on another rank that sends its input."""

    action: Action
    before: Action | None
    sent: Action | None


def _steps(schedule: Schedule) -> list[_Step]:
    """All actions, each after those it waits for: the order of the virtual clock if all take a second."""
    present, home = set(schedule.actions()), schedule.rank_of_stage
    last: dict[int, Action] = {}
    steps = []
    for rank, action, *_ in simulate(schedule).spans:
        assert isinstance(action, Action)
        others = (need for need in needs(action, schedule.num_stages, present) if home[need.stage] != rank)
        steps.append(_Step(action, last.get(rank), next(others, None)))
        last[rank] = action
    return steps


def _spans(schedule: Schedule, measured: Timeline) -> dict[Action, Span]:
    """The spans by action, on a clock that starts at zero."""
    spans = {str(span.action): span for span in measured.from_zero().spans}
    missing = [action for action in schedule.actions() if str(action) not in spans]
    if missing:
        raise ValueError(f"the timeline has no {missing[0]}, which the schedule has; pass the schedule it is of")
    return {action: spans[str(action)] for action in schedule.actions()}


def _average(spans: Mapping[Action, Span]) -> dict[tuple[Kind, int], float]:
    durations: defaultdict[tuple[Kind, int], list[float]] = defaultdict(list)
    for action, span in spans.items():
        durations[action.kind, action.stage].append(span.duration)
    return {key: statistics.fmean(seconds) for key, seconds in durations.items()}


def _shared(average: _PerStage, costs: Costs) -> dict[Kind, float]:
    """Per kind, the smallest factor by which a stage exceeds its cost; 1 for a kind that costs nothing."""
    factors: defaultdict[Kind, list[float]] = defaultdict(list)
    for (kind, stage), seconds in average.items():
        cost = costs.duration(stage, kind)
        factors[kind].append(seconds / cost if cost else 1.0)
    return {kind: min(of_stages) for kind, of_stages in factors.items()}


def _expected(step: _Step, costs: Costs) -> float:
    """What the message to a step should take."""
    return costs.message(step.sent.stage, step.action.stage) if step.sent else 0.0


def _lags(steps: Sequence[_Step], spans: Mapping[Action, Span], expected: _Seconds) -> tuple[_Seconds, _Seconds]:
    """Per action, how long its input travelled and how late it started, so that a replay gives the same start."""
    launch = statistics.median([*_launches(steps, spans)] or [0.0])
    message = statistics.median([lag - launch for lag in _awaited(steps, spans)] or [0.0])
    travelled, late = {}, {}
    for action, before, sent in steps:
        start, free = spans[action].start, spans[before].end if before else 0.0
        travelled[action], late[action] = max(expected[action], message), start - free
        if sent and (computed := spans[sent].end) + travelled[action] > free:
            late[action] = min(start - max(free, computed), launch)
            travelled[action] = start - late[action] - computed
    return travelled, late


def _launches(steps: Sequence[_Step], spans: Mapping[Action, Span]) -> Iterator[float]:
    """Seconds before actions whose input was computed before the action before them began."""
    for action, before, sent in steps:
        if before and (sent is None or spans[sent].end <= spans[before].start):
            yield max(0.0, spans[action].start - spans[before].end)


def _awaited(steps: Sequence[_Step], spans: Mapping[Action, Span]) -> Iterator[float]:
    """Seconds from the end of an action to the start of the one on another rank that was waiting for it."""
    for action, before, sent in steps:
        if before and sent and spans[sent].end > spans[before].end:
            yield spans[action].start - spans[sent].end


def _replay(steps: Sequence[_Step], seconds: _Seconds, travel: _Seconds, late: _Seconds) -> float:
    """When the last action ends, if each starts `late` seconds after its rank is free and its input has arrived."""
    ends: dict[Action, float] = {}
    for action, before, sent in steps:
        free = ends[before] if before else 0.0
        ready = max(free, ends[sent] + travel[action]) if sent else free
        ends[action] = ready + late[action] + seconds[action]
    return max(ends.values())
