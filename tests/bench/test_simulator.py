import json

import pytest

from pllab.bench.measure import Comparison
from pllab.bench.simulator import FAMILIES, Row, SimulateBench, bench_simulate, judge


def test_a_small_measurement_has_every_family_and_every_judge() -> None:
    result = bench_simulate(num_ranks=2, num_microbatches=4, repeats=2, warmup=0)
    read = json.loads(json.dumps(result.to_json()))
    assert set(read["families"]) == set(FAMILIES) and read["machine"]["engine"] == "simulated"
    assert [read["families"][family]["num_actions"] for family in FAMILIES] == [16, 32, 24]
    assert all(row["holds"] for row in read["judges"]) and len(read["judges"]) >= 8
    assert all(family["aim_s"] is None for family in read["families"].values())
    table = result.table()
    assert all(f"{family}, m = 4" in table for family in FAMILIES) and "0.2431" in table
    assert result.picture().alt


def test_growth_is_time_per_action_and_one_is_linear() -> None:
    seconds, num_actions = {}, {}
    for family, power in zip(FAMILIES, (1, 2, 1), strict=True):
        for m in (2, 4, 8):
            seconds[f"{family}, m = {m}"] = (0.25 * m**power, 0.5 * m**power)
            num_actions[f"{family}, m = {m}"] = 10 * m
    rows = (Row("right", "a paper", 0.5, 0.5), Row("wrong", "a paper", 0.5, 0.6, at_most=True))
    result = SimulateBench(2, 8, num_actions, Comparison(seconds, "1F1B, m = 2"), rows)
    assert [result.growth(family).median for family in FAMILIES] == pytest.approx([1.0, 4.0, 1.0])
    assert result.seconds("1F1B").median == pytest.approx(3.0)
    lines = result.table().splitlines()
    assert " yes " in lines[-2] and " NO " in lines[-1]


def test_too_few_micro_batches_for_a_quarter_are_refused() -> None:
    with pytest.raises(ValueError, match="num_microbatches is 3; a quarter is measured too"):
        bench_simulate(num_microbatches=3)


def test_theory_and_print_agree_with_the_simulator() -> None:
    rows = judge()
    assert [row for row in rows if not row.holds] == []
    assert len({row.name for row in rows}) == len(rows) >= 14


def test_a_row_holds_when_equal_or_where_a_bound_is_kept() -> None:
    assert Row("n", "s", 1 / 3, 0.3333333333333333).holds and not Row("n", "s", 0.5, 0.5 + 1e-9).holds
    assert Row("n", "s", 0.5, 0.4, at_most=True).holds and not Row("n", "s", 0.5, 0.6, at_most=True).holds
