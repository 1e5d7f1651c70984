"""Where a pipeline's time goes: the parts add up to what is missing, and marks cover the work of any right pipe."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from pllab.bench.missing_time import MarkedStage, MissingTime, missing_time
from pllab.schedule import gpipe
from pllab.simulate import Costs, simulate
from pllab.traces import Recorded
from tests.bench.test_racing import result, track
from tests.lesson import strangers_09, variants_09

PIPES = variants_09.RIGHT["09.5"] + strangers_09.RIGHT["09.5"]


def recorded(num_microbatches, costs):
    schedule = gpipe(2, num_microbatches)
    return Recorded(schedule, simulate(schedule, costs), "host", "", 0, (0,))


# An eighth of the whole is (1, 1) forward and (2, 2) backward on the two stages; alone it takes 7 in place of 6.
WHOLE = recorded(1, Costs([0.008, 0.008], [0.016, 0.016], 0.0))
EIGHTH = recorded(1, Costs([0.001, 0.002], [0.002, 0.002], 0.0))
SLOW = recorded(8, Costs([0.002, 0.002], [0.003, 0.003], 0.0))


def test_the_parts_are_what_eighths_alone_and_lanes_at_once_take_and_add_up_to_the_missing_time():
    lost = MissingTime(WHOLE, EIGHTH, SLOW)
    assert lost.predicted.makespan == pytest.approx(0.027)
    small, shared, *idle = lost.parts.values()
    assert small == pytest.approx((8 * 7 - 48) / 2 / 1000)
    assert shared == pytest.approx((8 * 10 - 8 * 7) / 2 / 1000)
    assert sum(idle) == pytest.approx((SLOW.timeline.idle - lost.predicted.idle) / 2)
    assert sum(lost.parts.values()) == pytest.approx(SLOW.timeline.makespan - 0.027)
    said = "The step took 45 ms (real) in place of 27 ms (simulated). Of the +18.0 ms, mean of the lanes:"
    assert lost.report().startswith(said)
    assert "+4.0 ms  small pieces" in lost.report() and "+12.0 ms  two lanes at once" in lost.report()
    assert lost.picture().alt.index("a step of the pipe") < lost.picture().alt.index("predicted")


def test_the_race_is_set_against_the_simulated_speedup_and_the_rest_is_named():
    """In the round of the entrant's median speed-up, in which the baseline's time is not its median."""
    lane, pipe = [0.09, 0.0895, 0.084], ([0.08, 0.07, 0.08], [0.12] * 3)
    shown, lost = result(lane=(lane, lane), pipe=pipe), MissingTime(WHOLE, EIGHTH, SLOW)
    assert lost.speedup(shown, "pipe") == pytest.approx(45 / 27)  # one lane's step, not that of two lanes in turn: 48
    said = lost.in_race(shown, "pipe")
    assert "pipe took 40 ms a step and was 1.12x as fast as lane (real)" in said
    assert "would be 1.67x (simulated). Of the +13 ms between the two, the recorded step accounts for +18 ms" in said
    assert "largest part, +12 ms, is: two lanes at once, against one" in said
    assert "The rest, -5 ms, is set-up, the optimizer's step" in said
    disturbed = result(lane=(lane, [0.08] * 3), pipe=pipe)
    assert lost.in_race(disturbed, "pipe") == disturbed.disturbed() != ""


@pytest.mark.parametrize("pipe_step", [None, *PIPES])
def test_every_right_pipe_is_recorded_action_by_action(pipe_step):
    lost = missing_time(track(16), pipe_step, repeats=1)
    assert lost.whole.schedule == lost.eighth.schedule == gpipe(2, 1)
    assert set(lost.pipeline.schedule.actions()) == set(gpipe(2, 8).actions())
    for row, right in zip(lost.pipeline.schedule.rows, gpipe(2, 8).rows, strict=True):
        assert [action.kind for action in row] == [action.kind for action in right]
    missing = lost.pipeline.timeline.makespan - lost.predicted.makespan
    assert sum(lost.parts.values()) == pytest.approx(missing)


def test_of_several_recorded_steps_the_shortest_counts(monkeypatch):
    longer = [recorded(count, Costs([0.1, 0.1], [0.1, 0.1], 0.0)) for count in (1, 1, 8)]
    runs = iter([WHOLE, longer[1], SLOW, longer[0], EIGHTH, longer[2]])
    monkeypatch.setattr("pllab.bench.missing_time._recorded", lambda _: next(runs))
    assert missing_time(track(16), repeats=2) == MissingTime(WHOLE, EIGHTH, SLOW)


def test_marks_cover_the_work_of_a_stage_and_change_nothing():
    torch.manual_seed(2)
    layers, x = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), torch.randn(5, 4)
    marked = MarkedStage(3, layers, [None, None])
    with profile(activities=[ProfilerActivity.CPU]) as recording:
        outputs = [marked(piece) for piece in x.split(3)]
        for output in outputs:
            output.sum().backward()
    grads = [weight.grad for weight in layers.parameters()]
    layers.zero_grad()
    layers(x).sum().backward()
    for grad, weight in zip(grads, layers.parameters(), strict=True):
        torch.testing.assert_close(grad, weight.grad)
    events = {event.name: event.time_range for event in recording.events() if event.name.startswith("PP:")}
    assert sorted(events) == ["PP:3B0", "PP:3B1", "PP:3F0", "PP:3F1"]
    for name, kind in {"aten::addmm": "F", "AddmmBackward0": "B"}.items():
        times = [event.time_range for event in recording.events() if event.name == name]
        assert len(times) == 4
        spans = [events[f"PP:3{kind}{number}"] for number in (0, 0, 1, 1)]
        assert all(span.start <= time.start and time.end <= span.end for span, time in zip(spans, times, strict=True))


def test_rows_that_make_uneven_micro_batches_are_refused():
    with pytest.raises(ValueError, match="12 rows cannot be cut into 8 micro-batches of one size; give a multiple"):
        missing_time(track(12))
