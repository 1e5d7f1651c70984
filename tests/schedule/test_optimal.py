"""`optimal` against every order of small questions, and against makespans that a constraint solver has proven."""

import math
from collections.abc import Iterator

import pytest

from pllab.schedule import optimal, zero_bubble
from pllab.simulate import Costs, simulate
from tests.schedule.every_order import every_schedule
from tests.simulate.legal import period

UNEQUAL = Costs((1.0, 2.0), (1.5, 0.5), (0.5, 1.0), 0.25)


@pytest.mark.parametrize("limit", [1, 1.5, 2])
@pytest.mark.parametrize("costs", [Costs(), Costs(2.0, 1.0, 3.0, 0.5), Costs(1.0, 2.0, 0.0, 1.0), UNEQUAL])
def test_two_by_two_is_the_best_of_all_orders_and_none_is_below_its_bound(costs: Costs, limit: float) -> None:
    found = optimal(2, 2, costs, limit)
    everything = [simulate(schedule, costs) for schedule in every_schedule(2, 2, limit)]
    best = min(timeline.makespan for timeline in everything)
    assert found.makespan == pytest.approx(best) and found.bound <= best * (1 + 1e-9)
    steady = simulate(zero_bubble(2, 2, costs, limit), costs)
    assert period(steady) == pytest.approx(min(map(period, everything)))


@pytest.mark.parametrize(
    ("p", "m", "costs", "limit", "makespan"),
    [
        *((p, m, Costs(), p, 3 * m + p - 1) for p, m in [(1, 3), (2, 4), (3, 5), (4, 8)]),  # that of ZB-H1
        *((3, 4, Costs(3.0, 3.0, 2.0), limit, par) for limit, par in [(3, 40), (6, 38)]),  # both pars of lesson 17
        (2, 3, Costs((1.0, 3.0), (1.0, 3.0), (1.0, 3.0)), 2, 1 + 3 * 9),  # a slow last stage waits for its first F
    ],
)
def test_a_makespan_that_reaches_its_bound_is_proven(
    p: int, m: int, costs: Costs, limit: float, makespan: float
) -> None:
    found = optimal(p, m, costs, limit)
    assert found.proven and found.makespan == found.bound == makespan


def test_one_above_its_bound_is_not_called_proven() -> None:
    unproven = optimal(8, 20, Costs(tuple(1 + stage % 3 / 7 for stage in range(8)), 1.1, (0.7, 0.9) * 4, 0.3), 3)
    assert not unproven.proven and 0 < unproven.bound < unproven.makespan


UNEQUAL_4 = [
    (4, 32.1, Costs((1.9, 1.1, 0.9, 1.9), (1.8, 2.0, 1.1, 1.4), (1.0, 1.4, 1.1, 0.5), 0.1)),
    (2.5, 38.8, Costs((2.0, 1.5, 0.7, 1.3), (1.5, 0.9, 1.0, 1.5), (1.1, 0.4, 1.0, 1.4), 0.1)),
    (4, 27.2, Costs((1.1, 1.8, 0.8, 0.7), (1.9, 1.1, 0.5, 1.7), (0.5, 1.4, 0.4, 1.2), 0.1)),
]


@pytest.mark.parametrize(("limit", "proven", "costs"), UNEQUAL_4)
def test_of_unequal_stages_it_is_near_what_a_solver_has_proven(limit: float, proven: float, costs: Costs) -> None:
    found = optimal(4, 6, costs, limit)
    assert found.bound <= proven * (1 + 1e-9)
    assert proven <= found.makespan * (1 + 1e-9) <= proven * 1.04


# The shortest makespans of the questions of `grid`, which OR-tools' CP-SAT 9.10 has proven by a model of its own.
PROVEN = {
    2: [
        *(35.0, 26.0, 24.1, 11.3, 8.2, 7.7, 20.3, 15.7, 15.5, 17.0, 13.0, 13.0, 22.3, 17.8, 15.6),
        *(57.0, 39.0, 37.1, 18.5, 12.3, 11.3, 33.1, 24.1, 23.9, 28.2, 20.8, 20.8, 35.7, 26.7, 24.2),
    ],
    3: [
        *(54.5, 28.7, 28.7, 18.2, 9.0, 9.0, 30.2, 18.4, 18.4, 26.3, 18.2, 18.2, 38.5, 19.1, 19.1),
        *(89.5, 45.5, 43.5, 30.0, 14.6, 14.1, 49.6, 26.8, 26.8, 43.7, 28.6, 28.6, 62.7, 31.0, 29.1),
    ],
}


def grid(p: int) -> Iterator[tuple[int, int, Costs, float]]:
    """Small questions with costs of several shapes; the last two have unequal stages."""
    costs = (
        Costs(1.9, 2.6, 2.0, 1.0),
        Costs(0.5, 0.8, 0.5, 0.5),
        Costs(2.8, 0.3, 1.1, 0.1),
        Costs(1.0, 1.5, (0.2, 1.4, 2.7)[:p], 0.3),
        Costs((0.3, 2.0, 1.2)[:p], 0.2, (2.2, 2.1, 0.4)[:p], 2.0),
    )
    yield from ((p, m, of_stages, limit) for m in (3, 5) for of_stages in costs for limit in (1.5, p, p + 0.5))


@pytest.mark.parametrize("p", [2, 3])
def test_small_questions_get_the_makespan_that_a_solver_has_proven(p: int) -> None:
    """The proof does not come from the search: it holds for every order."""
    for question, proven in zip(grid(p), PROVEN[p], strict=True):
        found = optimal(*question)
        assert found.makespan == pytest.approx(proven, rel=1e-9) and found.bound <= proven * (1 + 1e-9)
        assert simulate(zero_bubble(*question), question[2]).makespan <= proven * 1.015  # the slowest rank comes first


def test_memory_without_end_is_memory_for_all_micro_batches() -> None:
    costs = Costs((1.0, 2.5, 1.0), (2.0, 1.0, 1.0), 1.5)
    assert optimal(3, 3, costs, 3) == optimal(3, 3, costs, math.inf)
