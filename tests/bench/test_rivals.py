"""The rivals on a model small enough to say nothing about speed: that all ways run and are told apart."""

import json

import pytest

from pllab.bench.measure import Comparison, Implausible
from pllab.bench.rivals import Rounds, bench_data_parallel, bench_fsdp, bench_tensor, check_same_work
from pllab.bench.workloads import Workload

TINY = Workload(num_layers=1, width=8, num_heads=2, vocab_size=34, batch_size=2, num_tokens=8)


@pytest.mark.parametrize(
    ("bench", "ours", "theirs", "num_ways", "tokens"),
    [
        (bench_data_parallel, "DataParallel", "torch DDP", 5, 2 * 2 * 8),  # ranks, rows, tokens of a row
        (bench_fsdp, "FullyShardedDataParallel", "torch FSDP2", 4, 2 * 2 * 8),
        (bench_tensor, "tensor_parallel", "torch DTensor", 3, 2 * 8),  # all ranks see the same rows
    ],
)
def test_all_ways_run_and_train_the_same_model(bench, ours: str, theirs: str, num_ways: int, tokens: int) -> None:
    result = bench(TINY, Rounds(repeats=2, timeout_s=120.0))
    assert (result.ours, result.theirs, result.comparison.tokens) == (ours, theirs, tokens)
    assert len(result.comparison.seconds) == num_ways
    assert {len(seconds) for seconds in result.comparison.seconds.values()} == {2}
    read = json.loads(json.dumps(result.to_json()))
    assert read["workload"]["num_layers"] == 1
    assert Comparison(**read["comparison"]).ratio(ours, theirs) == result.comparison.ratio(ours, theirs)
    assert f"{ours} to {theirs}: " in result.table()


def test_a_way_that_trains_another_model_is_refused() -> None:
    seen = {"torch DDP": 2.0, "DataParallel": 2.5}
    with pytest.raises(Implausible, match="2.5000 for DataParallel and 2.0000 for torch DDP"):
        check_same_work(seen, "torch DDP")
    for loss in (float("nan"), 2.021):
        with pytest.raises(Implausible):
            check_same_work({"DataParallel": loss, "torch DDP": 2.0}, "torch DDP")
    check_same_work({"DataParallel": 2.019, "torch DDP": 2.0, "no communication": 3.0}, "torch DDP")
