"""Positions of the editor's board: the edits that lead from one to the next, and the judgement of each.

An edit takes a schedule and gives another one with the same work in it. It never loses, doubles or renames an action,
and never takes it off its rank. The new order may be illegal: a learner may pass through an illegal order on the way to
a better one. The judgement has everything that follows from an order: its problems, its times, and the next moves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from pllab.memory import Held, is_over
from pllab.schedule import Action, Kind, Problem, Schedule, ScheduleError, family_of, needs, problems, split_backwards
from pllab.simulate import Costs, critical_steps, simulate
from pllab.timeline import Span, Timeline

# Edits


def place_of(schedule: Schedule, action: Action) -> tuple[int, int]:
    """The rank of an action and its place in that rank's row, from 0.

    Raises:
        ValueError: the schedule does not have the action.
    """
    for rank, row in enumerate(schedule.rows):
        if action in row:
            return rank, row.index(action)
    first = next(schedule.actions(), None)
    known = f"name one of its actions, for example {first}" if first else "it is empty, so place an action first"
    raise ValueError(f"{action} is not in the schedule; {known}")


def move(schedule: Schedule, action: Action, to: int) -> Schedule:
    """Put an action at place `to` of its own row; the others keep their order. A place outside means the nearest end.

    Example: moving 0B0 to place 1 of `0F0 0F1 0B0 0B1` gives `0F0 0B0 0F1 0B1`; moving it to place 2 undoes that.

    Raises:
        ValueError: the schedule does not have the action.
    """
    rank, _ = place_of(schedule, action)
    row = [other for other in schedule.rows[rank] if other != action]
    row.insert(min(max(to, 0), len(row)), action)
    return _with_row(schedule, rank, row)


def halves_of(action: Action) -> tuple[Action, Action]:
    """The I and the W of a backward: `0I0` and `0W0` of `0B0`."""
    return action._replace(kind=Kind.I), action._replace(kind=Kind.W)


def split(schedule: Schedule, action: Action) -> Schedule:
    """Replace a B by its I and W, side by side in its place: `0F0 0B0` gives `0F0 0I0 0W0`.

    Raises:
        ValueError: the action is not a B, or the schedule does not have it.
    """
    if action.kind is not Kind.B:
        raise ValueError(f"{action} cannot be split; only a B is a whole backward")
    rank, place = place_of(schedule, action)
    row = schedule.rows[rank]
    return _with_row(schedule, rank, (*row[:place], *halves_of(action), *row[place + 1 :]))


def merge(schedule: Schedule, action: Action) -> Schedule:
    """Replace an I and its W, wherever they are, by a B in the place of the I: `0I0 0F1 0W0` gives `0B0 0F1`.

    Raises:
        ValueError: the action is neither I nor W, or the schedule does not have both halves.
    """
    if action.kind not in (Kind.I, Kind.W):
        raise ValueError(f"{action} cannot be merged; only an I and its W make a whole backward")
    first, rest = halves_of(action)
    rank, _ = place_of(schedule, first)
    place_of(schedule, rest)
    whole = action._replace(kind=Kind.B)
    return _with_row(schedule, rank, (whole if item == first else item for item in schedule.rows[rank] if item != rest))


def _with_row(schedule: Schedule, rank: int, row: Iterable[Action]) -> Schedule:
    return replace(schedule, rows=(*schedule.rows[:rank], tuple(row), *schedule.rows[rank + 1 :]))


@dataclass(frozen=True)
class Position:
    """What stands on the board, and per rank what is left to be placed: nothing, unless the board was emptied."""

    board: Schedule
    left: Schedule = field(default_factory=lambda: Schedule(()))

    @property
    def is_complete(self) -> bool:
        """Whether everything stands on the board."""
        return not any(self.left.rows)

    def whole(self) -> Schedule:
        """The board's rows, each with what is left behind it, in an order in which that can run."""
        if self.is_complete:
            return self.board
        rows = zip(self.board.rows, self.left.rows, strict=True)
        return replace(self.board, rows=tuple((*row, *sorted(left, key=_in_turn)) for row, left in rows))

    def emptied(self) -> "Position":
        """Nothing on the board, and everything left."""
        return Position(replace(self.board, rows=((),) * self.board.num_ranks), self.whole())

    def place(self, action: Action) -> "Position":
        """Put an action that is left at the end of its rank's row.

        Raises:
            ValueError: the action is not left.
        """
        rank, _ = place_of(self.left, action)
        left = (item for item in self.left.rows[rank] if item != action)
        board = _with_row(self.board, rank, (*self.board.rows[rank], action))
        return Position(board, _with_row(self.left, rank, left))

    def split_all(self) -> "Position":
        """Split every B; the schedule keeps its name."""
        return Position(replace(self.board, rows=split_backwards(self.board).rows), split_backwards(self.left))


def _in_turn(action: Action) -> tuple[int, int, int, bool]:
    """A key that sorts every action after those it needs: forwards up the stages, then backwards down them."""
    forward = action.kind is Kind.F
    return (0 if forward else 1, action.stage if forward else -action.stage, action.microbatch, action.kind is Kind.W)


# Judgement


class BoardRules(NamedTuple):
    """The rules of a game, which stay the same while the order changes."""

    costs: Costs
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
    rules: BoardRules
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
    return Judgement(position, rules, whole, wrong, edges, timeline, drawn, placed & path, ready)


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
