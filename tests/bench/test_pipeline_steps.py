import json

import pytest

from pllab.bench import Comparison
from pllab.bench.pipeline_steps import (
    FREE,
    PIPE,
    PLAIN,
    SEQUENTIAL,
    TORCH,
    PipelineBench,
    bench_pipeline,
)
from pllab.bench.workloads import PipelineWorkload
from pllab.timeline import Timeline

TINY = {"num_layers": 2, "width": 32, "num_heads": 2, "batch_size": 4, "num_tokens": 16, "num_microbatches": 2}


@pytest.mark.ranks
def test_every_way_runs_and_computes_the_same_gradients() -> None:
    result = bench_pipeline(PipelineWorkload(**TINY), device="cpu", repeats=9, timeout_s=120)
    assert set(result.comparison.seconds) == {SEQUENTIAL, PIPE, FREE, PLAIN, TORCH}
    assert {str(span.action) for span in result.timeline.spans} == {
        f"{stage}{kind}{i}" for stage in (0, 1) for kind in "FB" for i in (0, 1)
    }
    read = json.loads(json.dumps(result.to_json()))
    assert read["timeline"]["engine"] == "real" and len(read["timeline"]["spans"]) == 8
    assert "of what the machine allows" in result.table()
    assert result.picture().alt


def test_the_figures_follow_from_the_seconds_round_by_round() -> None:
    seconds = {SEQUENTIAL: (3.2, 6.4, 3.2), PIPE: (2.0, 4.0, 2.5), FREE: (1.6, 3.2, 1.6)}
    work = PipelineWorkload(num_microbatches=8)
    result = PipelineBench(work, Comparison(seconds, SEQUENTIAL), Timeline.of([], "real"))
    # 1.6 s x 9/8 = 1.8 s is allowed; the pipe took 2.0 s
    assert result.share_of_allowed.median == pytest.approx(0.9)
    assert result.speedup.median == pytest.approx(1.6)
