"""Traces that PyTorch writes here, on two gloo ranks, by classes of torch.distributed.pipelining."""

import json
from pathlib import Path

import pytest

from pllab.comm import launch
from pllab.schedule import interleaved, zbv
from pllab.simulate import estimate, idle_causes, simulate
from pllab.traces import Recorded, read_trace
from tests.traces import programs


def named_events(path: Path, step: int) -> dict[str, tuple[float, float]]:
    """The named spans within a step of the profiler, read without any code of ours: start and duration."""
    content = json.loads(path.read_text())
    spans = [e for e in content["traceEvents"] if e.get("cat") == "user_annotation"]
    (whole,) = [e for e in spans if e["name"] == f"ProfilerStep#{step}"]
    inside = [e for e in spans if whole["ts"] <= e["ts"] <= whole["ts"] + whole["dur"]]
    zero = content["baseTimeNanoseconds"] / 1e3
    return {e["name"]: (zero + e["ts"], e["dur"]) for e in inside if e["name"].startswith("PP:")}


def check_times(recorded: Recorded, paths: list[Path]) -> None:
    """An F, B, I or W ends when its span does, and lasts as long, less the wait that is beside it as communication."""
    ends = []
    for rank, path in enumerate(paths):
        events = named_events(path, recorded.step)
        row = recorded.timeline.of_rank(rank)
        waits = {span.end: span.duration for span in row if span.action.kind == "C"}
        for span in (span for span in row if span.action.kind != "C"):
            start, length = events[f"PP:{span.action}"]
            ends.append(start + length - span.end * 1e6)
            wait = waits.get(span.start, 0.0)
            if wait < span.start:  # the run begins with its first work, and what waited before is not in it
                assert abs(span.duration + wait - length / 1e6) < 1e-6, span
    assert max(ends) - min(ends) < 1, "one clock, to the microsecond"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("traces")
    launch(programs.write_traces, 2, str(made), backend="gloo", timeout_s=200)
    return made


@pytest.mark.parametrize(("name", "make"), [("zbv", zbv), ("ScheduleInterleaved1F1B", interleaved)])
def test_a_pipeline_is_read_as_it_ran(folder, name, make):
    paths = [folder / f"{name} rank{rank}.json" for rank in range(2)]
    recorded = read_trace(paths)
    assert recorded.schedule == make(2, programs.NUM_MICROBATCHES)
    assert (recorded.step, recorded.steps, recorded.clock) == (2, (1, 2), "host")
    check_times(recorded, paths)
    costs = estimate([(recorded.schedule, recorded.timeline)])
    assert simulate(recorded.schedule, costs).makespan > 0
    causes = idle_causes(recorded.schedule, recorded.timeline, costs)
    assert sum(one.share for one in causes) == pytest.approx(1, abs=1e-3)
    assert sum(one.seconds for one in causes) == pytest.approx(recorded.timeline.idle, rel=1e-3)


def test_a_class_that_names_nothing_is_refused_with_the_way_out(folder):
    with pytest.raises(ValueError, match=r"Schedule1F1B write none, so run their order with pllab.pipeline.to_torch"):
        read_trace(folder / "Schedule1F1B rank0.json")
