"""A recorded run in the studio: measured below what its own costs predict."""

import pytest

from pllab.schedule import one_f_one_b
from pllab.show import BubbleStudio
from pllab.simulate import Costs, simulate
from tests.traces.files import trace_of, write, write_run

RUN = simulate(one_f_one_b(4, 6), Costs(0.0021, 0.0017, 0.0013, p2p=0.0004))


def test_files_of_ranks_are_a_studio_with_prediction_and_measured_run(tmp_path):
    studio = BubbleStudio.from_trace(write_run(tmp_path, RUN), compare="ZB-H1", memory_limit=3)
    assert studio.schedule == one_f_one_b(4, 6)
    main, compared, measured = studio.state()["runs"]
    assert (main["engine"], compared["name"], measured["engine"]) == ("simulated", "ZB-H1", "real")
    assert main["makespan_s"] == pytest.approx(RUN.makespan) == pytest.approx(measured["makespan_s"])
    assert measured["bubble_fraction"] == pytest.approx(RUN.bubble_fraction)
    assert "at most 4 micro-batches held by a rank, over the limit of 3" in studio.static().alt
    causes = studio.view["runs"][2]["causes"]
    assert sum(one["share"] for one in causes) == pytest.approx(1)
    assert sum(one["seconds"] for one in causes) == pytest.approx(RUN.idle, rel=1e-3)
    assert "CPU" in studio.view["runs"][2]["note"]


def test_a_run_without_a_backward_is_refused(tmp_path):
    contents = [trace_of(RUN, rank) for rank in range(4)]
    for content in contents:
        content["traceEvents"] = [event for event in content["traceEvents"] if "B" not in event["name"]]
    with pytest.raises(ValueError, match="step 3 is not complete: 0B0 is missing"):
        BubbleStudio.from_trace(write(tmp_path, contents))
