"""Our own traces are our runs again."""

import json

import pytest
from hypothesis import given

from pllab.schedule import FAMILIES, Action, Kind, gpipe, one_f_one_b
from pllab.show.studio.export import to_chrome_trace
from pllab.simulate import Costs, estimate, simulate
from pllab.timeline import Span, Timeline
from pllab.traces import read_trace
from tests.simulate.legal import runs
from tests.traces.files import same_times, trace_of, write

COSTS = Costs(0.0021, 0.0017, 0.0013, p2p=0.0004)


def moved(timeline, engine="real", by=12.5):
    return Timeline.of((s._replace(start=s.start + by, end=s.end + by) for s in timeline.spans), engine)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_comes_back(name, tmp_path):
    schedule = FAMILIES[name].make(4, 6)
    run = moved(simulate(schedule, COSTS))
    (tmp_path / "run.json").write_text(to_chrome_trace({"a run": run}))
    recorded = read_trace(tmp_path / "run.json")
    assert recorded.schedule == schedule and (recorded.clock, recorded.timeline.engine) == ("pllab", "real")
    assert same_times(recorded.timeline, run) < 1e-6
    costs = estimate([(recorded.schedule, recorded.timeline)])
    assert simulate(recorded.schedule, costs).makespan == pytest.approx(run.makespan)


@given(run=runs())
def test_any_legal_run_comes_back(run, tmp_path_factory):
    """Also one whose actions take no time, so that many begin at once."""
    schedule, costs = run
    timeline = simulate(schedule, costs)
    path = tmp_path_factory.mktemp("trace") / "run.json"
    path.write_text(to_chrome_trace({"run": timeline}))
    recorded = read_trace(path)
    assert recorded.schedule == schedule and recorded.timeline.engine == "simulated"
    assert same_times(recorded.timeline, timeline) < 1e-6


def test_all_kinds_come_back_and_only_those_of_a_pipeline_are_scheduled(tmp_path):
    kinds = [Kind.F, Kind.C, Kind.R, Kind.B, Kind.U]
    run = Timeline.of([Span(0, Action(0, kind, 0), n, n + 1.0) for n, kind in enumerate(kinds)], "emulated")
    (tmp_path / "run.json").write_text(to_chrome_trace({"run": run}))
    recorded = read_trace(tmp_path / "run.json")
    assert [span.action.kind for span in recorded.timeline.spans] == kinds and recorded.schedule == gpipe(1, 1)


def test_of_several_runs_the_measured_one_is_read_or_the_one_asked_for(tmp_path):
    predicted = simulate(one_f_one_b(2, 3))
    traces = {"1F1B": predicted, "GPipe": simulate(gpipe(2, 3)), "measured": moved(predicted, "emulated")}
    path = tmp_path / "runs.json"
    path.write_text(to_chrome_trace(traces))
    recorded = read_trace(path)
    assert (recorded.step, recorded.steps, recorded.timeline.engine) == (3, (1, 2, 3), "emulated")
    assert read_trace(path, step=2).schedule == gpipe(2, 3)
    with pytest.raises(ValueError, match=r"step is 4, and runs.json has the runs 1, 2, 3; choose one"):
        read_trace(path, step=4)
    path.write_text(to_chrome_trace({"1F1B": predicted, "GPipe": simulate(gpipe(2, 3))}))
    assert read_trace(path).schedule == one_f_one_b(2, 3)


def changed(**args):
    def change(events):
        next(event for event in events if event["ph"] == "X")["args"] |= args

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (changed(kind="X"), r"0F0 in run.json does not say its stage, kind and micro-batch"),
        (changed(stage=-1), r"0F0 in run.json does not say its stage"),
        (changed(microbatch=10**30), r"0F0 in run.json does not say its stage"),
        (changed(engine="imagined"), r"the engine of run.json is 'imagined'; it is one of simulated, emulated, real"),
        (lambda events: events.__delitem__(slice(0, 4)), r"0F0 in run.json is on a thread without a name"),
        (lambda events: events[-1].pop("ts"), r"0B0 in run.json starts at None"),
    ],
)
def test_what_is_broken_is_said_in_one_sentence(change, sentence, tmp_path):
    content = json.loads(to_chrome_trace({"run": simulate(gpipe(1, 1))}))
    change(content["traceEvents"])
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=sentence):
        read_trace(tmp_path / "run.json")


def test_a_run_and_files_of_ranks_are_not_mixed(tmp_path):
    run = simulate(gpipe(2, 1))
    (tmp_path / "run.json").write_text(to_chrome_trace({"run": run}))
    with pytest.raises(ValueError, match=r"run.json has all ranks of a run in one file; give it alone"):
        read_trace([*write(tmp_path, [trace_of(run, 0)]), tmp_path / "run.json"])
