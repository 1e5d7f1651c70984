"""Traces that PyTorch writes here, on two gloo ranks, for every schedule of torch.distributed.pipelining."""

import json
from pathlib import Path

import pytest

from pllab.comm import launch
from pllab.schedule import Schedule, check, one_f_one_b
from pllab.simulate import estimate, idle_causes, simulate
from pllab.traces import Recorded, read_trace
from tests.traces import programs

FEW = ["Schedule1F1B", "to_torch"]
REST = [family for family in programs.STAGES_PER_RANK if family not in FEW]


def written(folder: Path, families: list[str]) -> dict[str, tuple[list[Path], Schedule]]:
    """Per family, the files of both ranks, and the rows that PyTorch says it runs."""
    orders = launch(programs.write_traces, 2, str(folder), families, backend="gloo", timeout_s=200)
    return {
        family: (
            [folder / f"{family} rank{rank}.json" for rank in range(2)],
            Schedule.from_csv("".join(",".join(order[family]) + "\n" for order in orders)),
        )
        for family in families
    }


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


def check_run(recorded: Recorded, paths: list[Path], order: Schedule) -> None:
    check(recorded.schedule)
    assert not order.num_actions or recorded.schedule == order
    assert (recorded.step, recorded.steps, recorded.clock) == (2, (1, 2), "host")
    check_times(recorded, paths)
    costs = estimate([(recorded.schedule, recorded.timeline)])
    assert simulate(recorded.schedule, costs).makespan > 0
    causes = idle_causes(recorded.schedule, recorded.timeline, costs)
    assert sum(one.share for one in causes) == pytest.approx(1, abs=1e-3)
    assert sum(one.seconds for one in causes) == pytest.approx(recorded.timeline.idle, rel=1e-3)


def test_1f1b_of_ours_is_read_as_it_ran_and_a_class_that_names_nothing_is_refused(tmp_path):
    files = written(tmp_path, FEW)
    paths, order = files["to_torch"]
    check_run(read_trace(paths), paths, order)
    assert order == one_f_one_b(2, 4), "the way out that the refusal of Schedule1F1B names"
    with pytest.raises(ValueError, match=r"Schedule1F1B write none, so run their order with pllab.pipeline.to_torch"):
        read_trace(files["Schedule1F1B"][0])


@pytest.mark.exhaustive
def test_every_family_of_the_runtime_is_read_as_it_ran(tmp_path):
    for family, (paths, order) in written(tmp_path, REST).items():
        recorded = read_trace(paths)
        check_run(recorded, paths, order)
        assert recorded.schedule.is_split == (family not in ("ScheduleInterleaved1F1B", "ScheduleLoopedBFS"))
