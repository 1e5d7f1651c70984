"""Steps over a slow link, small: every plan was measured and drawn, and the prediction follows its own rule."""

import pytest

from pllab.bench.link_steps import BUCKETS, LATENCY_S, bench_link
from pllab.simulate import MessageCost, leave_when_ready


def test_a_message_waits_for_its_bucket_and_for_the_link():
    cost = MessageCost(alpha_s=0.5, beta_s=0.25)
    assert leave_when_ready([0, 0.5, 4], [2, 2, 2], cost) == [(0, 1), (1, 2), (4, 5)]
    assert leave_when_ready([], [], cost) == []
    with pytest.raises(ValueError, match="shorter"):
        leave_when_ready([1.0], [], cost)


@pytest.mark.ranks
def test_every_plan_is_measured_simulated_and_drawn(quick_ranks):
    bench = bench_link(num_layers=1, width=8, repeats=2)
    each, *_, one = map(str, BUCKETS)
    assert bench.num_messages(each) == 16
    assert bench.num_messages(one) == 1
    assert len(bench.best_numbers()) == 2
    assert bench.best() in bench.plans
    for name in bench.plans:
        assert {(span.rank, str(span.action.kind)) for span in bench.timelines[name].spans} == {
            (rank, kind) for rank in range(2) for kind in "FBC"
        }
        sent = [span for span in bench.timelines[name].of_rank(0) if span.action.kind == "C"]
        assert len(sent) == bench.num_messages(name)
        assert all(span.duration >= LATENCY_S for span in sent)
        assert min(bench.steps.seconds[name]) >= LATENCY_S * bench.num_messages(name)
    assert bench.simulated_s(each) >= bench.computing_s
    assert bench.simulated_s(each) >= 16 * LATENCY_S
