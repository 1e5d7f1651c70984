"""What an order of actions is worth: its problems, the edges that run backwards, its times and its memory.

The editor asks after each move, so everything that follows from the order is here in one record.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from pllab.schedule import Action, Held, Problem, Schedule, ScheduleError, needs, problems
from pllab.schedule.check import stages_per_rank
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline


@dataclass(frozen=True)
class Rules:
    """What stays the same while the order changes: costs, the memory limit of every rank, and what a half frees."""

    costs: Costs = field(default_factory=Costs)
    memory_limit: float | None = None
    held: Held = field(default_factory=Held)


@dataclass(frozen=True)
class Judgement:
    """A schedule with what is wrong with it; `timeline` is None where the order cannot run.

    `edges` are pairs (needed, waiting): the second stands too early for the first. `circle` are pairs of one rank in
    a circle of waiting: the first, which waits itself, holds up the second. Edges and pairs together close it.
    """

    schedule: Schedule
    problems: tuple[Problem, ...]
    edges: tuple[tuple[Action, Action], ...]
    circle: tuple[tuple[Action, Action], ...]
    timeline: Timeline | None
    drawn: Timeline

    @property
    def is_legal(self) -> bool:
        """Whether it can run and stays under the limit."""
        return not self.problems


def judge(schedule: Schedule, rules: Rules) -> Judgement:
    """Check, and simulate if the order can run; otherwise the actions are drawn one after the other, row by row."""
    found = tuple(problems(schedule, rules.memory_limit, rules.held))
    try:
        timeline = simulate(schedule, rules.costs)
    except ScheduleError:
        timeline = None
    edges = tuple(dict.fromkeys(_edges(schedule, found)))
    drawn = timeline or in_row_order(schedule, rules.costs)
    return Judgement(schedule, found, edges, tuple(_circle(found)), timeline, drawn)


def in_row_order(schedule: Schedule, costs: Costs) -> Timeline:
    """Every row without a gap: no run, but a place on the page for each action."""
    spans = []
    for rank, row in enumerate(schedule.rows):
        ends = list(accumulate(costs.duration(action.stage, action.kind) for action in row))
        starts = [0.0, *ends[:-1]]
        spans += [Span(rank, action, start, end) for action, start, end in zip(row, starts, ends, strict=True)]
    return Timeline.of(spans, "simulated", schedule.num_ranks)


def staircase(judgement: Judgement, rank: int, held: Held) -> list[tuple[float, float]]:
    """Points (time, micro-batches held) of one rank: up where a forward starts, down where a backward ends.

    A micro-batch is one of as much of the model as a rank has, so where that is v stages, one of a stage counts 1/v.
    """
    row, share = judgement.schedule.rows[rank], stages_per_rank(judgement.schedule)
    spans = {span.action: span for span in judgement.drawn.of_rank(rank)}
    points = []
    for action, count in zip(row, held.after_each(row), strict=True):
        span = spans[action]
        points.append((span.start if held.change(action.kind) > 0 else span.end, count / share))
    return points


def _edges(schedule: Schedule, found: tuple[Problem, ...]) -> Iterator[tuple[Action, Action]]:
    """What stands before its need on one rank, and the pairs of a circle of waiting."""
    present = frozenset(schedule.actions())
    for row in schedule.rows:
        place = {action: number for number, action in enumerate(row)}
        for action, number in place.items():
            for need in needs(action, schedule.num_stages, present):
                if place.get(need, -1) > number:
                    yield need, action
    for problem in found:  # a deadlock names each waiting action and then what it waits for
        yield from zip(problem.actions[1::2], problem.actions[::2], strict=False)


def _circle(found: tuple[Problem, ...]) -> Iterator[tuple[Action, Action]]:
    """On each rank of a circle of waiting: who stands in front, and whom it holds up."""
    for problem in found:
        waiting, needed = problem.actions[::2], problem.actions[1::2]
        if len(needed) > 1:  # a circle of one rank is an edge, and needs no second line
            in_front = (*waiting[1:], waiting[0])
            yield from (pair for pair in zip(in_front, needed, strict=True) if pair[0] != pair[1])
