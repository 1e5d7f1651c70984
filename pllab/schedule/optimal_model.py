"""The scheduling model that OR-tools' CP-SAT solves for `optimal`.

Per rank, each action is an interval and no two overlap; per pair of neighbours, results arrive before they are used.
Memory is counted where it grows, at every forward: of the micro-batches before it, enough must have run their I and
their W. So the model asks, for each forward and each earlier micro-batch, whether its I and its W came before.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, lcm
from typing import Any, NamedTuple

from pllab.schedule.zero_bubble_clock import Played, replay
from pllab.schedule.zero_bubble_floor import floor_of_makespan
from pllab.schedule.zero_bubble_workload import Workload

_MOST_UNITS = 10**6  # the largest common denominator of costs that counts as exact
_FINEST = 10**7  # else, the parts of all work
_SLACK = Fraction(1, 10**6)  # of a unit: a float of 18.522 is a little less than 18522 thousandths


class Solved(NamedTuple):
    """The solver's order and the makespan, in seconds, that it showed no order can go below."""

    rows: tuple[str, ...]
    bound: float


def solve(work: Workload, start: Played, time_limit_s: float) -> Solved:
    """Improve on an order until it is proven best or the time is up.

    Raises:
        ImportError: OR-tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model  # an extra, so that everything else runs without it
    except ImportError as error:
        raise ImportError('optimal needs OR-tools; install it with: pip install "pllab[solver]"') from error
    units = units_per_second(work)
    model = _Model(cp_model.CpModel(), in_units(work, units), start.rows)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.status_name(solver.solve(model.cp))
    assert status in ("OPTIMAL", "FEASIBLE", "UNKNOWN"), (
        f"the order it starts from is feasible, and CP-SAT says {status}"
    )
    found = status != "UNKNOWN"
    bound = max(solver.best_objective_bound, model.floor)
    return Solved(model.rows(solver.value) if found else start.rows, float(Fraction(round(bound)) / units))


def in_units(work: Workload, units: Fraction) -> Workload:
    """The same work with whole numbers for costs, rounded down where they are none."""

    def whole(costs: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(floor(Fraction(cost) * units + _SLACK) for cost in costs)

    parts = (work.forward, work.backward, work.weight, work.up, work.down)
    forward, backward, weight, up, down = map(whole, parts)
    return replace(work, forward=forward, backward=backward, weight=weight, up=up, down=down)


def units_per_second(work: Workload) -> Fraction:
    """How many integer units of the solver make one unit of the costs.

    Example: costs of 18.522 and 0.5 are computed in thousandths.
    """
    costs = {cost for part in (work.forward, work.backward, work.weight, work.up, work.down) for cost in part}
    parts = [Fraction(cost).limit_denominator(_MOST_UNITS) for cost in costs]
    common = lcm(*(part.denominator for part in parts))
    same = all(abs(float(part) - cost) <= 1e-15 * cost for part, cost in zip(parts, costs, strict=True))
    if same and common <= _MOST_UNITS:
        return Fraction(common)
    return Fraction(_FINEST) / Fraction(work.everything)


def _exact_or_above(kept: float) -> Fraction:
    """A memory share as the small fraction it is, or a millionth above it, so that no limit is passed."""
    near = Fraction(kept).limit_denominator(10**4)
    return near if abs(near - Fraction(kept)) < Fraction(1, 10**12) else Fraction(ceil(kept * 10**6), 10**6)


class _Model:
    """Variables and rules; `start` is hinted, and its makespan is the most that is allowed."""

    def __init__(self, cp: Any, work: Workload, start: tuple[str, ...]) -> None:
        self.cp, self.work = cp, work
        played = replay(work, start)
        assert played is not None, "the order it starts from runs"
        self.floor, most = round(floor_of_makespan(work)), round(played.makespan)
        self.makespan = cp.new_int_var(min(self.floor, most), most, "makespan")
        self.starts = [{kind: self._times(kind, most) for kind in "FIW"} for _ in range(work.num_stages)]
        for stage in range(work.num_stages):
            self._one_at_a_time(stage)
            self._messages(stage)
            self._memory(stage)
            last = self.starts[stage]["W"][-1]
            cp.add(self.makespan >= last + self._cost(stage, "W"))
        self._hint(played)
        cp.minimize(self.makespan)

    def rows(self, value: Any) -> tuple[str, ...]:
        """The order of the solver's solution."""
        return tuple(self._row(stage, value) for stage in range(self.work.num_stages))

    def _row(self, stage: int, value: Any) -> str:
        """The order of the starts; of actions at one instant, those without a cost first, and W before I before F."""
        costs = self.work.costs(stage)
        starts = [(value(at), kind) for kind, times in self.starts[stage].items() for at in times]
        left = sorted(starts, key=lambda start: (start[0], costs[start[1]] > 0, "WIF".index(start[1])))
        row = ""
        while left:
            chosen = next(start for start in left if _may_follow(row, start[1]))
            left.remove(chosen)
            row += chosen[1]
        return row

    def _times(self, kind: str, most: int) -> list[Any]:
        return [self.cp.new_int_var(0, most, f"{kind}{k}") for k in range(self.work.num_microbatches)]

    def _cost(self, stage: int, kind: str) -> int:
        return int(self.work.costs(stage)[kind])

    def _one_at_a_time(self, stage: int) -> None:
        """Kinds in order of micro-batches, a backward after its forward, W after I, and no two at once."""
        starts = self.starts[stage]
        intervals = []
        for kind, times in starts.items():
            cost = self._cost(stage, kind)
            intervals += [self.cp.new_fixed_size_interval_var(at, cost, "") for at in times]
            for earlier, later in pairwise(times):
                self.cp.add(later >= earlier + cost)
        self.cp.add_no_overlap(intervals)
        for first, then in pairwise("FIW"):
            for at, after in zip(starts[first], starts[then], strict=True):
                self.cp.add(after >= at + self._cost(stage, first))

    def _messages(self, stage: int) -> None:
        """What the stage below sends up arrives before it is used, and so does what this stage sends down."""
        if stage == 0:
            return
        below, here = self.starts[stage - 1], self.starts[stage]
        up = self._cost(stage - 1, "F") + int(self.work.up[stage - 1])
        down = self._cost(stage, "I") + int(self.work.down[stage - 1])
        for k in range(self.work.num_microbatches):
            self.cp.add(here["F"][k] >= below["F"][k] + up)
            self.cp.add(below["I"][k] >= here["I"][k] + down)

    def _memory(self, stage: int) -> None:
        """Before forward `k` starts, enough of the `k` before it have run I, and W, for `k + 1` to fit."""
        kept = _exact_or_above(self.work.kept)
        limit = min(self.work.limit, self.work.num_microbatches)  # more is never held, and it may be infinite
        most = floor(Fraction(limit) * kept.denominator + _SLACK)
        for k in range(1, self.work.num_microbatches):
            excess = kept.denominator * (k + 1) - most
            if excess > 0:
                ran_i, ran_w = (self._ran_before(stage, kind, k) for kind in "IW")
                freed_by_i = kept.denominator - kept.numerator
                self.cp.add(freed_by_i * sum(ran_i) + kept.numerator * sum(ran_w) >= excess)

    def _ran_before(self, stage: int, kind: str, k: int) -> list[Any]:
        """For each micro-batch before `k`, whether its `kind` ran before forward `k`: true for the first ones."""
        forward, cost = self.starts[stage]["F"][k], self._cost(stage, kind)
        earlier = [self.cp.new_bool_var("") for _ in range(k)]
        for at, is_earlier in zip(self.starts[stage][kind], earlier, strict=False):
            self.cp.add(forward >= at + cost).only_enforce_if(is_earlier)
            self.cp.add(at >= forward + self._cost(stage, "F")).only_enforce_if(~is_earlier)
        for first, then in pairwise(earlier):
            self.cp.add_implication(then, first)
        return earlier

    def _hint(self, played: Played) -> None:
        """Start from the times of an order."""
        for stage, row in enumerate(played.rows):
            variables = {kind: iter(times) for kind, times in self.starts[stage].items()}
            for kind, at in zip(row, played.starts[stage], strict=True):
                self.cp.add_hint(next(variables[kind]), round(at))


def _may_follow(row: str, kind: str) -> bool:
    """Whether an action has what it needs from its own stage: an F for every I, an I for every W."""
    before = {"I": "F", "W": "I"}.get(kind)
    return before is None or row.count(before) > row.count(kind)
