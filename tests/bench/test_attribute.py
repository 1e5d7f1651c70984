"""Runs whose true causes are known, because a plain world with those causes made them."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pllab.bench.attribute import CAUSES, attribute
from pllab.schedule import Action, Kind, Schedule, gpipe, interleaved, needs, one_f_one_b, zb_h1, zbv
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

FAMILIES = (gpipe, one_f_one_b, interleaved, zb_h1, zbv)
COSTS = Costs(3.0, 4.0, 2.0, p2p=0.25)
PerAction = Callable[[Action], float]


def run(schedule: Schedule, seconds: PerAction, travel: PerAction, late: PerAction) -> Timeline:
    """The times that satisfy every rule of a run, found by pushing actions back until none breaks one."""
    present, home = set(schedule.actions()), schedule.rank_of_stage
    starts = dict.fromkeys(present, 0.0)
    ends = {action: seconds(action) for action in present}
    before = {action: prior for row in schedule.rows for prior, action in zip((None, *row), row, strict=False)}
    moved = True
    while moved:
        moved = False
        for action in present:
            times = [ends[before[action]]] if before[action] else [0.0]
            for need in needs(action, schedule.num_stages, present):
                times.append(ends[need] + (travel(action) if home[need.stage] != home[action.stage] else 0.0))
            start = max(times) + late(action)
            if start != starts[action]:
                starts[action], ends[action], moved = start, start + seconds(action), True
    spans = [Span(home[action.stage], action, starts[action] + 7.0, ends[action] + 7.0) for action in present]
    return Timeline.of(spans, "real", schedule.num_ranks)  # on a clock that does not start at zero


def cost(action: Action) -> float:
    return COSTS.duration(action.stage, action.kind)


def p2p(_: Action) -> float:
    return COSTS.p2p


def at_once(_: Action) -> float:
    return 0.0


def attributed(
    schedule: Schedule, seconds: PerAction = cost, travel: PerAction = p2p, late: PerAction = at_once
) -> tuple[dict[str, float], float]:
    """The causes, rounded to what a float can say, and the error they add up to."""
    measured = run(schedule, seconds, travel, late)
    causes = attribute(schedule, COSTS, measured)
    error = measured.makespan - simulate(schedule, COSTS).makespan
    assert sum(causes.values()) == pytest.approx(error, abs=1e-9) and tuple(causes) == CAUSES
    return {name: round(value, 9) for name, value in causes.items()}, round(error, 9)


@pytest.fixture(params=FAMILIES, ids=lambda make: make.__name__)
def schedule(request: pytest.FixtureRequest) -> Schedule:
    return request.param(3, 6)


def test_a_run_as_predicted_has_no_causes(schedule: Schedule) -> None:
    assert attributed(schedule) == (dict.fromkeys(CAUSES, 0.0), 0.0)


def test_all_stages_slower_is_work(schedule: Schedule) -> None:
    causes, error = attributed(schedule, seconds=lambda action: 1.2 * cost(action))
    assert error > 0 and causes == {**dict.fromkeys(CAUSES, 0.0), "work": error}


def test_one_kind_slower_on_all_stages_is_work_too(schedule: Schedule) -> None:
    causes, error = attributed(schedule, lambda action: (1.5 if action.kind is Kind.F else 1.0) * cost(action))
    assert error > 0 and causes == {**dict.fromkeys(CAUSES, 0.0), "work": error}


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_one_slow_stage_is_imbalance_with_all_the_waiting_it_makes(schedule: Schedule, slow: int) -> None:
    causes, error = attributed(schedule, lambda action: (1.5 if action.stage == slow else 1.0) * cost(action))
    assert error > 0 and causes == {**dict.fromkeys(CAUSES, 0.0), "imbalance": error}


def test_a_slow_stage_among_slower_ones_is_told_apart(schedule: Schedule) -> None:
    causes, error = attributed(schedule, lambda action: (1.5 if action.stage == 1 else 1.2) * cost(action))
    _, shared = attributed(schedule, lambda action: 1.2 * cost(action))
    assert causes == {**dict.fromkeys(CAUSES, 0.0), "work": shared, "imbalance": pytest.approx(error - shared)}


def test_slower_messages_are_messages(schedule: Schedule) -> None:
    causes, error = attributed(schedule, travel=lambda _: 1.5)
    assert error > 0 and causes == {**dict.fromkeys(CAUSES, 0.0), "message": error}


def test_late_starts_are_launches(schedule: Schedule) -> None:
    causes, error = attributed(schedule, late=lambda _: 0.5)
    assert error > 0 and causes == {**dict.fromkeys(CAUSES, 0.0), "launch": error}


def test_messages_that_cost_nothing_do_not_take_the_blame_for_late_starts() -> None:
    free = Costs(3.0, 4.0, 2.0)
    schedule = one_f_one_b(4, 8)
    causes = attribute(schedule, free, run(schedule, cost, at_once, lambda _: 0.1))
    assert causes["message"] == pytest.approx(0.0, abs=1e-9) and causes["launch"] > 1.0


def test_unsteady_actions_make_others_wait() -> None:
    schedule = one_f_one_b(3, 12)  # in twelve micro-batches the ups and downs of every stage cancel
    causes, error = attributed(schedule, lambda a: cost(a) + (0.5 if a.microbatch // (a.stage + 1) % 2 else -0.5))
    assert error > 0 and causes == {**dict.fromkeys(CAUSES, 0.0), "wait": error}


@settings(max_examples=40)
@given(make=st.sampled_from(FAMILIES), p=st.integers(1, 4), m=st.integers(1, 5), seed=st.integers(0, 999))
def test_the_causes_add_up_to_the_error_of_any_run(make: Callable[..., Schedule], p: int, m: int, seed: int) -> None:
    lots = random.Random(seed)
    schedule = make(p, m)
    drawn = {action: [lots.uniform(0, 5) for _ in range(3)] for action in schedule.actions()}
    attributed(schedule, *(lambda action, n=n: drawn[action][n] for n in range(3)))


def test_clocks_of_two_ranks_that_differ_are_no_obstacle() -> None:
    schedule = one_f_one_b(2, 4)
    skewed = [Span(s.rank, s.action, s.start - s.rank * 0.5, s.end - s.rank * 0.5) for s in simulate(schedule).spans]
    measured = Timeline.of(skewed, "real", 2)
    causes = attribute(schedule, Costs(), measured)
    assert sum(causes.values()) == pytest.approx(measured.makespan - simulate(schedule).makespan)


def test_a_timeline_of_another_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="the timeline has no 0F3, which the schedule has; pass the schedule it is of"):
        attribute(gpipe(2, 4), Costs(), simulate(gpipe(2, 3)))
