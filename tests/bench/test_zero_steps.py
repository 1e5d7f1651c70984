"""What every stage of ZeRO holds and sends, on real ranks and a small model."""

import pytest

from pllab.bench.workloads import Workload
from pllab.bench.zero_steps import STAGES, bench_zero, closed_form

TINY = Workload(num_layers=6, width=16, num_heads=2, vocab_size=33, batch_size=2, num_tokens=8)


@pytest.fixture(scope="module")
def bench():
    return bench_zero(TINY, world_size=2)


def test_all_stages_train_the_same_model_and_all_ranks_hold_as_much(bench):
    for stage in STAGES:
        first, second = bench.bytes_per_parameter(stage)
        assert first == pytest.approx(second)


def test_every_stage_holds_less_and_what_it_shards_is_as_the_formula_says(bench):
    totals = [sum(bench.bytes_per_parameter(stage)[0].values()) for stage in STAGES]
    assert totals == sorted(totals, reverse=True) and totals[0] == pytest.approx(16.0, abs=0.1)
    for stage in STAGES:
        held = bench.bytes_per_parameter(stage)[0]
        assert held["optimizer"] == pytest.approx(closed_form(stage, 2)["optimizer"], abs=0.2)  # steps and padding
    assert bench.bytes_per_parameter(3)[0]["gathered"] < 2.0 < bench.bytes_per_parameter(2)[0]["gathered"]


def test_the_volume_is_2_2_2_and_less_than_3(bench):
    assert [bench.volume(stage) for stage in (0, 1, 2)] == pytest.approx([2.0] * 3, abs=0.02)
    unit = (bench.num_parameters - bench.of_root) / TINY.num_layers
    assert bench.volume(3) == pytest.approx(3 - (bench.of_root + unit) / bench.num_parameters, abs=0.02)


def test_the_closed_form_divides_one_kind_more_in_every_stage():
    assert [sum(closed_form(stage, 4).values()) for stage in STAGES] == [16.0, 10.0, 7.0, 4.0]
    assert closed_form(2, 4) == {"parameters": 4.0, "gradients": 1.0, "optimizer": 2.0}
    with pytest.raises(ValueError, match="stage is 4"):
        closed_form(4, 2)
