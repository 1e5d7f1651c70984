"""Emulated runs against the schedule they were given and the costs they were to take; never against the clock."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pllab.pipeline import emulation, run_emulated
from pllab.pipeline.emulation import SleepWork, SlowTransport, _unit_s
from pllab.pipeline.engine import NOTHING, Packets
from pllab.pipeline.streams import HostStream
from pllab.schedule import FAMILIES, Action, Kind, Schedule, gpipe, one_f_one_b, pair_shares
from pllab.show import ScheduleEditor
from pllab.simulate import Costs, simulate
from pllab.timeline import Timeline
from tests.pipeline.steps import assert_in_order

QUICK_S = 0.004
UNEQUAL = Costs((1.0, 2.0), (1.5, 0.5), (0.5, 1.0), p2p=0.75, backward=(1.25, 3.0))
FOUR = Costs((1.0, 0.5, 0.75, 1.0), 0.5, (0.25, 0.5, 0.5, 0.25), p2p=1.5)
CASES = [
    ("gpipe", 3, None),
    ("1f1b", 4, UNEQUAL),
    ("zb_h1", 4, UNEQUAL),
    ("interleaved", 2, FOUR),
    ("zbv", 4, FOUR),
    ("dual_pipe_v", 4, replace(FOUR, overlap=1.0)),
    ("gpipe", 2, Costs(0.0, 0.0, 0.0)),
]


def assert_ran(schedule: Schedule, costs: Costs, timeline: Timeline) -> None:
    """In the order of the rows, asleep as long as asked, and nothing before what it needs and a message's time."""
    assert timeline.engine == "emulated" and timeline.num_ranks == schedule.num_ranks and timeline.start == 0
    assert_in_order(schedule, timeline, p2p=costs.p2p)
    spans = {Action(*span.action): span for span in timeline.spans}  # type: ignore[misc]
    shares = pair_shares(schedule, costs)
    for stage in range(schedule.num_stages):
        own = [action for action in schedule.actions() if action.stage == stage]
        slept = accumulate(spans[action].duration for action in own)  # what one overslept the next may skip
        asked = accumulate(costs.duration(stage, action.kind) * shares.get(action, 1.0) for action in own)
        assert all(done >= least - 1e-9 for done, least in zip(slept, asked, strict=True))


@pytest.mark.parametrize(("family", "num_microbatches", "costs"), CASES)
def test_lanes_run_the_rows_and_take_what_the_costs_say(
    family: str, num_microbatches: int, costs: Costs | None
) -> None:
    schedule = FAMILIES[family].make(2, num_microbatches)
    longest = max((costs or Costs()).duration(0, kind) for kind in (Kind.F, Kind.I, Kind.W))
    timeline = run_emulated(schedule, costs, unit_s=QUICK_S)
    assert_ran(schedule, costs or Costs(), timeline)
    if longest:
        assert timeline.makespan >= 0.9 * simulate(schedule, costs).makespan  # in the unit of the costs, not in seconds


@pytest.mark.parametrize("costs", [Costs(), Costs(0.004, 0.002, 0.001), Costs(18.5, (18.0, 9.0), 9.3)])
def test_without_a_unit_the_longest_sleep_is_20_ms(costs: Costs) -> None:
    sleepers = [SleepWork(costs, stage, _unit_s(costs, 2), {}) for stage in range(2)]
    longest = max(one.seconds[kind] for one in sleepers for kind in (Kind.F, Kind.I, Kind.W))
    assert longest == pytest.approx(0.02)


def test_what_one_action_overslept_the_next_need_not_sleep_and_one_of_a_pair_sleeps_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, asked = [0.0], []

    def wake_late(seconds: float) -> None:
        asked.append(seconds)
        now.append(now[-1] + seconds + 0.5)

    monkeypatch.setattr(emulation, "time", SimpleNamespace(sleep=wake_late, perf_counter=lambda: now[-1]))
    sleeper = SleepWork(Costs(forward=2.0), 0, 1.0, {Action(0, Kind.F, 3): 0.75})
    for number in range(4):
        sleeper.perform(Action(0, Kind.F, number), NOTHING)
    assert asked == [2.0, 1.5, 1.5, 1.0] and now[-1] == (3 + 0.75) * 2.0 + 0.5


def test_a_packet_is_held_on_its_way_to_another_rank_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a V the middle stages are on one rank."""
    asked: list[float] = []
    monkeypatch.setattr(emulation, "time", SimpleNamespace(sleep=asked.append, perf_counter=lambda: 0.0))
    lane = SlowTransport({0: 0, 1: 1, 2: 1, 3: 0}, 0.5, {}, Packets({}), HostStream(torch.device("cpu")))
    for stage in range(3):
        lane.give(Action(stage, Kind.F, 0), NOTHING)
        lane.take(Action(stage + 1, Kind.F, 0))
    assert asked == [0.5, 0.5]


@pytest.mark.parametrize(
    ("schedule", "given", "sentence"),
    [
        (Schedule.of([["0B0", "0F0"]]), {}, "the schedule deadlocks"),
        (gpipe(2, 2), {"costs": Costs((1.0, 1.0, 1.0))}, "costs are given for 3 stages but the schedule has 2"),
        (gpipe(2, 2), {"unit_s": 0.0}, "unit_s is 0.0; give the seconds of sleep for one unit of cost"),
        (gpipe(2, 2), {"unit_s": float("inf")}, "unit_s is inf"),
    ],
)
def test_what_cannot_run_is_refused(schedule: Schedule, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        run_emulated(schedule, **given)


def test_it_leaves_no_thread_behind(threads_left: Callable[[], set[threading.Thread]]) -> None:
    run_emulated(gpipe(3, 2), unit_s=1e-4)
    assert not threads_left()


def test_the_widget_runs_what_it_shows_with_its_costs_on_its_axis() -> None:
    editor = ScheduleEditor(one_f_one_b(2, 4), UNEQUAL, run=partial(run_emulated, unit_s=QUICK_S))
    timeline = editor.run_it()
    assert_ran(editor.schedule, UNEQUAL, timeline)
    spans = {f"{span.action.kind}{span.action.microbatch}": span.start for span in timeline.of_rank(1)}
    assert {block["text"]: block["start"] for block in editor.view["rows"][1]["measured"]} == spans
    assert editor.view["measured"].startswith("Measured, engine emulated (sleep), in the unit of the costs: bubble")
