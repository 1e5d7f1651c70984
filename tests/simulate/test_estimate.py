"""Costs out of timelines: judged by simulating with known costs and asking for them back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Action, Kind, gpipe, interleaved, one_f_one_b, split_backwards, zb_h1
from pllab.simulate import Costs, estimate, simulate
from pllab.timeline import Span, Timeline

SECONDS = st.floats(0.5, 4.0)


def per_stage(num_stages: int) -> st.SearchStrategy[tuple[float, ...]]:
    return st.lists(SECONDS, min_size=num_stages, max_size=num_stages).map(tuple)


@given(st.data())
def test_simulated_runs_give_their_costs_back(data):
    stages = data.draw(st.integers(2, 4))
    forward, by_input, by_weight, whole = (data.draw(per_stage(stages)) for _ in range(4))
    costs = Costs(forward, by_input, by_weight, data.draw(st.floats(0.0, 8.0)), backward=whole)
    schedules = [one_f_one_b(stages, 6), split_backwards(gpipe(stages, 6))]
    found = estimate((schedule, simulate(schedule, costs)) for schedule in schedules)
    for name in ("forward", "backward_input", "backward_weight", "backward", "p2p"):
        assert getattr(found, name) == pytest.approx(getattr(costs, name))


def late(timeline: Timeline, launch: float) -> Timeline:
    """The first `launch` seconds of every action are a late start and not work."""
    spans = [Span(span.rank, span.action, span.start + launch, span.end) for span in timeline.spans]
    return Timeline.of(spans, "real", timeline.num_ranks)


def test_what_a_start_takes_is_part_of_the_action_and_not_of_the_message():
    costs = Costs(1.1, 1.1, 0.6, 0.25)
    schedule = one_f_one_b(3, 9)
    measured = late(simulate(schedule, costs), 0.1)
    found = estimate([(schedule, measured)])
    assert found.forward == pytest.approx((1.1,) * 3)
    assert found.backward == pytest.approx((1.7,) * 3)
    assert found.p2p == pytest.approx(0.25)


def test_a_rare_slow_sample_does_not_count():
    costs = Costs()
    schedule = gpipe(1, 9)
    spans = list(simulate(schedule, costs).spans)
    slow = [span._replace(end=span.end + 50) if span.action == Action(0, Kind.F, 4) else span for span in spans]
    assert estimate([(schedule, Timeline.of(slow, "real", 1))]).forward == pytest.approx((1.0,))


def test_a_kind_that_no_run_has_is_made_up_of_the_others():
    schedule = interleaved(2, 4, 2)
    found = estimate([(schedule, simulate(schedule, Costs(1, 2, 4)))])
    assert (found.backward_input, found.backward_weight, found.backward) == ((3.0,) * 4, (3.0,) * 4, (6.0,) * 4)
    split = zb_h1(2, 4)
    assert estimate([(split, simulate(split, Costs(1, 2, 4)))]).backward == (6.0, 6.0)


def test_nothing_to_estimate_from_is_refused():
    with pytest.raises(ValueError, match="no run to estimate from"):
        estimate([])
    schedule = gpipe(2, 2)
    only_forward = Timeline.of([s for s in simulate(schedule).spans if s.action.kind == "F"], "real", 2)
    with pytest.raises(ValueError, match="a forward and a backward of stage 0"):
        estimate([(schedule, only_forward)])
