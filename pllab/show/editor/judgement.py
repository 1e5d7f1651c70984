"""The judgement of a position: its problems, the edges that run backwards, its times, and what may be placed next.

The editor judges after each move, so everything that follows from the order is here in one record.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

from pllab.memory import Held, is_over
from pllab.schedule import Action, Kind, Problem, Schedule, ScheduleError, family_of, needs, problems
from pllab.show.editor.edits import Position
from pllab.simulate import Costs, critical_steps, simulate
from pllab.timeline import Span, Timeline


@dataclass(frozen=True)
class BoardRules:
    """The rules of a game, which stay the same while the order changes."""

    costs: Costs = field(default_factory=Costs)
    memory_limit: float | None = None
    par: float | None = None


@dataclass(frozen=True)
class Judgement:
    """A position with its problems and times; `timeline` is None if the order cannot run.

    `whole` has the rest behind what stands on the board. `edges` are pairs (needed, waiting): the second comes too
    early for the first. `drawn` gives each action on the board a place. `ready` has, per rank, what may be placed next,
    and `critical` what decides how long the step takes.
    """

    position: Position
    whole: Schedule
    problems: tuple[Problem, ...]
    edges: tuple[tuple[Action, Action], ...]
    timeline: Timeline | None
    drawn: Timeline
    critical: frozenset[Action]
    ready: tuple[tuple[Action, ...], ...]

    @property
    def is_legal(self) -> bool:
        """Whether what stands on the board can run and stays under the limit."""
        return not self.problems

    @property
    def makespan(self) -> float | None:
        """How long the whole step takes; None if it cannot run, or is not all on the board."""
        return self.timeline.makespan if self.timeline and self.position.is_complete else None

    @property
    def family(self) -> str | None:
        """The published family that stands on the board, if it is one."""
        return family_of(self.whole) if self.is_legal and self.position.is_complete else None

    def staircase(self, rank: int) -> list[tuple[float, float]]:
        """Points (time, micro-batches held) of one rank.

        A micro-batch on all stages of a rank counts 1; with v stages per rank, one on a single stage counts 1/v.
        """
        return [(time, count / self.whole.stages_per_rank) for time, count in self.drawn.held_over_time(rank)]


def judge(position: Position, rules: BoardRules) -> Judgement:
    """Check, and simulate if the order can run; otherwise the actions of each row are drawn one after the other."""
    whole, placed = position.whole(), frozenset(position.board.actions())
    wrong = tuple(one for one in problems(whole, rules.memory_limit) if placed.issuperset(one.actions))
    try:  # what is left overlaps nothing
        run = replace(whole, overlaps=frozenset(forward for forward, _ in position.board.pairs()))
        timeline = _only(simulate(run, rules.costs), placed)
    except ScheduleError:
        timeline = None
    edges = tuple(dict.fromkeys(_edges(whole, wrong)))
    drawn = timeline or _only(_in_row_order(whole, rules.costs), placed)
    path = {step.span.action for step in critical_steps(whole, timeline)} if timeline else set()
    ready = tuple(tuple(_ready(position, whole, rank, rules)) for rank in range(whole.num_ranks))
    return Judgement(position, whole, wrong, edges, timeline, drawn, placed & path, ready)


def _only(timeline: Timeline, placed: frozenset[Action]) -> Timeline:
    """What stands on the board: its times do not depend on what is left, which comes behind it in each row."""
    return Timeline.of([one for one in timeline.spans if one.action in placed], timeline.engine, timeline.num_ranks)


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


def _ready(position: Position, whole: Schedule, rank: int, rules: BoardRules) -> Iterator[Action]:
    """What a rank may do next: of each stage and kind the first action whose needs stand on the board, if it fits."""
    if position.is_complete:
        return
    placed, present = frozenset(position.board.actions()), frozenset(whole.actions())
    held = [0.0, *Held().after_each(position.board.rows[rank])][-1]
    is_full = is_over((held + 1) / whole.stages_per_rank, rules.memory_limit)
    seen = set()
    for action in sorted(position.left.rows[rank]):
        can_run = placed.issuperset(needs(action, whole.num_stages, present))
        if can_run and action[:2] not in seen and not (is_full and action.kind is Kind.F):
            seen.add(action[:2])
            yield action
