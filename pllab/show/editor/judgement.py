"""The judgement of an order of actions: its problems, the edges that run backwards, its times, memory and score.

The editor judges after each move, so everything that follows from the order is here in one record.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pllab.schedule import Action, Held, Kind, Problem, Schedule, ScheduleError, needs, problems
from pllab.show.theme import write_number
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline


@dataclass(frozen=True)
class BoardRules:
    """The rules of a game, which stay the same while the order changes.

    A run measures seconds, `unit_s` for one unit of the costs, or is `in_units` of the costs; `unit` is their name.
    """

    costs: Costs = field(default_factory=Costs)
    memory_limit: float | None = None
    held: Held = field(default_factory=Held)
    unit: str = ""
    unit_s: float | None = None
    in_units: bool = False

    def prefer_whole_backwards(self, num_stages: int) -> bool:
        """Whether on some stage a B takes less time than I and W; the solver splits every B."""
        duration = self.costs.duration
        return any(duration(s, Kind.B) < duration(s, Kind.I) + duration(s, Kind.W) for s in range(num_stages))


@dataclass(frozen=True)
class Judgement:
    """A schedule with its problems; `timeline` is None if the order cannot run.

    `edges` are pairs (needed, waiting): the second comes too early for the first. `circle` has pairs (front, behind) of
    one rank: the first waits and holds up the second. Edges and pairs together make the circle of waiting.
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

    def staircase(self, rank: int, held: Held) -> list[tuple[float, float]]:
        """Points (time, micro-batches held) of one rank.

        A micro-batch on all stages of a rank counts 1; with v stages per rank, one on a single stage counts 1/v.
        """
        share, steps = self.schedule.stages_per_rank, self.drawn.held_over_time(rank, held.input_share)
        return [(time, count / share) for time, count in steps]


def judge(schedule: Schedule, rules: BoardRules) -> Judgement:
    """Check, and simulate if the order can run; otherwise the actions of each row are drawn one after the other."""
    wrong = tuple(problems(schedule, rules.memory_limit, rules.held))
    try:
        timeline = simulate(schedule, rules.costs)
    except ScheduleError:
        timeline = None
    edges = tuple(dict.fromkeys(_edges(schedule, wrong)))
    drawn = timeline or _in_row_order(schedule, rules.costs)
    return Judgement(schedule, wrong, edges, tuple(_circle(wrong)), timeline, drawn)


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


def _circle(wrong: tuple[Problem, ...]) -> Iterator[tuple[Action, Action]]:
    """On each rank of a circle of waiting: the action in front, and the one it holds up."""
    for problem in wrong:
        waiting, needed = problem.actions[::2], problem.actions[1::2]
        if len(needed) > 1:  # a circle of one rank is an edge, and needs no second line
            in_front = (*waiting[1:], waiting[0])
            yield from (pair for pair in zip(in_front, needed, strict=True) if pair[0] != pair[1])


@dataclass(frozen=True)
class Par:
    """The makespan to reach, a lower bound for it, and a schedule that reaches it if one is known."""

    makespan: float
    bound: float | None = None
    proven: bool = False
    schedule: Schedule | None = None

    @classmethod
    def of(cls, value: Any) -> "Par":
        """Make a par from an `Optimum` of `pllab.schedule.optimal`, or from a plain number.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            return cls(float(value))
        try:
            return cls(float(value.makespan), float(value.bound), bool(value.proven), value.schedule)
        except AttributeError:
            raise ValueError(f"par is {value!r}; give a makespan, an Optimum, or a function that returns one") from None

    def words(self, prefers_whole: bool = False) -> str:
        """`par 14, proven by the solver: no order is shorter`; or no split one, if whole backwards are quicker."""
        par = f"par {write_number(self.makespan)}"
        if self.proven:
            return f"{par}, proven by the solver: no order {'of split backwards ' if prefers_whole else ''}is shorter"
        if self.bound is not None:
            return f"{par}, the solver's best; it has proven only that none is below {write_number(self.bound)}"
        return par

    def score(self, makespan: float) -> str:
        """`1 over par`, `par`, or `2 under par`; differences below a millionth are rounding."""
        over = makespan - self.makespan
        if abs(over) <= 1e-6 * max(abs(self.makespan), 1e-12):
            return "par"
        return f"{write_number(abs(over))} {'over' if over > 0 else 'under'} par"
