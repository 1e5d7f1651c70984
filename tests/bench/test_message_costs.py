"""The cost of messages: the fit against a known line, and a small measurement that says nothing about speed."""

import pytest

from pllab.bench.message_costs import ALONE, BUCKETS, FLAT, OVERLAPPED, SHARED, bench_messages, fit_cost
from pllab.simulate import MessageCost


def test_a_line_is_found_again() -> None:
    sizes = [256, 4096, 2**17, 2**22]
    cost = fit_cost(sizes, [2e-4 + 5e-10 * size for size in sizes])
    assert cost.alpha_s == pytest.approx(2e-4)
    assert cost.beta_s == pytest.approx(5e-10)


def test_one_wild_large_message_does_not_decide_the_latency() -> None:
    sizes = [256, 1024, 4096, 2**22]
    seconds = [2e-4 + 5e-10 * size for size in sizes]
    assert fit_cost(sizes, [*seconds[:-1], 3 * seconds[-1]]).alpha_s == pytest.approx(2e-4, rel=0.02)


def test_many_messages_pay_the_latency_many_times() -> None:
    cost = MessageCost(alpha_s=1e-4, beta_s=1e-9)
    assert cost.seconds(148, 2.5e6) == pytest.approx(0.0173)
    assert cost.seconds(1, 2.5e6) == pytest.approx(0.0026)


@pytest.mark.parametrize(("sizes", "seconds"), [([8], [1.0]), ([8, 8], [1.0, 2.0]), ([8, 16], [1.0, 0.0])])
def test_what_fixes_no_line_is_refused(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(ValueError, match="fix no line"):
        fit_cost(sizes, seconds)


@pytest.mark.ranks
def test_a_small_measurement_has_every_way() -> None:
    bench = bench_messages(num_layers=1, width=8, repeats=2)
    assert len(bench.gradient_bytes) == 12 + 4
    assert bench.num_messages[str(BUCKETS[0])] == 16
    assert bench.num_messages[str(BUCKETS[-1])] == 1
    assert [point["bucket_bytes"] for point in bench.points()] == list(BUCKETS)
    assert set(bench.ways.seconds) - {SHARED} == {str(size) for size in BUCKETS}
    assert bench.steps.baseline == FLAT
    assert {name: len(seconds) for name, seconds in bench.steps.seconds.items()} == {FLAT: 2, OVERLAPPED: 2, ALONE: 2}
