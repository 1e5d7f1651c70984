import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pllab.schedule import (
    Held,
    check,
    one_f_one_b,
    optimal,
    peak_in_flight,
    zero_bubble,
)
from pllab.schedule.search.problem import SearchProblem
from pllab.schedule.search.shortest import shortest
from pllab.schedule.search.solver import _solve, _units_per_second
from pllab.simulate import Costs, simulate
from tests.schedule.every_order import every_schedule

pytest.importorskip("ortools", reason="the extra `solver` is not installed")


UNEQUAL = Costs((1.0, 2.0), (1.5, 0.5), (0.5, 1.0), 0.25)


@pytest.mark.parametrize("limit", [1, 1.5, 2])
@pytest.mark.parametrize("costs", [Costs(), Costs(2.0, 1.0, 3.0, 0.5), Costs(1.0, 2.0, 0.0, 1.0), UNEQUAL])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_two_by_two_is_the_best_of_all_orders(costs: Costs, limit: float, share: float) -> None:
    found = optimal(2, 2, costs, limit, held=Held(share))
    assert found.proven
    everything = [simulate(schedule, costs) for schedule in every_schedule(2, 2, limit, Held(share))]
    assert found.makespan == pytest.approx(min(timeline.makespan for timeline in everything))


def test_costs_for_other_stages_are_refused_as_the_simulator_refuses_them() -> None:
    costs = Costs(forward=(1.0, 1.0, 9.0))
    with pytest.raises(ValueError, match="costs are given for 3 stages but the schedule has 2") as ours:
        optimal(2, 2, costs, 2)
    with pytest.raises(ValueError, match="3 stages") as simulators:
        simulate(one_f_one_b(2, 2), costs)
    assert str(ours.value) == str(simulators.value)


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 4), (3, 5), (4, 8)])
def test_zb_h1_is_the_best_in_the_memory_of_1f1b(p: int, m: int) -> None:
    found = optimal(p, m, Costs(), p)
    assert found.proven and found.makespan == found.bound == 3 * m + p - 1


tenths = st.integers(0, 20).map(lambda n: n / 10)


@settings(max_examples=25, deadline=None)
@given(
    p=st.integers(1, 3),
    m=st.integers(1, 4),
    costs=st.tuples(*[st.tuples(tenths, tenths, tenths)] * 3),
    p2p=tenths,
    limit=st.sampled_from([1.0, 1.5, 2.0, 3.0]),
    share=st.sampled_from([0.0, 0.5, 0.634, 1.0]),
)
def test_what_it_says_of_its_schedule_is_true(
    p: int, m: int, costs: tuple[tuple[float, ...], ...], p2p: float, limit: float, share: float
) -> None:
    forward, by_input, by_weight = (part[:p] for part in costs)
    of_stages = Costs(forward, by_input, by_weight, p2p)
    found = optimal(p, m, of_stages, limit, held=Held(share), time_limit_s=3)
    check(found.schedule, limit, Held(share))
    assert found.schedule.num_actions == 3 * p * m
    assert simulate(found.schedule, of_stages).makespan == pytest.approx(found.makespan)
    assert found.bound <= found.makespan
    heuristic = simulate(zero_bubble(p, m, of_stages, limit, Held(share)), of_stages).makespan
    assert found.bound <= heuristic * (1 + 1e-9) and found.makespan <= heuristic * (1 + 1e-9)
    if limit >= max(peak_in_flight(one_f_one_b(p, m))):
        assert found.makespan <= simulate(one_f_one_b(p, m), of_stages).makespan * (1 + 1e-9)


def test_costs_that_are_no_fractions_bound_from_below() -> None:
    costs = Costs(2**0.5, 3**0.5, (0.7**0.5, 0.1**0.5, 0.3), 0.123456789)
    found = optimal(3, 4, costs, 2)
    assert found.makespan * (1 - 1e-4) <= found.bound <= found.makespan
    assert simulate(found.schedule, costs).makespan == pytest.approx(found.makespan)


@pytest.mark.parametrize(("forward", "units"), [(1.0, 1), (18.521, 1000), (0.1, 10), (1 / 3, 3)])
def test_small_fractions_are_computed_with_exactly(forward: float, units: int) -> None:
    assert _units_per_second(SearchProblem.of(2, 2, Costs(forward), 2)) == Fraction(units)


def test_a_large_problem_ends_at_its_deadline_with_a_bound() -> None:
    costs = Costs(tuple(1 + stage % 3 / 7 for stage in range(8)), 1.1, (0.7, 0.9) * 4, 0.3)
    found = optimal(8, 20, costs, 3, time_limit_s=0.5)
    check(found.schedule, 3)
    assert not found.proven and 0 < found.bound < found.makespan


UNEQUAL_4 = [
    (4, 32.1, Costs((1.9, 1.1, 0.9, 1.9), (1.8, 2.0, 1.1, 1.4), (1.0, 1.4, 1.1, 0.5), 0.1)),
    (2.5, 38.8, Costs((2.0, 1.5, 0.7, 1.3), (1.5, 0.9, 1.0, 1.5), (1.1, 0.4, 1.0, 1.4), 0.1)),
    (4, 27.2, Costs((1.1, 1.8, 0.8, 0.7), (1.9, 1.1, 0.5, 1.7), (0.5, 1.4, 0.4, 1.2), 0.1)),
]


@pytest.mark.parametrize(("limit", "shortest", "costs"), UNEQUAL_4)
def test_unequal_stages_are_proven_and_the_search_is_near(limit: float, shortest: float, costs: Costs) -> None:
    found, searched = optimal(4, 6, costs, limit), zero_bubble(4, 6, costs, limit, makespan_first=True)
    assert found.proven and found.makespan == pytest.approx(shortest)
    assert shortest <= simulate(searched, costs).makespan * (1 + 1e-9) <= shortest * 1.04


def test_without_ortools_the_sentence_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ImportError, match=r'pip install "pllab\[solver\]"'):
        optimal(3, 4, Costs((1.0, 2.0, 1.0)), 1)


@pytest.mark.parametrize("limit_s", [0, -1])
def test_no_time_is_refused(limit_s: float) -> None:
    with pytest.raises(ValueError, match="time_limit_s"):
        optimal(2, 2, Costs(), 2, time_limit_s=limit_s)


def test_memory_without_end_is_memory_for_all_micro_batches() -> None:
    costs = Costs((1.0, 2.5, 1.0), (2.0, 1.0, 1.0), 1.5)
    works = [SearchProblem.of(3, 3, costs, limit) for limit in (3, math.inf)]
    by_all, by_any = (_solve(work, shortest(work, makespan_first=True), 10.0)[1] for work in works)
    assert by_all == by_any
