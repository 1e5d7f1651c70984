"""The studio's numbers, bytes and words, without a browser."""

import io
import itertools
import json
import re
import struct

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest
from traitlets import TraitError

from pllab import show
from pllab.schedule import Action, Kind, Schedule, ScheduleError, check, peak_in_flight
from pllab.show.studio import runs
from pllab.show.studio.runs import KINDS, Screen, Shown
from pllab.show.studio.settings import FAMILIES
from pllab.show.theme import paint_of
from pllab.simulate import Costs, action_times, critical_path, simulate
from pllab.timeline import Span, Timeline


def unpack(block):
    """The actions in a block of bytes, read the slow way: a list of (rank, Action, start, end)."""
    count = len(block) // 24
    numbers = struct.unpack(f"<{6 * count}f", block)
    columns = [numbers[place * count : (place + 1) * count] for place in range(6)]
    return [
        (int(rank), Action(int(stage), Kind(KINDS[int(kind)]), int(microbatch)), start, end)
        for rank, stage, kind, microbatch, start, end in zip(*columns, strict=True)
    ]


def stretched(timeline, engine="real"):
    """The same run as another engine might have measured it: later, and a tenth slower."""
    spans = (Span(one.rank, one.action, 7 + one.start * 1.1, 7 + one.end * 1.1) for one in timeline.spans)
    return Timeline.of(spans, engine, timeline.num_ranks)


@pytest.mark.parametrize("family", ["GPipe", "1F1B"])
def test_both_bubble_numbers_follow_the_sliders_as_the_formulas_say(family):
    studio = show.BubbleStudio(family)
    for p, m in [(1, 1), (2, 1), (4, 8), (7, 3), (16, 64)]:
        studio.num_ranks, studio.num_microbatches = p, m
        run = studio.state()["runs"][0]
        assert run["bubble_fraction"] == pytest.approx((p - 1) / (m + p - 1))
        assert run["bubble_overhead"] == pytest.approx((p - 1) / m)
        assert run["makespan_s"] == pytest.approx(3 * (m + p - 1))
    line = studio.view["figures"][0]
    assert line[:4] == [family, "simulated", "19.0 %", "23.4 %"]
    assert [text for text in studio.view["headings"] if "Bubble" in text] == [
        "Bubble fraction, idle / all",
        "Bubble overhead, idle / busy",
    ]


def test_the_browser_gets_every_family_as_it_is_simulated():
    for name, (p, m) in itertools.product(FAMILIES, [(1, 1), (4, 8), (4, 2)]):
        case = f"{name}, {p} ranks, {m} micro-batches"
        studio = show.BubbleStudio(name, p, m, Costs(1.0, 0.9, 0.4, p2p=0.1))
        check(studio.schedule)
        timeline = simulate(studio.schedule, studio.costs)
        sent = unpack(studio.actions)
        assert {(rank, action) for rank, action, _, _ in sent} == {(s.rank, s.action) for s in timeline.spans}, case
        times = {span.action: (span.start, span.end) for span in timeline.spans}
        assert all(one[2:] == pytest.approx(times[one[1]], rel=1e-5) for one in sent), case
        assert sent == sorted(sent, key=lambda one: (one[0], one[2])), case
        assert studio.view["runs"][0]["most"] == pytest.approx(max(studio.state()["runs"][0]["most_held"])), case


def test_the_numbers_of_a_prediction_are_those_of_its_spans():
    for name in FAMILIES:
        studio = show.BubbleStudio(name, 4, 6, Costs(1.0, 0.9, 0.4, p2p=0.1), memory_limit=4)
        timeline = simulate(studio.schedule, studio.costs)
        predicted = Shown(name, studio.schedule, studio.costs)
        assert (predicted.columns == Shown(name, studio.schedule, timeline).columns).all(), name
        assert predicted.bubble == pytest.approx((timeline.bubble_fraction, timeline.bubble_overhead)), name
        assert predicted.makespan == timeline.makespan, name


def test_no_actions_are_no_numbers():
    empty = Shown("x", Schedule(((), ())), Timeline.of([], "real", 2))
    assert empty.columns.shape == (6, 0) and Screen(empty).to_bytes() == [b""] * 4


def test_a_rank_does_the_same_work_and_counts_the_same_memory_however_it_is_cut():
    for name, family in FAMILIES.items():
        studio = show.BubbleStudio(name, 4, 8)
        assert studio.timeline.busy == pytest.approx(4 * 8 * 3.0), name
        peaks = [peak / family.stages_per_rank for peak in peak_in_flight(studio.schedule)]
        assert studio.state()["runs"][0]["most_held"] == pytest.approx(peaks), name


def test_two_traits_that_change_together_are_one_simulation(monkeypatch):
    studio = show.BubbleStudio()
    counted = []
    monkeypatch.setattr(runs, "action_times", lambda *given: counted.append(given) or action_times(*given))
    with studio.hold_trait_notifications():
        studio.num_ranks, studio.num_microbatches, studio.stamp = 8, 16, 1234.5
    assert len(counted) == 1
    assert (studio.view["title"], studio.view["stamp"]) == ("1F1B, 8 ranks, 16 micro-batches", 1234.5)
    studio.projector = studio.memory = False
    assert len(counted) == 1


def test_costs_of_single_stages_are_kept_and_can_be_changed():
    costs = Costs(forward=(1.0, 2.0, 1.0, 1.0), backward_input=0.5, backward_weight=0.5, p2p=0.25)
    studio = show.BubbleStudio("1F1B", 4, 8, costs)
    assert [studio.costs.duration(stage, Kind.F) for stage in range(4)] == [1.0, 2.0, 1.0, 1.0]
    assert studio.costs.message(0, 1) == 0.25
    studio.stage_costs = {"3": (None, 9.0, None)}
    assert [studio.costs.duration(stage, Kind.I) for stage in range(4)] == [0.5, 0.5, 0.5, 9.0]
    assert [studio.costs.duration(stage, Kind.F) for stage in range(4)] == [1.25] * 4
    studio.num_ranks = 2
    assert [studio.costs.duration(stage, Kind.I) for stage in range(2)] == [0.5, 0.5]


def test_the_memory_limit_is_a_sentence_and_the_picture_stays():
    studio = show.BubbleStudio("1F1B", 4, 8, memory_limit=3)
    assert studio.view["problem"] == "1F1B: rank 0 holds 4 micro-batches, more than the limit of 3"
    with pytest.raises(ScheduleError):
        check(studio.schedule, memory_limit=3)
    studio.compare = "GPipe"
    assert "GPipe: rank 0 holds 8 micro-batches, more than the limit of 3 (and 3 more ranks" in studio.view["problem"]
    studio.memory_limit = 8
    assert studio.view["problem"] == ""


def test_the_critical_path_is_sent_when_it_is_asked_for():
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe")
    assert studio.path == b""
    studio.critical = True
    places = struct.unpack(f"<{len(studio.path) // 4}i", studio.path)
    sent = unpack(studio.actions)
    expected = {span.action for span in critical_path(studio.schedule, studio.timeline)}
    assert {sent[place][1] for place in places} == expected
    assert sum(sent[place][3] - sent[place][2] for place in places) == pytest.approx(studio.timeline.makespan)


def test_a_second_family_is_on_the_same_axis():
    studio = show.BubbleStudio("GPipe", 4, 8, compare="1F1B")
    assert [one["name"] for one in studio.state()["runs"]] == ["GPipe", "1F1B"]
    assert [max(one["most_held"]) for one in studio.state()["runs"]] == [8, 4]
    assert len(unpack(studio.compared)) == 64
    studio.compare = ""
    assert studio.compared == b""


def test_a_measured_run_starts_at_zero_and_goes_when_the_schedule_does():
    plain = show.BubbleStudio("1F1B", 4, 8)
    studio = show.BubbleStudio("1F1B", 4, 8, measured=stretched(plain.timeline))
    sent = unpack(studio.measured)
    assert (min(one[2] for one in sent), max(one[3] for one in sent)) == pytest.approx((0.0, 33 * 1.1))
    assert studio.view["note"] == "engine: simulated and real"
    studio.forward = 2.0
    assert studio.measured, "real stages cost what they cost"
    studio.num_microbatches = 9
    assert (studio.measured, len(studio.state()["runs"])) == (b"", 1)
    studio.num_microbatches = 8
    assert studio.measured


def test_the_run_button_runs_the_schedule_on_screen_and_tells_a_failure():
    asked = []

    def run(schedule):
        asked.append(schedule)
        if schedule.num_ranks == 2:
            raise RuntimeError("rank 1 is gone")
        return stretched(simulate(schedule), "emulated")

    studio = show.BubbleStudio("GPipe", 4, 8, run=run)
    studio.order = {"what": "run", "number": "1"}
    assert asked == [studio.schedule]
    assert [one["engine"] for one in studio.state()["runs"]] == ["simulated", "emulated"]
    assert not studio.running
    studio.forward = 3.0
    assert not studio.measured, "emulated stages slept other costs"
    studio.num_ranks = 2
    studio.order = {"what": "run", "number": "2"}
    assert studio.view["problem"] == "the run failed: RuntimeError: rank 1 is gone"
    assert not studio.running


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"family": "2F2B"}, "there is no family '2F2B'; choose one of GPipe, 1F1B"),
        ({"compare": "2F2B"}, "there is no family '2F2B'"),
        ({"num_ranks": 0}, "num_ranks is 0; choose 1 to 32"),
        ({"num_microbatches": 257}, "num_microbatches is 257; choose 1 to 256"),
        ({"costs": Costs(forward=(1.0, 2.0))}, "2 stages"),
    ],
)
def test_what_does_not_exist_is_refused(given, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        show.BubbleStudio(**given)
    studio = show.BubbleStudio()
    for trait, value in given.items():
        if trait != "costs":
            with pytest.raises(TraitError, match=re.escape(sentence)):
                setattr(studio, trait, value)


def test_the_static_twin_says_and_draws_the_same():
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe", memory_limit=4)
    alt = studio.static().alt
    assert alt.startswith("1F1B, simulated, 4 ranks, 8 micro-batches: makespan 33 s, bubble fraction 27.3 %")
    assert "bubble overhead 37.5 %, at most 4 micro-batches held by a rank; GPipe, simulated" in alt
    data, _ = studio._repr_mimebundle_()
    assert data["text/plain"] == alt
    assert data["text/html"].startswith("<figure")


def test_a_picture_of_the_critical_path_keeps_the_colour_of_its_actions_alone():
    studio = show.BubbleStudio("1F1B", 4, 8, Costs(p2p=0.3))
    whole = count_pixels(studio.export_png(), paint_of("F").fill)
    studio.critical = True
    path = [span.action.kind for span in critical_path(studio.schedule, studio.timeline)]
    left = count_pixels(studio.export_png(), paint_of("F").fill)
    assert left / whole == pytest.approx(path.count(Kind.F) / (4 * 8), rel=0.1)
    assert studio.static().alt.endswith("pale: not on the critical path")


def count_pixels(png, colour):
    """Pixels of exactly this colour, above the legend."""
    picture = matplotlib.image.imread(io.BytesIO(png))[:-120, :, :3]
    return np.isclose(picture, matplotlib.colors.to_rgb(colour), atol=0.003).all(axis=2).sum()


def test_what_is_sent_is_plain():
    studio = show.BubbleStudio("1F1B", 16, 64)
    json.dumps({name: getattr(studio, name) for name in ("view", "options", "stage_costs", "order", "delivery")})
    assert len(studio.actions) == 6 * 4 * 16 * 64 * 2, "six numbers an action"


def inputs_of(studio, **changes):
    return json.dumps({name: getattr(studio, name) for name in studio.options["inputs"]} | changes)


@pytest.mark.parametrize(
    "changes",
    [{"num_ranks": 5}, {"forward": 0.25, "critical": True}, {"compare": "ZB-H1", "stage_costs": {"1": [3, None, 2]}}],
)
def test_a_picture_made_ahead_is_the_one_that_comes_when_asked_for(monkeypatch, changes):
    studio, other = show.BubbleStudio("1F1B", 4, 8), show.BubbleStudio("1F1B", 4, 8)
    sent, before = [], studio.state()
    monkeypatch.setattr(studio, "send", lambda content, buffers=(): sent.append((content, buffers)))
    studio._handle_custom_msg({"ahead": inputs_of(studio, **changes)}, [])
    assert studio.state() == before
    with other.hold_trait_notifications():
        for name, value in changes.items():
            setattr(other, name, value)
    [(answer, blocks)] = sent
    assert answer["ahead"] == inputs_of(studio, **changes)
    assert answer["view"].items() <= other.view.items()
    assert blocks == [other.actions, other.compared, other.measured, other.path]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_ranks": 99},
        {"family": "2F2B"},
        {"family": "zero bubble search", "memory_limit": 0.1},
        {"compare": "zero bubble search"},
    ],
)
def test_a_picture_that_cannot_be_is_answered_without_one(monkeypatch, changes):
    studio = show.BubbleStudio("1F1B", 4, 8)
    sent = []
    monkeypatch.setattr(studio, "send", lambda content, buffers=(): sent.append((content, buffers)))
    studio._handle_custom_msg({"ahead": inputs_of(studio, **changes)}, [])
    assert [(content["view"], buffers) for content, buffers in sent] == [(None, ())]


def test_to_and_fro_is_answered_with_the_stamp_of_the_last_input():
    studio = show.BubbleStudio("1F1B", 4, 8)
    with studio.hold_trait_notifications():
        studio.num_ranks, studio.stamp = 4, 12.5
    assert studio.view["stamp"] == 12.5
