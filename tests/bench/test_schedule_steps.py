import json
from typing import Any

import pytest
import torch
from torch import nn

from pllab import comm
from pllab.bench import Comparison, Implausible, bench_data_parallel, bench_pipeline, schedule_steps
from pllab.bench.measure import check_same_gradients
from pllab.bench.schedule_steps import ONE_LANE, SchedulesBench, bench_schedules, compare_splits
from pllab.bench.workloads import PipelineWorkload, Workload
from pllab.timeline import Timeline

TINY = {"num_layers": 4, "width": 32, "num_heads": 2, "batch_size": 8, "num_tokens": 16, "num_microbatches": 4}
FAMILIES = ("GPipe", "1F1B", "interleaved", "ZBV")


@pytest.mark.ranks
def test_both_runtimes_run_every_family_and_compute_the_same_gradients() -> None:
    result = bench_schedules(PipelineWorkload(**TINY), repeats=2, warmup=1, timeout_s=120)
    names = {f"{runtime} {family}" for runtime in ("pllab", "torch") for family in FAMILIES}
    assert set(result.comparison.seconds) == names | {ONE_LANE}
    read = json.loads(json.dumps(result.to_json()))
    assert set(read["ours_over_torch"]) == set(FAMILIES)
    kinds = {family: {span.action.kind for span in timeline.spans} for family, timeline in result.timelines.items()}
    assert kinds["GPipe"] == kinds["1F1B"] == kinds["interleaved"] == {"F", "B"}
    assert {"I", "W"} <= kinds["ZBV"]
    assert "time of pllab over torch" in result.table()
    assert set(read["split"]["runs"]) == {"B", "pllab I + W", "torch I + W"}
    assert result.picture().alt


def test_ratios_are_taken_round_by_round() -> None:
    seconds = {ONE_LANE: (4.0, 8.0, 4.0)}
    for family in FAMILIES:
        seconds |= {f"pllab {family}": (2.0, 4.0, 3.0), f"torch {family}": (2.5, 5.0, 2.5)}
    timelines = {family: Timeline.of([], "real") for family in FAMILIES}
    result = SchedulesBench(
        PipelineWorkload(), Comparison(seconds, ONE_LANE), timelines, Comparison({"B": (1.0,)}, "B")
    )
    assert result.ratio("ZBV").median == pytest.approx(0.8)
    assert result.speedup("pllab ZBV").median == pytest.approx(2.0)
    lines = result.table().splitlines()
    (line,) = (line for line in lines if line.startswith("ZBV"))
    assert "2.00x (1.67-2.00)" in line and "1.60x (1.60-1.60)" in line and "0.800 (0.800-1.000)" in line
    assert "All ratios are taken round by round" in result.table()


def test_a_way_with_other_gradients_is_not_timed() -> None:
    norms = {ONE_LANE: torch.ones(3), "pllab GPipe": torch.ones(3), "torch GPipe": torch.tensor([1.0, 1.0, 1.001])}
    with pytest.raises(Implausible, match="torch GPipe and .* did not compute the same"):
        check_same_gradients(norms, ONE_LANE, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_measured_is_refused_before_anything_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comm, "launch", lambda *_, **__: pytest.fail("it measured"))
    with pytest.raises(ValueError, match="whole_model is True; embedding and head share a weight"):
        bench_schedules(PipelineWorkload(whole_model=True))
    for bench in (bench_schedules, bench_pipeline, bench_data_parallel):
        with pytest.raises(ValueError, match="repeats=0, warmup=1 measure nothing"):
            bench(repeats=0, warmup=1)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device is 'cuda', and there is no GPU"):
            bench_pipeline(device="cuda")


def test_the_three_ways_back_give_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[torch.Tensor]] = []

    def watch(runs: dict[str, Any], *_: Any, before: dict[str, Any], **__: Any) -> Comparison:
        for name, run in runs.items():
            stage.zero_grad(set_to_none=True)
            before[name]()
            run()
            found.append([parameter.grad.clone() for parameter in stage.parameters() if parameter.grad is not None])
        return Comparison({}, "B", machine={"threads_per_rank": torch.get_num_threads()})

    monkeypatch.setattr(schedule_steps, "compare", watch)
    stage = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 4))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # of this process; the measurement has one
    try:
        comparison = compare_splits(stage, torch.randn(3, 4))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert comparison.machine["threads_per_rank"] == 1
    assert len(found) == 3
    for gradients in found:
        torch.testing.assert_close(gradients, found[0])
        assert len(gradients) == 6


def test_a_workload_that_makes_no_sense_is_refused() -> None:
    for batch_size, num_microbatches in ((3, 8), (12, 8), (0, 8), (8, 0)):
        with pytest.raises(ValueError, match=f"batch_size is {batch_size}|num_microbatches is {num_microbatches}"):
            PipelineWorkload(batch_size=batch_size, num_microbatches=num_microbatches)
    with pytest.raises(ValueError, match="width is 256, which 3 heads do not divide"):
        Workload(num_heads=3)
