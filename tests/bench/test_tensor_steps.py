"""The benchmark on models small enough to say nothing about speed: that all ways run and compute the same."""

import json

import pytest
import torch

from pllab.bench.measure import Comparison, Implausible, check_same_gradients
from pllab.bench.tensor_steps import DTENSOR, GPT2, MLP, OURS, PLAIN, WAYS, TensorBench, bench_tensor
from pllab.bench.workloads import Workload

TINY = Workload(num_layers=1, width=8, num_heads=2, vocab_size=33, batch_size=2, num_tokens=8)


@pytest.mark.ranks
def test_all_ways_run_and_compute_the_gradients_of_the_whole_model() -> None:
    result = bench_tensor(TINY, mlp_pairs=1, mlp_rows=4, repeats=2, backend="gloo", timeout_s=120.0)
    assert tuple(result.comparisons) == (MLP, GPT2)
    for comparison in result.comparisons.values():
        assert tuple(comparison.seconds) == WAYS
        assert {len(seconds) for seconds in comparison.seconds.values()} == {2}
    assert result.comparisons[GPT2].tokens == 2 * 8  # all ranks see the same rows
    read = json.loads(json.dumps(result.to_json()))
    assert read["workload"]["vocab_size"] == 33 and read["mlp"] == {"pairs": 1, "rows": 4, "width": 512, "hidden": 2048}
    assert set(read["models"][MLP]["runs"]) == set(WAYS)
    assert result.picture().alt


def test_the_ratio_is_to_dtensor_round_by_round() -> None:
    comparison = Comparison({OURS: (0.5, 1.2), DTENSOR: (1.0, 2.0), PLAIN: (2.0, 2.0)}, DTENSOR)
    result = TensorBench(TINY, {"pairs": 1}, 2, {MLP: comparison, GPT2: comparison})
    assert result.ratio_to_dtensor(MLP) == pytest.approx(0.55)
    assert "tensor_parallel to torch DTensor, GPT-2: 0.550" in result.table()


def test_a_way_with_other_gradients_is_refused() -> None:
    outcomes = {PLAIN: torch.tensor([2.0, 1.0]), OURS: torch.tensor([2.0, 1.1])}
    with pytest.raises(Implausible, match="tensor_parallel and whole model on every rank did not compute the same"):
        check_same_gradients(outcomes, PLAIN, 1e-3, 1e-3)
