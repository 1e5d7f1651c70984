"""Zero bubble for given costs: split the backward, and put the weight gradients where a rank would wait."""

from collections.abc import Iterator

from pllab.schedule.costs_like import CostsLike
from pllab.schedule.memory import Held
from pllab.schedule.schedule import Schedule
from pllab.schedule.zero_bubble_clock import Played, replay
from pllab.schedule.zero_bubble_floor import floor_of_longest, floor_of_makespan
from pllab.schedule.zero_bubble_moves import improved
from pllab.schedule.zero_bubble_search import Key, Search
from pllab.schedule.zero_bubble_workload import Workload

_ACTIONS_TO_PLAY, _TRIES = 2_000_000, (150, 500)  # a few seconds
_ACTIONS_TO_REPLAY, _MOVES = 1_000_000, (100, 8_000)  # a fraction of that
_SAME = 1e-12


def zero_bubble(
    num_stages: int,
    num_microbatches: int,
    costs: CostsLike,
    memory_limit: float,
    held: Held | None = None,
    *,
    makespan_first: bool = False,
) -> Schedule:
    """The best split-backward schedule found for these costs, with one stage and `memory_limit` micro-batches per rank.

    Two stages and three micro-batches, `Costs()`, memory for three; time to the right, nobody waits after the start:

        rank 0  F0 F1 F2 I0 W0 I1 W1 I2 W2 .
        rank 1  .  F0 I0 F1 I1 F2 I2 W0 W1 W2

    Best is the shortest time that the slowest rank needs from its own first start to its last end, which is what a
    step costs when the next follows without a barrier (the Zero Bubble paper's measure); of equals, the shortest
    makespan. The makespan is never longer than that of GPipe, 1F1B, eager 1F1B, ZB-H1 or ZB-H2, with as many forwards
    in flight as the limit allows (of those whose B takes as long as I and W), and where one of them ends as early, its
    slowest rank is no quicker. One that ends later may have a quicker slowest rank. The search stops early where a
    floor known on paper shows that nothing is shorter.

    Micro-batches go in order of each kind. The search is a fixed number of tries with a fixed seed, so the same
    question gets the same answer: 8 stages and 64 micro-batches take about a second, 32 and 128 a few.

    Args:
        num_stages: also the number of ranks.
        num_microbatches: at least 1.
        costs: seconds per action and message, per stage; `pllab.simulate.Costs`.
        memory_limit: micro-batches of activations a rank may hold, from 1; 1F1B needs `num_stages`, and with about
            twice as many almost no bubble is left.
        held: what I and W free; a half each by default.
        makespan_first: take the makespan for the measure and the slowest rank's time for equals, for a step that ends
            at a barrier.

    Raises:
        ValueError: a size or the memory limit is below 1, or a cost is below 0.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), section 3 for the idea of a search under a memory limit.
    """
    work = Workload.of(num_stages, num_microbatches, costs, memory_limit, held)
    return work.schedule(shortest(work, makespan_first).rows, "zero bubble")


def shortest(work: Workload, makespan_first: bool = False) -> Played:
    """The order `zero_bubble` returns; with `makespan_first`, the one with the shortest makespan found."""
    known = [played for rows in _handmade(work) if (played := replay(work, rows)) is not None]
    most = min(played.makespan for played in known)

    def longest_first(played: Played) -> Key:
        excess = played.makespan - most
        return Key(excess if excess > most * _SAME else 0.0, _rounded(played.longest), _rounded(played.makespan))

    def shortest_makespan(played: Played) -> Key:
        return Key(0.0, _rounded(played.makespan), _rounded(played.longest))

    key = shortest_makespan if makespan_first else longest_first
    floor = key(Played((), floor_of_longest(work), floor_of_makespan(work)))._replace(excess=0.0)
    num_actions = 3 * work.num_stages * work.num_microbatches
    tries = _within(_TRIES, _ACTIONS_TO_PLAY // num_actions)
    found = Search(work, key, min(known, key=key), tries, floor).run()
    return improved(work, found, key, floor, _within(_MOVES, _ACTIONS_TO_REPLAY // num_actions))


def _rounded(seconds: float) -> float:
    """To twelve digits: of two sums of the same costs, added up in another order, neither is the shorter one."""
    return float(f"{seconds:.12g}")


def _within(limits: tuple[int, int], number: int) -> int:
    fewest, most = limits
    return max(fewest, min(most, number))


def _handmade(work: Workload) -> Iterator[tuple[str, ...]]:
    """What the result is never worse than: 1F1B, ZB-H1, eager 1F1B, ZB-H2 and GPipe.

    None has more forwards in flight than fit; those that fit as they are, are as they are.
    """
    p, m = work.num_stages, work.num_microbatches
    for ahead, extra, deferred in ((1, 0, 0), (1, 0, 1), (2, -1, 0), (2, -1, 2), (0, m, 0)):
        yield tuple(_alternating(work, ahead * (p - s) + extra, deferred * s) for s in range(p))


def _alternating(work: Workload, ahead: int, deferred: int) -> str:
    """Forwards up to `ahead`, then I and F in turn, and W once more than `deferred` wait or the next F needs room."""
    m = work.num_microbatches
    num_f = min(ahead, work.most_in_flight)
    num_w = 0
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
