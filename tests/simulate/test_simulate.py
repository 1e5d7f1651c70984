import gc
import pickle
from dataclasses import replace
from graphlib import TopologicalSorter

import pytest
from hypothesis import given

from pllab.schedule import Action, Schedule, ScheduleError, dual_pipe_v, gpipe, needs, one_f_one_b, peak_in_flight
from pllab.simulate import Costs, simulate
from tests.simulate.legal import runs


def longest_paths(schedule: Schedule, costs: Costs) -> dict[Action, float]:
    """Another simulator: each action's start is the longest path to it through the graph of rows and data."""
    present = set(schedule.actions())
    graph: dict[Action, dict[Action, float]] = {action: {} for action in present}
    for row in schedule.rows:
        for before, action in zip(row, row[1:], strict=False):
            graph[action][before] = 0.0
    for action in present:
        for need in needs(action, schedule.num_stages, present):
            far = schedule.rank_of_stage[need.stage] != schedule.rank_of_stage[action.stage]
            lag = costs.p2p if far else 0.0
            graph[action][need] = max(lag, graph[action].get(need, 0.0))
    starts: dict[Action, float] = {}
    for action in TopologicalSorter(graph).static_order():
        starts[action] = max(
            (starts[before] + costs.duration(before.stage, before.kind) + lag for before, lag in graph[action].items()),
            default=0.0,
        )
    return starts


@given(run=runs())
def test_the_rows_come_back_and_every_action_starts_at_the_end_of_its_longest_path(run: tuple[Schedule, Costs]) -> None:
    schedule, costs = run
    timeline = simulate(schedule, costs)
    assert {span.action: span.start for span in timeline.spans} == longest_paths(schedule, costs)
    assert all(span.duration == costs.duration(span.action.stage, span.action.kind) for span in timeline.spans)
    assert timeline.engine == "simulated" and timeline.num_ranks == schedule.num_ranks
    rows = tuple(tuple(span.action for span in timeline.of_rank(rank)) for rank in range(schedule.num_ranks))
    assert rows == schedule.rows
    work = [sum(costs.duration(action.stage, action.kind) for action in row) for row in rows]
    assert timeline.busy_of_ranks == tuple(work) and timeline.busy == sum(work)
    assert timeline.peak_in_flight == peak_in_flight(schedule)
    assert pickle.loads(pickle.dumps(timeline)) == timeline


@pytest.mark.parametrize("overlap", [0.0, 0.25, 1.0])
def test_a_pair_takes_between_its_longer_action_and_both(overlap: float) -> None:
    """And no pair delays what needs it: nothing starts later than without overlap, nothing else takes another time."""
    schedule = dual_pipe_v(3, 9)
    costs = Costs((1.0, 2.0, 3.0, 1.0, 2.0, 3.0), 1.0, (0.5,) * 6, p2p=0.25)
    plain = {span.action: span for span in simulate(schedule, costs).spans}
    spans = {span.action: span for span in simulate(schedule, replace(costs, overlap=overlap)).spans}
    paired = {action: pair for pair in schedule.pairs() for action in pair}
    for action, span in spans.items():
        alone = costs.duration(action.stage, action.kind)
        assert span.start <= plain[action].start + 1e-9
        if action not in paired:
            assert span.duration == pytest.approx(alone)
    for pair in schedule.pairs():
        forward, backward = (costs.duration(action.stage, action.kind) for action in pair)
        expected = max(forward, backward) + (1 - overlap) * min(forward, backward)
        assert sum(spans[action].duration for action in pair) == pytest.approx(expected)


def test_of_a_pair_whose_actions_take_no_time_nothing_is_hidden() -> None:
    free = simulate(dual_pipe_v(2, 4), Costs(0.0, 0.0, 0.0, overlap=1.0))
    assert free.makespan == 0.0


def test_costs_for_other_stages_are_refused() -> None:
    with pytest.raises(ValueError, match="costs are given for 3 stages but the schedule has 2"):
        simulate(gpipe(2, 2), Costs(forward=(1.0, 1.0, 1.0)))
    with pytest.raises(ValueError, match="costs are given for 1 stages but the schedule has 2"):
        simulate(gpipe(2, 2), Costs(p2p=1.0, backward=[8.0]))


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_left_as_it_was(was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    try:
        simulate(one_f_one_b(2, 2))
        assert gc.isenabled() is was_on
        with pytest.raises(ScheduleError):
            simulate(Schedule.of([["0B0", "0F0"]]))
        assert gc.isenabled() is was_on
    finally:
        gc.enable()
