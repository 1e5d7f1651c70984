"""The best possible schedule of a small pipeline, with proof or bound: the par of the editor's game."""

from dataclasses import dataclass

from pllab.schedule.check import problems
from pllab.schedule.costs_like import CostsLike
from pllab.schedule.memory import Held
from pllab.schedule.optimal_model import solve
from pllab.schedule.optimal_work import Choice
from pllab.schedule.schedule import Schedule
from pllab.schedule.zero_bubble import shortest
from pllab.schedule.zero_bubble_workload import Workload

_EQUAL = 1e-9  # relative; sums of the same costs in another order differ by less


@dataclass(frozen=True)
class Optimum:
    """The shortest schedule found, its makespan in seconds, and the bound that no schedule can go below.

    `proven` says that the two agree, so that there is no shorter one.
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
    """The schedule with the shortest makespan, one stage per rank, proven where the time suffices.

    Example: `optimal(2, 2, Costs(), 2)` has makespan 7.0 and is proven; its rows are

        rank 0  F0 F1 .  I0 W0 I1 W1
        rank 1  .  F0 I0 F1 I1 W0 W1

    Every backward may be split. Where the costs give a whole one less time than its halves, as measured ones may, it
    may also stay whole, and often some do: `optimal(2, 4, Costs(1, 1.5, 1.5, backward=2), 2)` needs 14.5, with 6 of 8
    whole; with all split the best is 17.5, and 1F1B needs 15.

    OR-tools' CP-SAT starts from the order of `zero_bubble` and improves on it, with one worker and a fixed seed. A
    proven makespan is always the same; what is found when the time runs out depends on the machine. About 4 stages and
    8 micro-batches are proven within ten seconds, and larger ones where a floor known on paper is reached.

    Costs are computed with exactly if they are fractions with a common denominator up to a million; otherwise they
    are rounded down to a ten-millionth of all work, which lowers the bound by that much per action and may leave the
    best schedule unproven. Every micro-batch costs the same, so taking each kind in order loses nothing.

    Args:
        num_stages: also the number of ranks.
        num_microbatches: at least 1.
        costs: seconds per action and message, per stage.
        memory_limit: micro-batches of activations a rank may hold, from 1; a whole backward frees all at its end.
        held: what I and W free; a half each by default.
        time_limit_s: seconds for the solver, after those of `zero_bubble`.

    Raises:
        ValueError: a size, the memory limit or the time limit is too small, a cost is below 0, or costs are given for
            another number of stages.
        ImportError: OR-tools is not installed and the search does not reach a floor without it.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), its integer program; the scheduling model of CP-SAT.
    """
    if not time_limit_s > 0:
        raise ValueError(f"time_limit_s is {time_limit_s}; give the solver some seconds")
    work = Workload.of(num_stages, num_microbatches, costs, memory_limit, held)
    choice = Choice.of(work, costs)
    starts = choice.starting_points(shortest(work, makespan_first=True).rows)
    best, bound = min(starts, key=lambda timed: timed.makespan), choice.floor
    if best.makespan > bound * (1 + _EQUAL):
        solved = solve(choice, best, time_limit_s)
        bound = max(bound, solved.bound)
        found = choice.timed(solved.rows)
        if found and found.makespan < best.makespan:
            # all is sure but for the makespan, except where actions without a cost share an instant
            best = best if problems(choice.schedule(found.rows, ""), memory_limit, held) else found
    proven = best.makespan <= bound * (1 + _EQUAL)
    return Optimum(choice.schedule(best.rows, "optimal"), best.makespan, min(bound, best.makespan), proven)
