"""The scheduling model that OR-tools' CP-SAT solves for `optimal`.

Per rank, each action is an interval and no two overlap; per pair of neighbours, results arrive before they are used.
Memory is counted where it grows, at every forward: of the micro-batches before it, enough must have run their I and
their W. So the model asks, for each forward and each earlier micro-batch, whether its I and its W came before.

A backward that may stay whole has a variable that says so. In these variables a whole B is an I that takes as long as
the B does, with a W at its end that takes no time.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from math import ceil, floor
from typing import Any, NamedTuple

from pllab.schedule.action import Action, Kind
from pllab.schedule.optimal_units import SLACK, in_units, units_per_second
from pllab.schedule.optimal_work import Choice, Timed


class Solved(NamedTuple):
    """The solver's order and the makespan, in seconds, that it showed no order can go below."""

    rows: tuple[str, ...]
    bound: float


def solve(work: Choice, start: Timed, time_limit_s: float) -> Solved:
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


def _exact_or_above(kept: float) -> Fraction:
    """A memory share as the small fraction it is, or a millionth above it, so that no limit is passed."""
    near = Fraction(kept).limit_denominator(10**4)
    return near if abs(near - Fraction(kept)) < Fraction(1, 10**12) else Fraction(ceil(kept * 10**6), 10**6)


class _Model:
    """Variables and rules; `start` is hinted, and its makespan is the most that is allowed."""

    def __init__(self, cp: Any, work: Choice, start: tuple[str, ...]) -> None:
        self.cp, self.work, self.split = cp, work, work.split
        timed = work.timed(start)
        assert timed is not None, "the order it starts from runs"
        self.floor, most = round(work.floor), round(timed.makespan)
        self.makespan = cp.new_int_var(min(self.floor, most), most, "makespan")
        stages = range(self.split.num_stages)
        self.starts = [{kind: self._times(kind, most) for kind in "FIW"} for _ in stages]
        self.is_whole = [self._choices(stage) for stage in stages]
        for stage in stages:
            self._one_at_a_time(stage)
            self._messages(stage)
            self._memory(stage)
            for k in range(self.split.num_microbatches):
                cp.add(self.makespan >= self._end(stage, "W", k))
        self._hint(timed)
        cp.minimize(self.makespan)

    def rows(self, value: Any) -> tuple[str, ...]:
        """The order of the solver's solution."""
        return tuple(self._row(stage, value) for stage in range(self.split.num_stages))

    def _row(self, stage: int, value: Any) -> str:
        """The order of the starts; of actions at one instant, those without a cost first, and W before I before F."""
        starts = []
        for kind, times in self.starts[stage].items():
            for at, whole in zip(times, self.is_whole[stage], strict=True):
                is_whole = kind != "F" and bool(value(whole))
                if not (is_whole and kind == "W"):
                    starts.append((value(at), "B" if is_whole else kind))
        left = sorted(starts, key=lambda start: (start[0], self._cost(stage, start[1]) > 0, "WIBF".index(start[1])))
        row = ""
        while left:
            chosen = next(start for start in left if _may_follow(row, start[1]))
            left.remove(chosen)
            row += chosen[1]
        return row

    def _times(self, kind: str, most: int) -> list[Any]:
        return [self.cp.new_int_var(0, most, f"{kind}{k}") for k in range(self.split.num_microbatches)]

    def _choices(self, stage: int) -> list[Any]:
        """For each backward whether it stays whole; a plain no where that is never better."""
        count = self.split.num_microbatches
        return [self.cp.new_bool_var("") for _ in range(count)] if self.work.is_shorter_whole(stage) else [0] * count

    def _cost(self, stage: int, kind: str) -> int:
        return int(self.work.duration(stage, kind))

    def _takes(self, stage: int, kind: str, k: int) -> Any:
        """How long an action takes: a number, or an expression of whether its backward is whole."""
        cost = self._cost(stage, kind)
        if kind == "F" or not self.work.is_shorter_whole(stage):
            return cost
        return cost + self.is_whole[stage][k] * ((self._cost(stage, "B") if kind == "I" else 0) - cost)

    def _end(self, stage: int, kind: str, k: int) -> Any:
        return self.starts[stage][kind][k] + self._takes(stage, kind, k)

    def _one_at_a_time(self, stage: int) -> None:
        """Kinds in order of micro-batches, a backward after its forward, W after I, and no two at once."""
        starts, may_be_whole = self.starts[stage], self.work.is_shorter_whole(stage)
        self.cp.add_no_overlap([one for kind in "FIW" for one in self._intervals(stage, kind)])
        for kind in "FI" if may_be_whole else "FIW":
            for k, later in enumerate(starts[kind][1:]):
                self.cp.add(later >= self._end(stage, kind, k))
        for k, whole in enumerate(self.is_whole[stage]):
            self.cp.add(starts["I"][k] >= self._end(stage, "F", k))
            self.cp.add(starts["W"][k] >= self._end(stage, "I", k))
            if may_be_whole:
                self.cp.add(starts["W"][k] == self._end(stage, "I", k)).only_enforce_if(whole)
        if may_be_whole:  # the W at the end of a whole backward may overtake others
            for k, later in combinations(range(self.split.num_microbatches), 2):
                is_split = [~self.is_whole[stage][k], ~self.is_whole[stage][later]]
                self.cp.add(starts["W"][later] >= starts["W"][k] + self._cost(stage, "W")).only_enforce_if(is_split)

    def _intervals(self, stage: int, kind: str) -> list[Any]:
        """What occupies a rank; where a backward may be whole, I or B, and with B no W."""
        cost, times, fixed = self._cost(stage, kind), self.starts[stage][kind], self.cp.new_fixed_size_interval_var
        if kind == "F" or not self.work.is_shorter_whole(stage):
            return [fixed(at, cost, "") for at in times]
        optional, wholes = self.cp.new_optional_fixed_size_interval_var, self.is_whole[stage]
        halves = [optional(at, cost, ~whole, "") for at, whole in zip(times, wholes, strict=True)]
        if kind == "W":
            return halves
        cost = self._cost(stage, "B")
        return halves + [optional(at, cost, whole, "") for at, whole in zip(times, wholes, strict=True)]

    def _messages(self, stage: int) -> None:
        """What the stage below sends up arrives before it is used, and so does what this stage sends down."""
        if stage == 0:
            return
        up, down = int(self.split.up[stage - 1]), int(self.split.down[stage - 1])
        for k in range(self.split.num_microbatches):
            self.cp.add(self.starts[stage]["F"][k] >= self._end(stage - 1, "F", k) + up)
            self.cp.add(self.starts[stage - 1]["I"][k] >= self._end(stage, "I", k) + down)

    def _memory(self, stage: int) -> None:
        """Before forward `k` starts, enough of the `k` before it have run I, and W, for `k + 1` to fit."""
        kept = _exact_or_above(self.split.kept)
        limit = min(self.split.limit, self.split.num_microbatches)  # more is never held, and it may be infinite
        most = floor(Fraction(limit) * kept.denominator + SLACK)
        for k in range(1, self.split.num_microbatches):
            excess = kept.denominator * (k + 1) - most
            if excess > 0:
                ran_i, ran_w = (self._ran_before(stage, kind, k) for kind in "IW")
                freed_by_i = kept.denominator - kept.numerator
                self.cp.add(freed_by_i * sum(ran_i) + kept.numerator * sum(ran_w) >= excess)

    def _ran_before(self, stage: int, kind: str, k: int) -> list[Any]:
        """For each micro-batch before `k`, whether its `kind` ran before forward `k`: true for the first ones."""
        forward = self.starts[stage]["F"][k]
        earlier = [self.cp.new_bool_var("") for _ in range(k)]
        for one, (at, is_earlier) in enumerate(zip(self.starts[stage][kind], earlier, strict=False)):
            self.cp.add(forward >= self._end(stage, kind, one)).only_enforce_if(is_earlier)
            self.cp.add(at >= forward + self._cost(stage, "F")).only_enforce_if(~is_earlier)
        if kind == "I" or not self.work.is_shorter_whole(stage):
            for first, then in pairwise(earlier):
                self.cp.add_implication(then, first)
        return earlier

    def _hint(self, timed: Timed) -> None:
        """Start from the times of an order."""
        for action, at in self._actions(timed):
            stage, kind, k = action
            is_whole = kind == Kind.B
            self.cp.add_hint(self.starts[stage]["I" if is_whole else kind.value][k], round(at))
            if is_whole:
                self.cp.add_hint(self.starts[stage]["W"][k], round(at) + self._cost(stage, "B"))
            if kind in (Kind.B, Kind.I) and self.work.is_shorter_whole(stage):
                self.cp.add_hint(self.is_whole[stage][k], int(is_whole))

    def _actions(self, timed: Timed) -> Iterator[tuple[Action, float]]:
        rows = self.work.schedule(timed.rows, "").rows
        for row, starts in zip(rows, timed.starts, strict=True):
            yield from zip(row, starts, strict=True)


def _may_follow(row: str, kind: str) -> bool:
    """Whether an action has what it needs from its own stage: an F for every backward, an I for every W."""
    if kind == "F":
        return True
    num_back = row.count("I") + row.count("B")
    return row.count("I") > row.count("W") if kind == "W" else row.count("F") > num_back
