from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Held, Schedule, one_f_one_b, peak_in_flight
from pllab.simulate import Costs, held_over_time, simulate
from tests.simulate.legal import runs


def test_the_staircase_of_a_small_pipeline_by_hand() -> None:
    timeline = simulate(one_f_one_b(2, 2))
    assert held_over_time(timeline, 0) == [(0.0, 1.0), (1.0, 2.0), (6.0, 1.0), (9.0, 0.0)]
    assert held_over_time(timeline, 1) == [(1.0, 1.0), (4.0, 0.0), (4.0, 1.0), (7.0, 0.0)]


@given(run=runs(), share=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_the_staircase_is_that_of_the_rows_whatever_the_costs(run: tuple[Schedule, Costs], share: float) -> None:
    schedule, costs = run
    timeline = simulate(schedule, costs)
    held = Held(share)
    assert timeline.peak_held(share) == peak_in_flight(schedule, held)
    for rank, row in enumerate(schedule.rows):
        steps = held_over_time(timeline, rank, held)
        assert [count for _, count in steps] == held.after_each(row)
        assert [time for time, _ in steps] == sorted(time for time, _ in steps)
        assert steps[-1][1] == 0.0


def test_the_share_decides_when_memory_comes_free() -> None:
    timeline = simulate(Schedule.of([["0F0", "0I0", "0W0"]]))
    assert held_over_time(timeline, 0, Held(0.25)) == [(0.0, 1.0), (2.0, 0.75), (3.0, 0.0)]
    assert held_over_time(timeline, 0) == [(0.0, 1.0), (2.0, 0.5), (3.0, 0.0)]
