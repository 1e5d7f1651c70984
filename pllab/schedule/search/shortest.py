"""Zero bubble for given costs: split the backward, and put the weight gradients where a rank would wait.

First come the candidates: the families of one stage per rank, and one order for each set of rules. Then single actions
of the best few are moved, as long as the order gets no longer. The best order of all is the answer.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pllab.schedule.costs import Costs
from pllab.schedule.dependencies import Walk
from pllab.schedule.model import Schedule
from pllab.schedule.search.greedy import all_rules, play
from pllab.schedule.search.problem import Rows, SearchProblem

_STARTS = 4  # candidates from which moves begin: the best one alone can be a dead end
_TRIES = 500  # moves from each; for 3 stages and 5 micro-batches that is enough to reach the proven optimum
_MOST_WALKED = 500_000  # actions walked by all moves together, about a second; larger schedules get fewer tries
_FARTHEST = 3  # places that an action moves at most
_EQUAL = 1e-9  # relative: a makespan that a bound proves
_SAME = 1e-12  # relative: sums of the same costs in another order differ by less


def zero_bubble(
    num_stages: int,
    num_microbatches: int,
    costs: Costs,
    memory_limit: float,
    *,
    makespan_first: bool = False,
) -> Schedule:
    """Search the best schedule with split backwards for these costs, under a memory limit, with one stage per rank.

    Two stages, three micro-batches, `Costs()` and memory for three; time to the right, no rank waits after its start:

        rank 0  F0 F1 F2 I0 W0 I1 W1 I2 W2 .
        rank 1  .  F0 I0 F1 I1 F2 I2 W0 W1 W2

    A rank's time runs from its own first start to its last end, as in the Zero Bubble paper: a step costs that much if
    the next one follows without a barrier. In the best schedule the slowest rank takes the least time; among equals,
    the makespan is shortest. It is never longer than that of GPipe, 1F1B, eager 1F1B, ZB-H1 or ZB-H2, split and under
    the same limit. The same arguments give the same schedule. 8 stages and 64 micro-batches take about a second, 32
    and 256 a few.

    Args:
        num_stages: also the number of ranks.
        num_microbatches: at least 1.
        costs: seconds per action and message, per stage; `pllab.simulate.Costs`.
        memory_limit: micro-batches of activations a rank may hold, from 1, of which I and W free a half each; 1F1B
            needs `num_stages`, and about twice as many leave almost no bubble.
        makespan_first: compare makespans first and the slowest rank's time second, for a step that ends at a barrier.

    Raises:
        ValueError: a size or the memory limit is below 1, or the costs are for another number of stages.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), section 3 for the idea of a search under a memory limit.
    """
    work = SearchProblem(num_stages, num_microbatches, costs, memory_limit)
    return work.schedule(_found(work, makespan_first).rows, "zero bubble")


@dataclass(frozen=True)
class Optimum:
    """The shortest schedule found, its makespan in seconds, and a lower bound for every makespan.

    `proven` says that the two agree: no schedule is shorter.
    """

    schedule: Schedule
    makespan: float
    bound: float
    proven: bool


def optimal(num_stages: int, num_microbatches: int, costs: Costs, memory_limit: float) -> Optimum:
    """Find the shortest schedule with one stage per rank and split backwards, and say whether it is proven.

    Example: `optimal(2, 2, Costs(), 2)` has makespan 7.0 and is proven; its rows are

        rank 0  F0 F1 .  I0 W0 I1 W1
        rank 1  .  F0 I0 F1 I1 W0 W1

    It is the schedule of `zero_bubble` with `makespan_first`. What proves it is a bound that needs no search: the work
    of a rank, the waits that nothing can fill, and the memory. A schedule above the bound may be the best all the same.

    Args:
        num_stages: also the number of ranks.
        num_microbatches: at least 1.
        costs: seconds per action and message, per stage.
        memory_limit: micro-batches of activations a rank may hold, from 1.

    Raises:
        ValueError: a size or the memory limit is below 1, or the costs are for another number of stages.
    """
    work = SearchProblem(num_stages, num_microbatches, costs, memory_limit)
    best, bound = _found(work, makespan_first=True), work.floor_of_makespan()
    schedule, is_proven = work.schedule(best.rows, "optimal"), best.makespan <= bound * (1 + _EQUAL)
    return Optimum(schedule, best.makespan, min(bound, best.makespan), is_proven)


class Order(NamedTuple):
    """Rows of letters, their makespan, and the longest time of one rank from its own first start to its last end."""

    rows: Rows
    makespan: float
    longest: float


Key = tuple[float, ...]
Judge = Callable[[Order], Key]


def _found(work: SearchProblem, makespan_first: bool) -> Order:
    """The order of the search; one that looks at makespans first may miss what the other one meets on its way."""
    best = shortest(work, makespan_first)
    if makespan_first and best.makespan > work.floor_of_makespan() * (1 + _EQUAL):
        return min(best, shortest(work), key=lambda order: (order.makespan, order.longest))
    return best


def shortest(work: SearchProblem, makespan_first: bool = False) -> Order:
    """The order that `zero_bubble` returns; with `makespan_first`, makespans are compared first."""
    families = [order for rows in _families(work) if (order := timed(work, rows)) is not None]
    key, floor = _judges(work, min(order.makespan for order in families), makespan_first)
    candidates = {order.rows: order for order in families}
    for rules in all_rules(work):
        if (rows := play(work, rules)) not in candidates and (order := timed(work, rows)) is not None:
            candidates[rows] = order
    best = sorted(candidates.values(), key=key)[:_STARTS]
    return min((_moved(work, order, key, floor, seed) for seed, order in enumerate(best)), key=key)


def timed(work: SearchProblem, rows: Rows) -> Order | None:
    """Rows with their times, every action as early as possible; None if they deadlock."""
    walk = Walk(work.schedule(rows, ""), work.costs)
    if not walk.is_over():
        return None
    longest = max(ends[-1] - starts[0] for starts, ends in zip(walk.starts, walk.ends, strict=True))
    return Order(rows, _rounded(max(ends[-1] for ends in walk.ends)), _rounded(longest))


def _judges(work: SearchProblem, most: float, makespan_first: bool) -> tuple[Judge, Key]:
    """The key of an order (smaller is better) and its lower bound; `most` is the longest makespan allowed."""
    longest, makespan = work.floor_of_longest(), work.floor_of_makespan()
    if makespan_first:
        return lambda order: (order.makespan, order.longest), (makespan, longest)
    return lambda order: (max(0.0, order.makespan - most), order.longest, order.makespan), (0.0, longest, makespan)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.12g}")


def _families(work: SearchProblem) -> Iterator[Rows]:
    """1F1B, ZB-H1, eager 1F1B, ZB-H2 and GPipe, with no more forwards in flight than fit."""
    p, m = work.num_stages, work.num_microbatches
    for ahead, extra, deferred in ((1, 0, 0), (1, 0, 1), (2, -1, 0), (2, -1, 2), (0, m, 0)):
        yield tuple(_alternating(work, ahead * (p - s) + extra, deferred * s) for s in range(p))


def _alternating(work: SearchProblem, ahead: int, deferred: int) -> str:
    """Forwards up to `ahead`, then I and F in turn; W when more than `deferred` wait or the next F needs memory."""
    m = work.num_microbatches
    num_f, num_w = min(ahead, work.most_in_flight), 0
    row = ["F" * num_f]
    for num_i in range(1, m + 1):
        row.append("I")
        more = num_f < m
        while num_w < num_i and (
            num_i - num_w > deferred or (more and not work.fits(num_f - num_i + 1, num_i - num_w))
        ):
            row.append("W")
            num_w += 1
        row.append("F" * more)
        num_f += more
    return "".join(row) + "W" * (m - num_w)


def _moved(work: SearchProblem, order: Order, key: Judge, floor: Key, seed: int) -> Order:
    """Move one action of a row a few places, again and again, and keep the order if it is no worse."""
    dice = random.Random(seed)
    num_actions = 3 * work.num_stages * work.num_microbatches  # F, I and W
    for _ in range(min(_TRIES, _MOST_WALKED // _STARTS // num_actions)):
        if all(value <= least * (1 + _SAME) for value, least in zip(key(order), floor, strict=True)):
            break
        rank = dice.randrange(work.num_stages)
        row = _with_one_moved(order.rows[rank], dice)
        if row == order.rows[rank] or not work.holds(row):
            continue
        other = timed(work, (*order.rows[:rank], row, *order.rows[rank + 1 :]))
        if other is not None and key(other) <= key(order):
            order = other
    return order


def _with_one_moved(row: str, dice: random.Random) -> str:
    start = dice.randrange(len(row))
    rest = row[:start] + row[start + 1 :]
    goal = max(0, start + dice.choice((-1, 1)) * dice.randint(1, _FARTHEST))
    return rest[:goal] + row[start] + rest[goal:]
