"""Searched schedules: `zero_bubble` against the paper and the families, `optimal` against what a solver has proven."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pllab.schedule import (
    FAMILIES,
    Kind,
    Schedule,
    check,
    one_f_one_b,
    optimal,
    peak_in_flight,
    split_backwards,
    zb_h1,
    zero_bubble,
)
from pllab.schedule.search.problem import SearchProblem
from pllab.simulate import Costs, simulate
from tests.simulate.legal import period

# Zero Bubble (Qi et al., 2024), tables of the profiled models: stages, micro-batches, F, I, W and message in ms, then
# the bubble rate of 1F1B, of their scheduler within the memory of 1F1B, and within twice as much.
PUBLISHED = [
    (8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.0433),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0039),
    (8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0026),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0029),
    (8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0022),
    (8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0010),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0066),
    (16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0054),
    (16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0028),
    (32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.0038),
    (32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0029),
    (32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0018),
]


def bubble(schedule: Schedule, costs: Costs) -> float:
    work = schedule.num_microbatches * (costs.duration(0, Kind.F) + costs.duration(0, Kind.B))
    return 1 - work / period(simulate(schedule, costs))


SAMPLE = ((8, 24, 18.522), (8, 64, 29.935), (16, 48, 11.347))
ROWS = [pytest.param(row, marks=() if row[:3] in SAMPLE else pytest.mark.exhaustive) for row in PUBLISHED]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "p{}-m{}-F{}".format(*row))
def test_the_published_bubbles_are_reached(row: tuple[float, ...]) -> None:
    p, m, (*cost, p2p), (published_1f1b, within_1p, within_2p) = int(row[0]), int(row[1]), row[2:6], row[6:]
    costs = Costs(*cost, p2p)
    assert round(bubble(one_f_one_b(p, m), costs), 4) == published_1f1b  # the same measure as the paper's
    for limit, published in ((p, within_1p), (2 * p, within_2p)):
        schedule = zero_bubble(p, m, costs, limit)
        check(schedule, memory_limit=limit)
        assert round(bubble(schedule, costs), 4) <= published


seconds = st.integers(0, 30).map(lambda tenths: tenths / 10)
Question = tuple[int, int, Costs, float]


@st.composite
def questions(draw: st.DrawFn, most: int = 5) -> Question:
    p, m = draw(st.integers(1, most)), draw(st.integers(1, most + 3))
    cost = st.one_of(seconds, st.tuples(*[seconds] * p))
    costs = Costs(draw(cost), draw(cost), draw(cost), draw(seconds))
    limit = draw(st.sampled_from([1.0, 1.25, 2.0, p, p + 0.5, 2 * p, 100.0]).filter(lambda limit: limit >= 1))
    return p, m, costs, limit


@settings(max_examples=60, deadline=None)
@example(question=(5, 7, Costs((0.0, 0.0, 1.4, 0.0, 0.0), 1.2, 3.0, 1.5), 5.5))  # 48.6, or 48.3
@given(question=questions())
def test_every_question_gets_legal_schedules_within_the_memory_and_above_their_floors(question: Question) -> None:
    """And what `optimal` says of its schedule is true."""
    p, m, costs, limit = question
    work, found, heuristic = SearchProblem(*question), optimal(*question), zero_bubble(*question)
    for schedule in (heuristic, found.schedule):
        check(schedule, limit)
        assert (schedule.num_stages, schedule.num_microbatches, schedule.num_ranks) == (p, m, p)
        assert schedule.num_actions == 3 * p * m and schedule.is_split
        timeline = simulate(schedule, costs)
        assert period(timeline) >= work.floor_of_longest() * (1 - 1e-9)
        assert timeline.makespan >= work.floor_of_makespan() * (1 - 1e-9)
    assert found.makespan == pytest.approx(timeline.makespan)
    assert found.makespan <= simulate(heuristic, costs).makespan * (1 + 1e-9)
    assert found.bound <= found.makespan and found.proven == (found.makespan <= found.bound * (1 + 1e-9))


def assert_no_family_is_better(question: Question) -> None:
    """None that fits ends earlier, with whole or split backwards and the makespan first or not.

    And none that ends as early has a quicker slowest rank.
    """
    p, m, costs, limit = question
    families = [family.make(p, m) for family in FAMILIES.values() if family.stages_per_rank == 1]
    fitting = [one for one in (*families, *map(split_backwards, families)) if max(peak_in_flight(one)) <= limit]
    for makespan_first in (False, True):
        schedule = zero_bubble(*question, makespan_first=makespan_first)
        check(schedule, limit)
        ours = simulate(schedule, costs)
        for other in (simulate(schedule, costs) for schedule in fitting):
            assert ours.makespan <= other.makespan * (1 + 1e-9)
            ends_later = other.makespan > ours.makespan * (1 + 1e-9)
            assert ends_later or period(ours) <= period(other) * (1 + 1e-9)


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(question=questions())
def test_it_is_never_worse_than_a_fixed_family_that_fits(question: Question) -> None:
    assert_no_family_is_better(question)


@pytest.mark.parametrize(
    ("p", "m", "costs", "limit"),
    [
        # All of 8 forwards and backwards end at a time that differs by rounding: the slowest rank is to decide.
        (3, 8, Costs(0.5, 0.0, 0.8), 3),
        (3, 10, Costs(1.0, 2.0, 1.0, 1.5), 5),
        (4, 4, Costs(1.0, 0.1, 3.0, 0.1), 4),
        (6, 19, Costs(0.2, 1.0, 1.0, 1.5), 11),
        (8, 16, Costs(0.2, 1.0, 1.0, 4.0), 15),
        (8, 25, Costs(1.0, 2.0, 1.0, 0.1), 15),
    ],
)
def test_it_starts_from_the_families_where_its_own_tries_end_later(p: int, m: int, costs: Costs, limit: float) -> None:
    assert_no_family_is_better((p, m, costs, limit))


def test_a_weight_gradient_that_takes_next_to_no_time_is_as_one_that_takes_none() -> None:
    assert zero_bubble(2, 2, Costs(1.0, 1.0, 1e-310), 2) == zero_bubble(2, 2, Costs(1.0, 1.0, 0.0), 2)


def test_the_same_question_gets_the_same_schedule() -> None:
    costs = Costs(18.513, 18.086, 9.331, 0.626)  # random changes decide here
    assert zero_bubble(8, 32, costs, 16) == zero_bubble(8, 32, costs, 16)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        *(((2, 2, Costs(), limit), "memory_limit is .* at least 1") for limit in (0.99, 0, -1, math.nan, None, "2")),
        ((0, 1, Costs(), 4), "num_stages is 0"),
        ((1, 0, Costs(), 4), "num_microbatches is 0"),
        ((2, 2, Costs(forward=(1, 1, 9)), 2), "costs are given for 3 stages but the schedule has 2"),
    ],
)
@pytest.mark.parametrize("search", [zero_bubble, optimal])
def test_a_question_without_an_answer_is_refused(search: Callable[..., Any], question: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        search(*question)


def test_the_drawn_example_is_the_schedule() -> None:
    rows = "0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2", "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2"
    assert zero_bubble(2, 3, Costs(), 3) == Schedule.of(map(str.split, rows))


def test_a_quicker_slowest_rank_is_not_worth_a_later_end() -> None:
    """Of all orders of this question none has both ZB-H1's slowest rank and 1F1B's makespan."""
    costs = Costs((9.0, 7.0), 0.0, (1.5, 3.5))
    ours, late = simulate(zero_bubble(2, 3, costs, 2), costs), simulate(zb_h1(2, 3), costs)
    assert period(late) < period(ours) and ours.makespan < late.makespan
    assert ours.makespan <= simulate(one_f_one_b(2, 3), costs).makespan


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
