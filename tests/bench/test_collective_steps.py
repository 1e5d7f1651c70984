"""A small measurement of collectives, which says nothing about speed, and the table of a known one."""

import re

import pytest

from pllab.bench.collective_steps import GLOO, NUM_BYTES, CollectivesBench, bench_collectives
from pllab.bench.measure import Comparison
from pllab.bench.message_costs import cost_of
from pllab.simulate import MessageCost


def test_the_cost_is_fitted_to_the_quick_quarter_of_each_size() -> None:
    quick = {size: 1e-4 + 1e-9 * size for size in (256, 2**16, 2**22)}
    times = {str(size): (seconds, seconds, 9 * seconds, 50 * seconds, seconds) for size, seconds in quick.items()}
    cost = cost_of(Comparison(times, "256"))
    assert (cost.alpha_s, cost.beta_s) == (pytest.approx(1e-4), pytest.approx(1e-9))


def test_every_number_of_the_table_has_its_engine() -> None:
    by_bytes = {1000: Comparison({"ring all-reduce": (2e-3,), GLOO: (1e-3,)}, GLOO)}
    bench = CollectivesBench(4, MessageCost(1e-4, 1e-9), by_bytes)
    ring_s = 2 * 3 * (1e-4 + 1e-9 * 1000 / 4)
    assert bench.simulated_s()[1000]["ring all-reduce"] == pytest.approx(ring_s)
    assert bench.table().splitlines() == [
        "4 gloo ranks, alpha 100.0 us, beta 1.000 ns per byte (real, fitted)",
        "bytes    collective          real, ms (quartiles)   simulated, ms",
        f"1000     ring all-reduce     2.000 (2.000-2.000)    {ring_s * 1e3:.3f}",
        "1000     gloo's all_reduce   1.000 (1.000-1.000)    -",
    ]


@pytest.mark.ranks
def test_a_small_measurement_has_every_collective_real_and_all_but_gloos_simulated() -> None:
    bench = bench_collectives(repeats=2)
    assert set(bench.by_bytes) == set(NUM_BYTES)
    assert bench.cost.beta_s > 0
    rows = bench.table().splitlines()[2:]
    assert len(rows) == len(NUM_BYTES) * 5
    assert sum(row.endswith("-") for row in rows) == len(NUM_BYTES) * 2
    assert set(bench.to_json()["real"]) == set(bench.to_json()["simulated_s"]) == {str(size) for size in NUM_BYTES}


def test_one_rank_sends_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match=re.escape("world_size is 1; give a whole number of at least 2")):
        bench_collectives(world_size=1)
