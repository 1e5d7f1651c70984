"""The best possible schedule of a small pipeline, with a proof or a bound: the par of the editor's game.

OR-tools' CP-SAT solves a scheduling model. Per rank, each action is an interval and no two overlap; between
neighbours, results arrive before they are used. Memory grows at every forward, so it is counted there: enough of the
earlier micro-batches must have run their I and their W. A variable for each forward and each earlier micro-batch says
whether they have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, lcm
from typing import Any

from pllab.memory import Held
from pllab.schedule.dependencies import CostsLike
from pllab.schedule.legality import problems
from pllab.schedule.model import Schedule
from pllab.schedule.search.problem import Rows, SearchProblem
from pllab.schedule.search.shortest import Order, shortest, timed

_EQUAL = 1e-9  # relative; sums of the same costs in another order differ by less
_SLACK = Fraction(1, 10**6)  # of a unit: a float of 18.522 is a little less than 18522 thousandths
_MOST_UNITS = 10**6  # the largest common denominator of costs that counts as exact
_FINEST = 10**7  # otherwise all work is cut into so many units


@dataclass(frozen=True)
class Optimum:
    """The shortest schedule found, its makespan in seconds, and a lower bound for every makespan.

    `proven` says that the two agree: no schedule is shorter.
    """

    schedule: Schedule
    makespan: float
    bound: float
    proven: bool


def optimal(
    num_stages: int,
    num_microbatches: int,
    costs: CostsLike,
    memory_limit: float,
    *,
    held: Held | None = None,
    time_limit_s: float = 10.0,
) -> Optimum:
    """Find the shortest schedule with one stage per rank and split backwards, with a proof if time suffices.

    Example: `optimal(2, 2, Costs(), 2)` has makespan 7.0 and is proven; its rows are

        rank 0  F0 F1 .  I0 W0 I1 W1
        rank 1  .  F0 I0 F1 I1 W0 W1

    CP-SAT starts from the order of `zero_bubble` and improves on it, with one worker and a fixed seed. A proven
    makespan is always the same; without a proof the result depends on the machine. About 4 stages and 8 micro-batches
    are proven within ten seconds, and larger sizes if a known lower bound is reached.

    Costs are exact if they are fractions with a common denominator up to a million. Other costs are rounded down to a
    ten-millionth of all work, which may leave the best schedule unproven.

    Args:
        num_stages: also the number of ranks.
        num_microbatches: at least 1.
        costs: seconds per action and message, per stage.
        memory_limit: micro-batches of activations a rank may hold, from 1.
        held: what I and W free; a half each by default.
        time_limit_s: seconds for the solver, in addition to those of `zero_bubble`.

    Raises:
        ValueError: a size, the memory limit or the time limit is too small, a cost is below 0, or the costs are for
            another number of stages.
        ImportError: OR-tools is not installed and the search does not reach a lower bound without it.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), its integer program; the scheduling model of CP-SAT.
    """
    if not time_limit_s > 0:
        raise ValueError(f"time_limit_s is {time_limit_s}; give the solver some seconds")
    work = SearchProblem.of(num_stages, num_microbatches, costs, memory_limit, held)
    best, bound = shortest(work, makespan_first=True), work.floor_of_makespan()
    if best.makespan > bound * (1 + _EQUAL):
        rows, proved = _solve(work, best, time_limit_s)
        bound, order = max(bound, proved), timed(work, rows)
        if order and order.makespan < best.makespan and not problems(work.schedule(rows, ""), memory_limit, held):
            best = order
    schedule = work.schedule(best.rows, "optimal")
    return Optimum(schedule, best.makespan, min(bound, best.makespan), best.makespan <= bound * (1 + _EQUAL))


def _solve(work: SearchProblem, start: Order, time_limit_s: float) -> tuple[Rows, float]:
    """The solver's order, and its lower bound for the makespan, in seconds."""
    try:
        from ortools.sat.python import cp_model  # an extra, so that everything else runs without it
    except ImportError as error:
        raise ImportError('optimal needs OR-tools; install it with: pip install "pllab[solver]"') from error
    units = _units_per_second(work)
    model = _Model(cp_model.CpModel(), work, units, start)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.status_name(solver.solve(model.cp))
    assert status in ("OPTIMAL", "FEASIBLE", "UNKNOWN"), f"the order it starts from is feasible, and it says {status}"
    rows = start.rows if status == "UNKNOWN" else model.rows(solver.value)
    return rows, float(Fraction(round(solver.best_objective_bound)) / units)


class _Model:
    """Variables and constraints, in whole units of time; no makespan may exceed that of `start`."""

    def __init__(self, cp: Any, work: SearchProblem, units: Fraction, start: Order) -> None:
        self.cp, self.work = cp, work
        self.cost = {
            kind: _in_units(seconds, units)
            for kind, seconds in (("F", work.forward), ("I", work.backward), ("W", work.weight))
        }
        up, down = _in_units(work.up, units), _in_units(work.down, units)
        most = ceil(Fraction(start.makespan) * units + 1)
        self.makespan = cp.new_int_var(0, most, "makespan")
        stages = range(work.num_stages)
        self.starts = [{kind: self._times(kind, most) for kind in "FIW"} for _ in stages]
        for stage in stages:
            self._one_at_a_time(stage)
            self._memory(stage)
            cp.add(self.makespan >= self._end(stage, "W", work.num_microbatches - 1))
        for stage in stages[1:]:
            self._messages(stage, up[stage - 1], down[stage - 1])
        cp.minimize(self.makespan)

    def rows(self, value: Any) -> Rows:
        """The order of the solution: by start; at one instant, actions that take no time come first, W before I."""
        return tuple(self._row(stage, value) for stage in range(self.work.num_stages))

    def _row(self, stage: int, value: Any) -> str:
        starts = [(value(at), self.cost[kind][stage] > 0, kind) for kind, times in self._kinds(stage) for at in times]
        todo = sorted(starts, key=lambda start: (start[0], start[1], "WIF".index(start[2])))
        row = ""
        while todo:  # of actions at one instant, one may need another
            chosen = next(start for start in todo if _may_follow(row, start[2]))
            todo.remove(chosen)
            row += chosen[2]
        return row

    def _kinds(self, stage: int) -> Sequence[tuple[str, list[Any]]]:
        return list(self.starts[stage].items())

    def _times(self, kind: str, most: int) -> list[Any]:
        return [self.cp.new_int_var(0, most, f"{kind}{k}") for k in range(self.work.num_microbatches)]

    def _end(self, stage: int, kind: str, k: int) -> Any:
        return self.starts[stage][kind][k] + self.cost[kind][stage]

    def _one_at_a_time(self, stage: int) -> None:
        """Kinds in order of micro-batches, a backward after its forward, W after I, and no two at once."""
        fixed = self.cp.new_fixed_size_interval_var
        intervals = [fixed(at, self.cost[kind][stage], "") for kind, times in self._kinds(stage) for at in times]
        self.cp.add_no_overlap(intervals)
        for kind, times in self._kinds(stage):
            for k, later in enumerate(times[1:]):
                self.cp.add(later >= self._end(stage, kind, k))
        for k in range(self.work.num_microbatches):
            self.cp.add(self.starts[stage]["I"][k] >= self._end(stage, "F", k))
            self.cp.add(self.starts[stage]["W"][k] >= self._end(stage, "I", k))

    def _messages(self, stage: int, up: int, down: int) -> None:
        """Activations from the stage below arrive before they are used, and so do the gradients it gets."""
        for k in range(self.work.num_microbatches):
            self.cp.add(self.starts[stage]["F"][k] >= self._end(stage - 1, "F", k) + up)
            self.cp.add(self.starts[stage - 1]["I"][k] >= self._end(stage, "I", k) + down)

    def _memory(self, stage: int) -> None:
        """Before forward `k`, enough of the `k` earlier micro-batches have run I and W for `k + 1` to fit."""
        share, m = _exact_or_above(self.work.weight_share), self.work.num_microbatches
        limit = min(self.work.limit, m)  # more is never held, and it may be infinite
        most = floor(Fraction(limit) * share.denominator + _SLACK)
        for k in range(1, m):
            excess = share.denominator * (k + 1) - most
            if excess > 0:
                ran_i, ran_w = (self._ran_before(stage, kind, k) for kind in "IW")
                freed_by_i = share.denominator - share.numerator
                self.cp.add(freed_by_i * sum(ran_i) + share.numerator * sum(ran_w) >= excess)

    def _ran_before(self, stage: int, kind: str, k: int) -> list[Any]:
        """For each micro-batch before `k`, whether its `kind` ran before forward `k`: true for the first ones."""
        forward = self.starts[stage]["F"][k]
        earlier = [self.cp.new_bool_var("") for _ in range(k)]
        for number, (at, is_earlier) in enumerate(zip(self.starts[stage][kind], earlier, strict=False)):
            self.cp.add(forward >= self._end(stage, kind, number)).only_enforce_if(is_earlier)
            self.cp.add(at >= forward + self.cost["F"][stage]).only_enforce_if(~is_earlier)
        for first, then in pairwise(earlier):
            self.cp.add_implication(then, first)
        return earlier


def _may_follow(row: str, kind: str) -> bool:
    """Whether an action may come next in a row: an I needs its F before it, a W its I."""
    before = {"I": "F", "W": "I"}
    return kind == "F" or row.count(before[kind]) > row.count(kind)


def _exact_or_above(share: float) -> Fraction:
    """A memory share as an exact small fraction, or rounded up to a millionth so that no limit is passed."""
    near = Fraction(share).limit_denominator(10**4)
    return near if abs(near - Fraction(share)) < Fraction(1, 10**12) else Fraction(ceil(share * 10**6), 10**6)


def _in_units(costs: Sequence[float], units: Fraction) -> list[int]:
    return [floor(Fraction(cost) * units + _SLACK) for cost in costs]


def _units_per_second(work: SearchProblem) -> Fraction:
    """How many integer units of the solver make one unit of the costs.

    Example: costs of 18.522 and 0.5 are computed in thousandths.
    """
    parts = (work.forward, work.backward, work.weight, work.up, work.down)
    costs = {cost for part in parts for cost in part}
    fractions = [Fraction(cost).limit_denominator(_MOST_UNITS) for cost in costs]
    common = lcm(*(fraction.denominator for fraction in fractions))
    same = all(abs(float(one) - cost) <= 1e-15 * cost for one, cost in zip(fractions, costs, strict=True))
    if same and common <= _MOST_UNITS:
        return Fraction(common)
    return Fraction(_FINEST) / Fraction(work.num_microbatches * sum(map(sum, parts)))
