"""The rivals on models small enough to say nothing about speed: that all ways run and are told apart."""

import json

import pytest
import torch

from pllab.bench import rivals
from pllab.bench.measure import Comparison, Implausible
from pllab.bench.workloads import PipelineWorkload, Workload

TINY = Workload(num_layers=1, width=8, num_heads=2, vocab_size=34, batch_size=2, num_tokens=8)
STAGES = PipelineWorkload(num_layers=2, width=32, num_heads=2, batch_size=4, num_tokens=16, num_microbatches=2)


@pytest.mark.parametrize(
    ("bench", "workload", "ours", "theirs", "num_ways", "tokens"),
    [
        (rivals.bench_data_parallel, TINY, "DataParallel", "torch DDP", 5, 2 * 2 * 8),  # ranks, rows, tokens of a row
        (rivals.bench_fsdp, TINY, "FullyShardedDataParallel", "torch FSDP2", 4, 2 * 2 * 8),
        (rivals.bench_tensor, TINY, "tensor_parallel", "torch DTensor", 3, 2 * 8),  # all ranks see the same rows
        (rivals.bench_pipeline, STAGES, "Pipe", "torch GPipe, 2 ranks", 5, 4 * 16),
    ],
)
def test_all_ways_run_and_do_the_same(bench, workload, ours: str, theirs: str, num_ways: int, tokens: int) -> None:
    repeats = 9 if workload is STAGES else 2  # of tiny steps, all rounds of one may seem too fast to be possible
    result = bench(workload, repeats=repeats)
    assert (result.ours, result.theirs, result.comparison.tokens) == (ours, theirs, tokens)
    assert [len(seconds) for seconds in result.comparison.seconds.values()] == [repeats] * num_ways
    read = json.loads(json.dumps(result.to_json()))
    assert read["workload"]["num_layers"] == workload.num_layers
    assert Comparison(**read["comparison"]).ratio(ours, theirs) == result.comparison.ratio(ours, theirs)
    assert f"{ours} to {theirs}: " in result.table()


def test_a_way_that_trains_another_model_is_refused() -> None:
    rivals.check_same_work({"DataParallel": 2.019, "torch DDP": 2.0, "no communication": 3.0}, "torch DDP")
    for loss in (2.5, 2.021, float("nan")):
        with pytest.raises(Implausible, match="for DataParallel and 2.0000 for torch DDP"):
            rivals.check_same_work({"torch DDP": 2.0, "DataParallel": loss}, "torch DDP")


def test_a_way_with_other_gradients_is_refused() -> None:
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    right, half = (lambda: model(x).sum().backward()), (lambda: model(x).mean().backward())
    rivals.check_same_gradients(model, right, right)
    for wrong in (half, lambda: None):
        with pytest.raises(AssertionError):
            rivals.check_same_gradients(model, right, wrong)


def test_what_a_pipe_could_gain_follows_from_the_seconds_round_by_round() -> None:
    seconds = {rivals.SEQUENTIAL: (3.2, 6.4, 3.2), rivals.PIPE: (2.0, 4.0, 2.5), rivals.FREE: (1.6, 3.2, 1.6)}
    result = rivals.pipeline_rivals(PipelineWorkload(num_microbatches=8), Comparison(seconds, rivals.SEQUENTIAL))
    # 1.6 s x 9/8 = 1.8 s is allowed; the pipe took 2.0 s
    assert "What the machine allows (both stages, nobody waits, times 9/8) over Pipe: 0.900 (" in result.about
    assert "One lane over Pipe: 1.600 (" in result.about
