"""Where the time went: against timelines whose idle time is known, and against the wall clock."""

import time

import pytest
import torch

from pllab.schedule import gpipe, one_f_one_b
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline
from pllab.train import TrainConfig, train
from pllab.train.spending import CAUSES, Inside, Stopwatch, pipeline_time, replicas_time

NOTHING = dict.fromkeys(CAUSES, 0.0)


def test_laps_are_put_down_to_what_comes_after_them(monkeypatch):
    clock = iter([0.0, 1.0, 3.0, 4.0, 10.0, 11.0, 100.0, 102.0, 105.0, 105.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = Stopwatch(torch.device("cpu"))
    for cause in ("data", "work", "work", "messages", "data", None):
        watch.lap(cause)
    watch.end_step()
    watch.lap("data")
    watch.lap("work")
    watch.within("messages", 2.5)
    watch.end_step()
    watch.lap("data")  # of a step that has not ended
    first, second = watch.steps()
    assert first == NOTHING | {"data": 1.0 + 1.0, "work": 3.0, "messages": 6.0}  # the 89 s are of no cause
    assert second == NOTHING | {"data": 2.0, "work": 0.5, "messages": 2.5}


def spent(schedule, timeline, seconds):
    return pipeline_time([NOTHING | {"work": seconds, "data": 0.5}], schedule, [Inside.of(schedule, timeline)])


@pytest.mark.parametrize("make", [gpipe, one_f_one_b])
def test_equal_stages_have_the_bubble_of_the_formula_and_no_other_loss(make):
    schedule = make(4, 8)
    timeline = simulate(schedule, Costs(2.0, 2.0, 2.0))
    found = spent(schedule, timeline, timeline.makespan)
    fraction = 3 / 11  # (p-1)/(m+p-1), for both
    assert found["bubble"] == pytest.approx(fraction * 4 * timeline.makespan)
    assert found["work"] == pytest.approx((1 - fraction) * 4 * timeline.makespan)
    assert found["imbalance"] == pytest.approx(0.0) and found["messages"] == pytest.approx(0.0)
    assert found["data"] == 4 * 0.5


def test_a_slow_stage_is_imbalance_and_a_late_packet_and_the_way_in_are_messages():
    schedule = gpipe(2, 4)
    slow = simulate(schedule, Costs(forward=(1.0, 3.0), backward_input=1.0, backward_weight=1.0))
    found = spent(schedule, slow, slow.makespan)
    assert found["bubble"] == pytest.approx(slow.busy * 1 / 4)  # (p-1)/m of the work
    assert found["imbalance"] == pytest.approx(slow.idle - found["bubble"]) and found["imbalance"] > 5
    spans = [span._replace(start=span.start + 10 * (span.action.kind == "B")) for span in simulate(schedule).spans]
    late = Timeline.of((Span(*span[:3], span.end + 10 * (span.action.kind == "B")) for span in spans), "real")
    found = spent(schedule, late, late.makespan + 1)
    assert found["messages"] == pytest.approx(10 + 2 * 1)  # rank 1 is late; a second before both
    assert sum(found.values()) == pytest.approx(2 * (late.makespan + 1.5))


def test_the_last_rank_waits_for_messages_alone_and_the_others_for_it():
    steps = [NOTHING | {"messages": 3.0, "work": 1.0}, NOTHING | {"messages": 0.5, "work": 4.0}]
    found = replicas_time(steps, [[3.0, 0.5], [1.0, 2.5]])
    assert found == NOTHING | {"work": 5.0, "messages": 1.5, "imbalance": 2.0}


OPTIONS = {
    "batch_size": 8,
    "samples_per_epoch": 64,
    "validation_samples": 8,
    "max_length": 32,
    "n_embd": 64,
    "vocab_size": 300,
    "num_epochs": 2,
    "device": "cpu",
    "eval_interval": 3,
}
MODES = {
    "single": {},
    "data_parallel": {"mode": "data_parallel", "world_size": 2},
    "model_parallel": {"mode": "model_parallel", "world_size": 2},
    "pipeline": {"mode": "pipeline", "world_size": 2, "num_microbatches": 4},
    "recompute": {"mode": "pipeline", "world_size": 2, "schedule": "zb_h1", "recompute": True},
}
NONE_OF = {
    "single": ("bubble", "imbalance"),
    "data_parallel": ("bubble",),
    "model_parallel": (),
    "pipeline": (),
    "recompute": (),
}


@pytest.mark.ranks
@pytest.mark.parametrize("name", MODES)
def test_all_causes_together_are_the_training_time_of_all_devices(name, tmp_path):
    result = train(TrainConfig(**OPTIONS | MODES[name], workdir=str(tmp_path)))
    devices = 2 if "pipeline" in str(MODES[name]) or name == "model_parallel" else 1
    for epoch in (epoch for epochs in result.ranks for epoch in epochs):
        assert sum(epoch.device_s.values()) == pytest.approx(devices * epoch.training_time_s, rel=0.01)
        assert all(epoch.device_s[cause] == 0.0 for cause in NONE_OF[name])
        assert min(epoch.device_s.values()) >= 0.0 and epoch.device_s["work"] > 0.0
        assert (epoch.bubble_fraction is not None) == (devices == 2)
    assert sum(result.metrics.time_shares.values()) == pytest.approx(1.0)
    of_rank_0 = sum(epoch.training_time_s for epoch in result.ranks[0])
    assert sum(step.training_time_s for step in result.steps) == pytest.approx(of_rank_0, rel=0.01)
    expected = {"model_parallel": 1 / 2, "pipeline": 1 / 5}.get(name)
    if expected:
        assert result.metrics.predicted_bubble_fraction == pytest.approx(expected)
        assert result.metrics.bubble_fraction >= 0.9 * expected
