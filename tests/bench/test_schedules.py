import json

import pytest
import torch

from pllab.bench import Comparison, Implausible
from pllab.bench.pipeline import PipelineWorkload
from pllab.bench.schedules import ONE_LANE, SchedulesBench, _Bench, bench_schedules
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
    assert result.picture().alt


def test_ratios_are_taken_round_by_round() -> None:
    seconds = {ONE_LANE: (4.0, 8.0, 4.0)}
    for family in FAMILIES:
        seconds |= {f"pllab {family}": (2.0, 4.0, 3.0), f"torch {family}": (2.5, 5.0, 2.5)}
    result = SchedulesBench(
        PipelineWorkload(), Comparison(seconds, ONE_LANE), {f: Timeline.of([], "real") for f in FAMILIES}
    )
    assert result.ratio("ZBV").median == pytest.approx(0.8)
    assert result.speedup("pllab ZBV").median == pytest.approx(2.0)


def test_a_way_with_other_gradients_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = object.__new__(_Bench)
    found = {ONE_LANE: torch.ones(3), "pllab GPipe": torch.ones(3), "torch GPipe": torch.tensor([1.0, 1.0, 2.0])}
    monkeypatch.setattr(bench, "_gradients", lambda way: found[way()])
    with pytest.raises(Implausible, match="torch GPipe and .* did not compute the same"):
        bench.check({name: lambda name=name: name for name in found})
