import json
from collections.abc import Callable
from typing import Any

import pytest

from pllab import comm
from pllab.bench.fidelity import FidelityBench, bench_fidelity
from pllab.bench.workloads import PipelineWorkload, Workload
from pllab.simulate import Costs

TINY = PipelineWorkload(num_layers=4, width=32, num_heads=2, batch_size=8, num_tokens=16, num_microbatches=4)


@pytest.mark.exhaustive
def test_every_case_is_predicted_and_measured() -> None:
    result = bench_fidelity(TINY, microbatches=(2, 4), repeats=1)
    names = ("gpipe", "1f1b", "interleaved", "zb_h1")
    assert set(result.errors) == {f"{name}, m={count}" for name in names for count in (2, 4)}
    assert {len(rounds) for rounds in result.errors.values()} == {1}
    read = json.loads(json.dumps(result.to_json()))
    assert read["about"] == result.about and len(read["errors"]) == 8
    assert read["machine"]["threads_per_rank"] == 1  # where the work ran, whatever this process has
    assert result.table().endswith("of 8 cases.")


def test_the_figure_is_the_median_over_cases_of_each_cases_median() -> None:
    cases = {
        "gpipe, m=2": (0.1, 0.1, 9.0),
        "gpipe, m=4": (0.0, 0.0, 0.0),
        "gpipe, m=8": (-0.2, -0.2, -0.2),
    }
    result = FidelityBench(PipelineWorkload(), cases, {})
    assert result.to_json()["about"].endswith("as it ran: median error 10.00 %, largest 20.00 % of 3 cases.")
    assert result.table().splitlines()[1].split()[:3] == ["gpipe,", "m=2", "+10.00"]


@pytest.mark.parametrize(("cost_s", "low", "high"), [(1e-9, 0.99, 1.0), (100.0, float("-inf"), -1.0)])
def test_a_step_that_takes_longer_than_predicted_is_an_error_above_zero(
    cost_s: float, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comm, "launch", lambda function, _, *given, **__: [function(0, 1, *given)])
    monkeypatch.setattr("pllab.bench.fidelity.calibrate", lambda *_, **__: Costs(cost_s, cost_s, cost_s))
    errors = bench_fidelity(TINY, microbatches=(4,), repeats=1).errors
    assert len(errors) == 4 and all(low < rounds[0] < high for rounds in errors.values())


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: bench_fidelity(repeats=0), "repeats is 0; give a whole number of at least 1"),
        (lambda: Workload(num_layers=0), "num_layers is 0; give a whole number of at least 1"),
        (lambda: Workload(width=6, num_heads=4), "width is 6, which 4 heads do not divide"),
        (lambda: PipelineWorkload(batch_size=4, num_microbatches=3), "batch_size is 4 and cannot be cut into 3 micro-"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    ask: Callable[[], Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comm, "launch", lambda *_, **__: pytest.fail("it measured"))
    with pytest.raises(ValueError, match=sentence):
        ask()
