"""The judgement of an order: its problems, the edges that run backwards, and its times.

The editor judges after each move, so everything that follows from the order is here in one record.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from pllab.schedule import Action, Problem, Schedule, ScheduleError, family_of, needs, problems
from pllab.simulate import Costs, critical_steps, simulate
from pllab.timeline import ActionLike, Span, Timeline


@dataclass(frozen=True)
class BoardRules:
    """The rules of a game, which stay the same while the order changes; a run may be `in_units` of the costs."""

    costs: Costs = field(default_factory=Costs)
    memory_limit: float | None = None
    par: float | None = None
    in_units: bool = False


@dataclass(frozen=True)
class Judgement:
    """An order with its problems and times; `timeline` is None if it cannot run.

    `edges` are pairs (needed, waiting): the second comes too early for the first. `drawn` gives each action a place.
    The actions in `critical` decide how long the step takes.
    """

    schedule: Schedule
    problems: tuple[Problem, ...]
    edges: tuple[tuple[Action, Action], ...]
    timeline: Timeline | None
    drawn: Timeline
    critical: frozenset[ActionLike]

    @property
    def is_legal(self) -> bool:
        """Whether the order can run and stays under the limit."""
        return not self.problems

    @property
    def makespan(self) -> float | None:
        """How long the step takes; None if it cannot run."""
        return self.timeline.makespan if self.timeline else None

    @property
    def family(self) -> str | None:
        """The published family that has this order, if one has."""
        return family_of(self.schedule) if self.is_legal else None

    def staircase(self, rank: int) -> list[tuple[float, float]]:
        """Points (time, micro-batches held) of one rank.

        A micro-batch on all stages of a rank counts 1; with v stages per rank, one on a single stage counts 1/v.
        """
        return [(time, count / self.schedule.stages_per_rank) for time, count in self.drawn.held_over_time(rank)]


def judge(schedule: Schedule, rules: BoardRules) -> Judgement:
    """Check, and simulate if the order can run; otherwise the actions of each row are drawn one after the other."""
    wrong = tuple(problems(schedule, rules.memory_limit))
    try:
        timeline = simulate(schedule, rules.costs)
    except ScheduleError:
        timeline = None
    edges = tuple(dict.fromkeys(_edges(schedule, wrong)))
    path = frozenset(step.span.action for step in critical_steps(schedule, timeline)) if timeline else frozenset()
    return Judgement(schedule, wrong, edges, timeline, timeline or _in_row_order(schedule, rules.costs), path)


def _in_row_order(schedule: Schedule, costs: Costs) -> Timeline:
    """Every row without gaps: not a run, but it gives each action a place on the page."""
    spans = []
    for rank, row in enumerate(schedule.rows):
        ends = list(accumulate(costs.duration(action.stage, action.kind) for action in row))
        starts = [0.0, *ends[:-1]]
        spans += [Span(rank, action, start, end) for action, start, end in zip(row, starts, ends, strict=True)]
    return Timeline.of(spans, "simulated", schedule.num_ranks)


def _edges(schedule: Schedule, wrong: tuple[Problem, ...]) -> Iterator[tuple[Action, Action]]:
    """Actions that come before an action they need on the same rank, and the pairs of a circle of waiting."""
    present = frozenset(schedule.actions())
    for row in schedule.rows:
        place = {action: number for number, action in enumerate(row)}
        for action, number in place.items():
            for need in needs(action, schedule.num_stages, present):
                if place.get(need, -1) > number:
                    yield need, action
    for problem in wrong:  # a deadlock names each waiting action and then what it waits for
        yield from zip(problem.actions[1::2], problem.actions[::2], strict=False)
