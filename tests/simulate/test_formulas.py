import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import (
    Action,
    eager_one_f_one_b,
    gpipe,
    interleaved,
    one_f_one_b,
    v_half,
    v_min,
    zb_h1,
    zb_h2,
    zbv,
)
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline
from tests.simulate import formulas
from tests.simulate.legal import positive, seconds

ranks = st.integers(1, 8)
microbatches = st.integers(1, 20)
PAPER = Costs(18.522, 18.086, 9.337, p2p=0.601)
"""Milliseconds per stage of the Zero Bubble paper's 1.5B model on 8 GPUs, its appendix of profiled times."""


@st.composite
def per_stage(draw: st.DrawFn) -> tuple[int, Costs]:
    num_stages = draw(ranks)
    values = st.lists(positive, min_size=num_stages, max_size=num_stages)
    work = [draw(values) for _ in range(3)]
    return num_stages, Costs(*work, p2p=draw(seconds))


@given(sized=per_stage(), m=microbatches)
def test_gpipe_takes_what_the_flow_shop_takes(sized: tuple[int, Costs], m: int) -> None:
    p, costs = sized
    assert simulate(gpipe(p, m), costs).makespan == formulas.gpipe_makespan(p, m, costs)


@given(p=ranks, m=microbatches, work=st.tuples(seconds, seconds, seconds), p2p=seconds)
def test_1f1b_takes_what_its_closed_form_says(p: int, m: int, work: tuple[float, float, float], p2p: float) -> None:
    costs = Costs(*work, p2p=p2p)
    assert simulate(one_f_one_b(p, m), costs).makespan == formulas.one_f_one_b_makespan(p, m, costs)


@given(p=ranks, m=microbatches, work=st.tuples(seconds, seconds, positive))
def test_gpipe_and_1f1b_have_one_bubble_without_messages(p: int, m: int, work: tuple[float, float, float]) -> None:
    costs = Costs(*work)
    bubble = formulas.one_f_one_b_bubble(p, costs)
    for schedule in (gpipe(p, m), one_f_one_b(p, m), eager_one_f_one_b(p, m)):
        timeline = simulate(schedule, costs)
        assert timeline.idle == p * bubble
        assert timeline.makespan == (m + p - 1) * sum(work)
        assert timeline.bubble_fraction == pytest.approx((p - 1) / (m + p - 1))
        assert timeline.bubble_overhead == pytest.approx((p - 1) / m)


@given(p=ranks, m=microbatches, work=st.tuples(seconds, seconds, seconds), p2p=seconds)
def test_the_memory_of_the_families(p: int, m: int, work: tuple[float, float, float], p2p: float) -> None:
    costs = Costs(*work, p2p=p2p)
    assert simulate(gpipe(p, m), costs).peak_in_flight == formulas.gpipe_peak(p, m)
    assert simulate(one_f_one_b(p, m), costs).peak_in_flight == formulas.one_f_one_b_peak(p, m)
    assert simulate(eager_one_f_one_b(p, m), costs).peak_in_flight == formulas.eager_one_f_one_b_peak(p, m)


@given(p=ranks, rounds=st.integers(1, 4), v=st.integers(1, 3))
def test_interleaving_divides_the_overhead_by_the_stages_of_a_rank(p: int, rounds: int, v: int) -> None:
    overhead = simulate(interleaved(p, p * rounds, v)).bubble_overhead
    assert overhead == pytest.approx(formulas.interleaved_overhead(p, p * rounds, v), rel=1e-12)


def idle_of_longest(timeline: Timeline) -> float:
    """Seconds without work between first start and last end, of the rank for which that is longest."""
    rows = [timeline.of_rank(rank) for rank in range(timeline.num_ranks)]
    return max(row[-1].end - row[0].start - sum(span.duration for span in row) for row in rows)


@given(p=ranks, more=st.integers(0, 12), work=st.tuples(positive, positive, positive))
def test_zero_bubble_by_hand_leaves_the_bubble_of_its_table(
    p: int, more: int, work: tuple[float, float, float]
) -> None:
    weight, *others = sorted(work)
    costs = Costs(*others, weight)
    h1, h2 = simulate(zb_h1(p, p + more), costs), simulate(zb_h2(p, 2 * p - 1 + more), costs)
    assert idle_of_longest(h1) == formulas.zb_h1_bubble(p, costs)
    assert idle_of_longest(h2) == formulas.zb_h2_bubble(p, costs)
    assert 3 * formulas.zb_h1_bubble(p, Costs()) == formulas.one_f_one_b_bubble(p, Costs())
    assert max(h2.peak_in_flight) == formulas.zb_h2_peak(p, 2 * p - 1 + more) == 2 * p - 1


@given(p=st.integers(1, 12), m=microbatches)
def test_the_memory_of_the_vs(p: int, m: int) -> None:
    for make, most in ((zbv, formulas.zbv_peak), (v_half, formulas.v_half_peak), (v_min, formulas.v_min_peak)):
        assert max(simulate(make(p, m)).peak_in_flight) <= most(p)
    assert formulas.v_half_peak(p) <= p + 2 and formulas.v_min_peak(p) <= (2 * p + 8) / 3


def test_the_published_row_of_the_zero_bubble_paper() -> None:
    # The paper: bubble rate = (cost - m (F + I + W)) / cost, cost the longest time of any stage; p = 8, m = 24.
    timeline = simulate(one_f_one_b(8, 24), PAPER)
    cost = timeline.makespan
    assert round((cost - 24 * (18.522 + 18.086 + 9.337)) / cost, 4) == 0.2431
    assert round(formulas.bubble_rate(timeline), 4) == 0.2431
    assert round(timeline.bubble_fraction, 4) == 0.2431
    assert timeline.makespan == pytest.approx(formulas.one_f_one_b_makespan(8, 24, PAPER), rel=1e-12)


def test_eager_1f1b_hides_what_messages_cost_1f1b() -> None:
    # Zhuang et al. 2022: with twice the warm-up the messages of the steady state travel behind the compute.
    costs = Costs(4.0, 4.0, 4.0, p2p=1.0)
    exposed = [simulate(make(4, 32), costs).makespan - 35 * 12.0 for make in (one_f_one_b, eager_one_f_one_b)]
    assert exposed == [2.0 * (32 + 4 - 2 - 8), 2.0 * 3]


def test_the_papers_rate_forgives_a_late_start() -> None:
    # rank 1 runs from 10 to 12 without a gap; both ranks take 2 s, so nobody is idle in the paper's count
    spans = [Span(0, Action.parse("0F0"), 0.0, 2.0), Span(1, Action.parse("1F0"), 10.0, 12.0)]
    timeline = Timeline.of(spans, "real")
    assert formulas.bubble_rate(timeline) == 0.0 and timeline.bubble_fraction == pytest.approx(20 / 24)
    assert formulas.bubble_rate(Timeline.of([], "real")) == 0.0


def test_interleaving_in_incomplete_rounds_has_no_closed_form() -> None:
    assert simulate(interleaved(4, 2, 2)).bubble_overhead == pytest.approx(1.25)
    assert formulas.interleaved_overhead(4, 2, 2) == 0.75


@given(p=ranks, m=microbatches)
def test_one_stage_a_rank_is_1f1b_for_any_number_of_micro_batches(p: int, m: int) -> None:
    overhead = simulate(interleaved(p, m, 1)).bubble_overhead
    assert overhead == pytest.approx(formulas.interleaved_overhead(p, m, 1), rel=1e-12)


def test_where_the_v_of_half_the_memory_is_slower_than_1f1b() -> None:
    halves = Costs(*(seconds / 2 for seconds in (18.522, 18.086, 9.337)), p2p=0.601)
    timelines = simulate(v_half(8, 32), halves), simulate(one_f_one_b(8, 32), PAPER)
    assert [round(timeline.bubble_fraction, 3) for timeline in timelines] == [0.215, 0.198]
    assert simulate(v_half(8, 32)).bubble_fraction < 0.5 * simulate(one_f_one_b(8, 32)).bubble_fraction
