import json

import pytest
import torch

from pllab.bench import Comparison, Implausible
from pllab.bench.pipeline_steps import FREE, PIPE, PLAIN, SEQUENTIAL, TORCH, _check_gradients, bench_pipeline, rivals
from pllab.bench.workloads import PipelineWorkload

TINY = PipelineWorkload(num_layers=2, width=32, num_heads=2, batch_size=4, num_tokens=16, num_microbatches=2)


def test_every_way_runs_and_computes_the_same_gradients() -> None:
    result = bench_pipeline(TINY, repeats=9, timeout_s=120)
    assert set(result.comparison.seconds) == {SEQUENTIAL, PIPE, FREE, PLAIN, TORCH}
    read = json.loads(json.dumps(result.to_json()))
    assert (read["ours"], read["theirs"]) == (PIPE, TORCH)
    assert "What the machine allows" in result.table()


def test_the_figures_follow_from_the_seconds_round_by_round() -> None:
    seconds = {SEQUENTIAL: (3.2, 6.4, 3.2), PIPE: (2.0, 4.0, 2.5), FREE: (1.6, 3.2, 1.6)}
    result = rivals(PipelineWorkload(num_microbatches=8), Comparison(seconds, SEQUENTIAL))
    # 1.6 s x 9/8 = 1.8 s is allowed; the pipe took 2.0 s
    assert "What the machine allows (both stages, nobody waits, times 9/8) over Pipe: 0.900 (" in result.about
    assert "One lane over Pipe: 1.600 (" in result.about


def test_ways_with_other_gradients_are_refused() -> None:
    model = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    right, half = (lambda: model(x).sum().backward()), (lambda: model(x).mean().backward())
    _check_gradients(model, {"one lane": right, "pipe": right})
    for wrong in (half, lambda: None):
        with pytest.raises(Implausible, match="gradients failed: pipe and one lane computed different gradients"):
            _check_gradients(model, {"one lane": right, "pipe": wrong})
