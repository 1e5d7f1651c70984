import json
from typing import Any

import pytest

from pllab import comm
from pllab.bench.fidelity import Case, FidelityBench, bench_fidelity
from pllab.bench.workloads import PipelineWorkload
from pllab.simulate import Costs

TINY = {"num_layers": 4, "width": 32, "num_heads": 2, "batch_size": 8, "num_tokens": 16, "num_microbatches": 4}


@pytest.mark.ranks
def test_every_case_is_predicted_and_measured() -> None:
    result = bench_fidelity(
        PipelineWorkload(**TINY), microbatches=(4,), repeats=1, sleep_ms=1.0, sleeping_lanes=2, timeout_s=120
    )
    assert {case.engine for case in result.errors} == {"real", "emulated"} and len(result.errors) == 2 * 4
    assert {len(rounds) for rounds in result.errors.values()} == {1}
    read = json.loads(json.dumps(result.to_json()))
    assert [figure.partition(",")[0] for figure in read["figures"]] == ["real", "emulated"]
    assert read["machine"]["threads_per_rank"] == 1  # where the work ran, whatever this process has
    assert "emulated, median error" in result.table()


def test_the_figure_is_the_median_over_cases_of_each_cases_median() -> None:
    cases = {
        Case("real", "GPipe", 2): (0.1, 0.1, 9.0),
        Case("real", "GPipe", 4): (0.0, 0.0, 0.0),
        Case("real", "GPipe", 8): (-0.2, -0.2, -0.2),
        Case("emulated", "GPipe", 2): (0.5,),
    }
    result = FidelityBench(PipelineWorkload(), cases, {})
    assert result.figures() == [
        "real, median error 10.00 %, largest 20.00 % of 3 cases",
        "emulated, median error 50.00 %, largest 50.00 % of 1 cases",
    ]
    assert result.table().splitlines()[1].split()[:4] == ["real", "GPipe", "2", "+10.00"]


def test_a_step_that_takes_longer_than_predicted_is_an_error_above_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pllab.bench.fidelity._measure_real", lambda *_: ({}, {}))
    monkeypatch.setattr(comm, "launch", lambda function, _, *given, **__: [function(0, 1, *given)])
    given: dict[str, Any] = {"microbatches": (4,), "repeats": 1, "sleep_ms": 4.0, "sleeping_lanes": 2}
    seen = []
    for factor in (0.25, 4.0):
        costs = Costs(factor * 0.004, factor * 0.004, factor * 0.002)
        monkeypatch.setattr("pllab.bench.fidelity.calibrate", lambda *_, costs=costs, **__: costs)
        seen.append(bench_fidelity(PipelineWorkload(**TINY), **given).errors[Case("emulated", "GPipe", 4)][0])
    assert 0.5 < seen[0] < 1 and seen[1] < -1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sleeping_lanes": 0}, "sleeping_lanes is 0; give a whole number of at least 1"),
        ({"repeats": 0}, "repeats is 0; give a whole number of at least 1"),
        ({"microbatches": ()}, "microbatches is empty"),
        ({"microbatches": (2, 0)}, "microbatches is 0; give a whole number of at least 1"),
        ({"sleep_ms": -1.0}, "a stage cannot sleep -0.001 s"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    given: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comm, "launch", lambda *_, **__: pytest.fail("it measured"))
    with pytest.raises(ValueError, match=sentence):
        bench_fidelity(**given)
