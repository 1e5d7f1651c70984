import itertools
import math
import sys
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pllab.schedule import (
    Action,
    Held,
    Kind,
    Schedule,
    check,
    one_f_one_b,
    optimal,
    peak_in_flight,
    problems,
    zero_bubble,
)
from pllab.schedule.optimal_model import solve
from pllab.schedule.optimal_units import units_per_second
from pllab.schedule.optimal_work import Choice
from pllab.schedule.zero_bubble import shortest
from pllab.schedule.zero_bubble_workload import Workload
from pllab.simulate import Costs, simulate
from tests.schedule.every_order import every_schedule

pytest.importorskip("ortools", reason="the extra `solver` is not installed")


def choice_of(p: int, m: int, costs: Costs, limit: float) -> Choice:
    return Choice.of(Workload.of(p, m, costs, limit), costs)


UNEQUAL = Costs((1.0, 2.0), (1.5, 0.5), (0.5, 1.0), 0.25)


@pytest.mark.parametrize("limit", [1, 1.5, 2])
@pytest.mark.parametrize("costs", [Costs(), Costs(2.0, 1.0, 3.0, 0.5), Costs(1.0, 2.0, 0.0, 1.0), UNEQUAL])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_two_by_two_is_the_best_of_all_orders(costs: Costs, limit: float, share: float) -> None:
    found = optimal(2, 2, costs, limit, held=Held(share))
    assert found.proven
    everything = [simulate(schedule, costs) for schedule in every_schedule(2, 2, limit, Held(share))]
    assert found.makespan == pytest.approx(min(timeline.makespan for timeline in everything))


def every_row(stage: int) -> list[list[Action]]:
    """Every order of two micro-batches on a stage, each backward split or whole, in no order of micro-batches."""
    chains = [[[Action(stage, Kind(kind), k) for kind in kinds] for kinds in ("FIW", "FB")] for k in range(2)]
    rows = []
    for first, second in itertools.product(*chains):
        for places in itertools.combinations(range(len(first) + len(second)), len(first)):
            ways = {True: iter(first), False: iter(second)}
            rows.append([next(ways[place in places]) for place in range(len(first) + len(second))])
    return rows


WHOLE = [
    Costs(backward=1.5),
    Costs(1.0, 1.5, 1.5, 0.5, backward=2.0),
    Costs((1.0, 2.0), (1.5, 0.5), (0.5, 1.0), 0.25, backward=(1.6, 1.75)),
    Costs((1.0, 2.0), (1.5, 1.0), (1.0, 1.0), 0.25, backward=(1.25, 2.5)),
    Costs(0.5, (2.0, 1.5), (1.0, 3.0), backward=(2.7, 2.25)),  # a W waits while a whole backward overtakes it
]


@pytest.mark.parametrize("limit", [1, 1.5, 2])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.75])
def test_where_a_whole_backward_is_shorter_two_by_two_is_the_best_of_all_orders(limit: float, share: float) -> None:
    orders = (Schedule(tuple(map(tuple, rows))) for rows in itertools.product(every_row(0), every_row(1)))
    legal = [order for order in orders if not problems(order, limit, Held(share))]
    for costs in WHOLE:
        found = optimal(2, 2, costs, limit, held=Held(share))
        assert found.proven
        assert found.makespan == pytest.approx(min(simulate(order, costs).makespan for order in legal))


def test_a_mixed_order_beats_all_whole_and_all_split() -> None:
    """The par that an editor compares with: no order of whole backwards is under it."""
    whole, split = Costs(1.0, 1.5, 1.5, backward=2.0), Costs(1.0, 1.5, 1.5)
    found = optimal(2, 4, whole, 2)
    assert found.proven and found.makespan == found.bound == 14.5
    assert {Kind.B, Kind.I} < {action.kind for action in found.schedule.actions()}
    assert simulate(one_f_one_b(2, 4), whole).makespan == 15 and optimal(2, 4, split, 2).makespan == 17.5


@pytest.mark.parametrize("whole", [3.0, 3.5])
def test_a_whole_backward_that_saves_nothing_changes_nothing(whole: float) -> None:
    costs = Costs(1.0, (1.5, 2.0, 1.5), (1.5, 1.0, 1.5), 0.25)
    assert optimal(3, 5, replace(costs, backward=whole), 3) == optimal(3, 5, costs, 3)


def test_costs_for_other_stages_are_refused_as_the_simulator_refuses_them() -> None:
    costs = Costs(forward=(1.0, 1.0, 9.0))
    with pytest.raises(ValueError, match="costs are given for 3 stages and the schedule has 2") as ours:
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
    whole=st.sampled_from([None, 0.5, 0.8, 1.2]),
)
def test_what_it_says_of_its_schedule_is_true(
    p: int, m: int, costs: tuple[tuple[float, ...], ...], p2p: float, limit: float, share: float, whole: float | None
) -> None:
    forward, by_input, by_weight = (part[:p] for part in costs)
    backward = whole and [whole * sum(halves) for halves in zip(by_input, by_weight, strict=True)]
    of_stages = Costs(forward, by_input, by_weight, p2p, backward=backward)
    found = optimal(p, m, of_stages, limit, held=Held(share), time_limit_s=3)
    check(found.schedule, limit, Held(share))
    assert found.schedule.num_actions == 3 * p * m or (whole or 2) < 1
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
    assert units_per_second(choice_of(2, 2, Costs(forward), 2)) == Fraction(units)


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
    works = [choice_of(3, 3, costs, limit) for limit in (3, math.inf)]
    starts = [work.timed(shortest(work.split).rows) for work in works]
    by_all, by_any = (solve(work, start, 10.0) for work, start in zip(works, starts, strict=True) if start)
    assert by_all.bound == by_any.bound
