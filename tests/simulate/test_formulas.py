"""The simulator against what theory says of schedules in closed form.

Every formula names its source and says where it is exact. Sizes are as for the families: `p` stages or ranks, then `m`
micro-batches. F, I and W are the seconds of `Costs` on every stage, B is I + W.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import Kind, eager_one_f_one_b, gpipe, one_f_one_b, v_half, zb_h1, zb_h2
from pllab.simulate import Costs, simulate
from tests.simulate.legal import costs_of, period, positive, seconds

ranks = st.integers(1, 8)
microbatches = st.integers(1, 20)
PAPER = Costs(18.522, 18.086, 9.337, p2p=0.601)
"""Milliseconds per stage of the Zero Bubble paper's 1.5B model on 8 GPUs, its appendix of profiled times."""


def gpipe_makespan(num_stages: int, num_microbatches: int, costs: Costs) -> float:
    """GPipe, exact for any costs, one stage per rank: the slowest stage repeats, every stage is passed once.

        sum of F + (m - 1) max F  +  sum of B + (m - 1) max B  +  2 (p - 1) messages

    With equal stages and free messages it is (m + p - 1)(F + B), of which (p - 1)(F + B) is bubble.

    Source: Huang et al., GPipe (2019), section 2.3; the flow shop with one fixed order of jobs (Johnson 1954).
    """
    stages = range(num_stages)
    phases = 0.0
    for kind in (Kind.F, Kind.B):
        seconds = [costs.duration(stage, kind) for stage in stages]
        phases += sum(seconds) + (num_microbatches - 1) * max(seconds)
    return phases + 2 * (num_stages - 1) * costs.p2p


def one_f_one_b_makespan(num_stages: int, num_microbatches: int, costs: Costs) -> float:
    """1F1B, exact for equal stages and a message of `t` seconds on every boundary.

        (m + p - 1)(F + B)  +  2 t (m + p - 2 - ceil((m - 1) / p))

    Without messages it is GPipe's. With them every micro-batch after the first adds a message up and one down, except
    one in `p`: stage 0 has `p` micro-batches in flight, and once a round it does not wait.

    Example: the Zero Bubble paper's 1.5B model, `one_f_one_b_makespan(8, 24, Costs(18.522, 18.086, 9.337, 0.601))`,
    is 1456.749 (ms), and (1456.749 - 24 * 45.945) / 1456.749 is the bubble rate of its table, 0.2431.

    Source: Narayanan et al., Megatron-LM (2021), section 2.2.1, without messages; the count of messages is that of
    the longest path, which a test walks for a grid of sizes and costs.
    """
    work = costs.duration(0, Kind.F) + costs.duration(0, Kind.B)
    rounds = -(-(num_microbatches - 1) // num_stages)
    steps = num_microbatches + num_stages - 2 - rounds
    return (num_microbatches + num_stages - 1) * work + 2 * costs.p2p * steps


def zero_bubble_bubble(num_stages: int, costs: Costs, deferred: int) -> float:
    """Idle seconds of each device under ZB-H1 and ZB-H2: (p - 1)(F + I - W) and (p - 1)(F + I - 2 W).

    Where F = I = W that is a third of 1F1B's, and nothing. Exact for equal stages, free messages, m >= p for ZB-H1 and
    m >= 2 p - 1 for ZB-H2, and a W no longer than F or I; idle is counted between a stage's first start and last end.

    Source: Qi et al., Zero Bubble Pipeline Parallelism (2024), table 2.
    """
    forward, by_input, by_weight = (costs.duration(0, kind) for kind in (Kind.F, Kind.I, Kind.W))
    return (num_stages - 1) * (forward + by_input - deferred * by_weight)


@given(sized=ranks.flatmap(lambda p: st.tuples(st.just(p), costs_of(p, positive))), m=microbatches)
def test_gpipe_takes_what_the_flow_shop_takes(sized: tuple[int, Costs], m: int) -> None:
    p, costs = sized
    assert simulate(gpipe(p, m), costs).makespan == gpipe_makespan(p, m, costs)


@given(p=ranks, m=microbatches, work=st.tuples(seconds, seconds, seconds), p2p=seconds)
def test_1f1b_takes_what_its_closed_form_says(p: int, m: int, work: tuple[float, float, float], p2p: float) -> None:
    costs = Costs(*work, p2p=p2p)
    assert simulate(one_f_one_b(p, m), costs).makespan == one_f_one_b_makespan(p, m, costs)


@given(p=ranks, m=microbatches, work=st.tuples(seconds, seconds, positive))
def test_gpipe_and_1f1b_have_one_bubble_without_messages(p: int, m: int, work: tuple[float, float, float]) -> None:
    """(p - 1)(F + I + W) on each device: Qi et al., Zero Bubble Pipeline Parallelism (2024), table 2."""
    costs = Costs(*work)
    for schedule in (gpipe(p, m), one_f_one_b(p, m), eager_one_f_one_b(p, m)):
        timeline = simulate(schedule, costs)
        assert timeline.idle == p * (p - 1) * sum(work)
        assert timeline.makespan == (m + p - 1) * sum(work)
        assert timeline.bubble_fraction == pytest.approx((p - 1) / (m + p - 1))
        assert timeline.bubble_overhead == pytest.approx((p - 1) / m)


@given(p=ranks, more=st.integers(0, 12), work=st.tuples(positive, positive, positive))
def test_zero_bubble_by_hand_leaves_the_bubble_of_its_table(
    p: int, more: int, work: tuple[float, float, float]
) -> None:
    weight, *others = sorted(work)
    costs = Costs(*others, weight)
    for deferred, schedule in enumerate((zb_h1(p, p + more), zb_h2(p, 2 * p - 1 + more)), 1):
        timeline = simulate(schedule, costs)
        assert period(timeline) - timeline.busy_of_ranks[0] == zero_bubble_bubble(p, costs, deferred)


def test_eager_1f1b_hides_what_messages_cost_1f1b() -> None:
    # Zhuang et al. 2022: with twice the warm-up the messages of the steady state travel behind the compute.
    costs = Costs(4.0, 4.0, 4.0, p2p=1.0)
    exposed = [simulate(make(4, 32), costs).makespan - 35 * 12.0 for make in (one_f_one_b, eager_one_f_one_b)]
    assert exposed == [2.0 * (32 + 4 - 2 - 8), 2.0 * 3]


def test_where_the_v_of_half_the_memory_is_slower_than_1f1b() -> None:
    halves = Costs(*(seconds / 2 for seconds in (18.522, 18.086, 9.337)), p2p=0.601)
    timelines = simulate(v_half(8, 32), halves), simulate(one_f_one_b(8, 32), PAPER)
    assert [round(timeline.bubble_fraction, 3) for timeline in timelines] == [0.215, 0.198]
    assert simulate(v_half(8, 32)).bubble_fraction < 0.5 * simulate(one_f_one_b(8, 32)).bubble_fraction
