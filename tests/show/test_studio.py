"""The studio's numbers, bytes and words, without a browser."""

import io
import itertools
import re
import sys

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest

from pllab import show
from pllab.schedule import Action, Kind, Schedule, check, one_f_one_b
from pllab.show.studio import runs
from pllab.show.studio.runs import KINDS, Shown
from pllab.show.studio.settings import FAMILIES, FamilyChoice
from pllab.show.theme import LIGHT
from pllab.simulate import Costs, action_times, simulate
from pllab.timeline import Span, Timeline
from tests.show.recorded import emulate, recorded
from tests.simulate.legal import period


def unpack(block):
    """The actions in a block of bytes: a list of (rank, Action, start, end)."""
    rows = np.frombuffer(block, "<f4").reshape(6, -1).T.tolist()
    return [
        (int(rank), Action(int(stage), Kind(KINDS[int(kind)]), int(microbatch)), start, end)
        for rank, stage, kind, microbatch, start, end in rows
    ]


def runs_of(studio):
    """What the browser shows of each run."""
    return [one for one in studio.view["runs"] if one]


@pytest.mark.parametrize("family", ["GPipe", "1F1B"])
def test_both_bubble_numbers_follow_the_sliders_as_the_formulas_say(family):
    studio = show.BubbleStudio(family)
    for p, m in [(1, 1), (2, 1), (4, 8), (7, 3), (16, 64)]:
        studio.num_ranks, studio.num_microbatches = p, m
        step = studio.view["runs"][0]["step"]
        assert step["bubble_fraction"] == pytest.approx((p - 1) / (m + p - 1))
        assert step["bubble_overhead"] == pytest.approx((p - 1) / m)
        assert step["length_s"] == pytest.approx(3 * (m + p - 1))
    assert studio.view["runs"][0]["title"] == f"{family}, 16 ranks, 64 micro-batches"


def test_the_browser_gets_every_family_as_it_is_simulated():
    for name, (p, m) in itertools.product(FAMILIES, [(1, 1), (4, 8), (4, 2)]):
        case = f"{name}, {p} ranks, {m} micro-batches"
        studio = show.BubbleStudio(name, p, m, Costs(1.0, 0.9, 0.4, p2p=0.1))
        check(studio.schedule)
        timeline = simulate(studio.schedule, studio.costs)
        sent = unpack(studio.view["runs"][0]["actions"])
        assert {(rank, action) for rank, action, _, _ in sent} == {(s.rank, s.action) for s in timeline.spans}, case
        times = {span.action: (span.start, span.end) for span in timeline.spans}
        assert all(one[2:] == pytest.approx(times[one[1]], rel=1e-5) for one in sent), case
        assert sent == sorted(sent, key=lambda one: (one[0], one[2])), case


def test_the_numbers_of_a_prediction_are_those_of_its_spans():
    for name in FAMILIES:
        studio = show.BubbleStudio(name, 4, 6, Costs(1.0, 0.9, 0.4, p2p=0.1))
        timeline = simulate(studio.schedule, studio.costs)
        predicted = Shown(name, studio.schedule, studio.costs)
        assert (predicted.columns == Shown(name, studio.schedule, studio.costs, timeline).columns).all(), name
        for run in (predicted, Shown(name, studio.schedule, studio.costs, recorded(timeline, slower=1.1))):
            measured = run.timeline
            step = (measured.makespan, measured.bubble_fraction, measured.bubble_overhead)
            assert (run.step.length_s, run.step.bubble_fraction, run.step.bubble_overhead) == pytest.approx(step), name
            steady = (period(measured), 1 - measured.busy / (4 * period(measured)))
            assert (run.steady.length_s, run.steady.bubble_fraction) == pytest.approx(steady), name
            assert sum(run.step.phases) == pytest.approx(run.step.bubble_fraction), name
            assert sum(run.steady.phases) == pytest.approx(run.steady.bubble_fraction, abs=1e-12), name


def test_messages_leave_a_rank_idle_in_both_measures():
    spans = [
        Span(0, Action(0, Kind.F, 0), 0, 2),
        Span(0, Action(0, Kind("C"), 0), 1, 5),
        Span(0, Action(0, Kind.B, 0), 6, 8),
    ]
    run = Shown("x", Schedule.of([["0F0", "0B0"]]), Costs(), Timeline.of(spans, "real"))
    assert run.step.bubble_fraction == run.steady.bubble_fraction == pytest.approx(4 / 8)
    assert (run.step.phases, run.step.marks) == ((0.5, 0, 0), (6, 6))


def test_the_phases_of_1f1b_are_those_of_its_rows():
    """Rank r turns at 10 - 2r s after 4 - r forwards; rank 0 drains from 22 s on, and 36 of 132 s are idle."""
    run = Shown("1F1B", one_f_one_b(4, 8), Costs())
    warm_up = sum((10 - 2 * rank) - (4 - rank) for rank in range(4))
    assert run.step.marks == pytest.approx((10, 22))
    assert run.step.phases == pytest.approx((warm_up / 132, 0, (36 - warm_up) / 132))


def test_two_traits_that_change_together_are_one_simulation(monkeypatch):
    studio = show.BubbleStudio()
    counted = []
    monkeypatch.setattr(runs, "action_times", lambda *given: counted.append(given) or action_times(*given))
    with studio.hold_trait_notifications():
        studio.num_ranks, studio.num_microbatches, studio.stamp = 8, 16, 1234.5
    assert len(counted) == 1
    title = studio.view["runs"][0]["title"]
    assert (title, studio.view["stamp"]) == ("1F1B, 8 ranks, 16 micro-batches", 1234.5)
    studio.projector, studio.steady, studio.stamp = False, True, 12.5
    assert len(counted) == 1 and studio.view["stamp"] == 12.5, "nothing to draw, and the browser waits for an answer"


def test_a_measured_run_starts_at_zero_and_goes_when_the_schedule_does():
    plain = show.BubbleStudio("1F1B", 4, 8)
    studio = show.BubbleStudio("1F1B", 4, 8, measured=recorded(plain.timeline, slower=1.1))
    sent = unpack(studio.view["runs"][2]["actions"])
    assert (min(one[2] for one in sent), max(one[3] for one in sent)) == pytest.approx((0.0, 33 * 1.1))
    assert [run and run["engine"] for run in studio.view["runs"]] == ["simulated", None, "real"]
    studio.forward = 2.0
    assert studio.view["runs"][2], "real stages cost what they cost"
    studio.num_microbatches = 9
    assert len(runs_of(studio)) == 1
    studio.num_microbatches = 8
    assert studio.view["runs"][2]


def test_the_run_button_runs_the_schedule_on_screen():
    asked = []
    studio = show.BubbleStudio(
        "GPipe", 4, 8, run=lambda schedule, costs: asked.append(schedule) or emulate(schedule, costs)
    )
    studio.order = {"what": "run", "number": "1"}
    assert asked == [studio.schedule]
    assert [one["engine"] for one in runs_of(studio)] == ["simulated", "emulated (sleep)"]
    assert not studio.running
    studio.forward = 3.0
    assert not studio.view["runs"][2], "emulated stages slept other costs"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"family": "2F2B"}, "there is no family '2F2B'; choose one of GPipe, 1F1B"),
        ({"compare": "2F2B"}, "there is no family '2F2B'"),
        ({"num_microbatches": 0}, "num_microbatches is 0; give a whole number"),
        ({"costs": Costs(forward=(1.0, 2.0))}, "2 stages"),
    ],
)
def test_what_does_not_exist_is_refused(given, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        show.BubbleStudio(**given)
    studio = show.BubbleStudio()
    for trait in given.keys() & set(studio.options["inputs"]):
        picture = studio.view["runs"]
        setattr(studio, trait, given[trait])
        assert sentence in studio.view["problem"] and studio.view["runs"] == picture


def test_a_run_sets_a_refused_control_back():
    """It is of the setting on screen, so the sentence of the refusal goes with the refused one."""
    studio = show.BubbleStudio(Schedule(one_f_one_b(3, 4).rows, "mine"), run=simulate)
    studio.family, studio.num_ranks = "1F1B", 4
    studio.compare = "mine"
    assert "mine is for 3 ranks" in studio.view["problem"]
    studio.order = {"what": "run", "number": "1"}
    assert (studio.view["problem"], studio.compare, studio.num_ranks) == ("", "", 4)


def test_one_micro_batch_is_told_in_the_singular():
    [axes] = show.BubbleStudio("GPipe", 1, 1).static().canvas.axes
    assert axes.get_title(loc="left").endswith("holds 1 micro-batch")


def test_a_family_that_is_no_text_is_refused_by_its_text():
    with pytest.raises(ValueError, match=re.escape("there is no family '[1]'; choose one of GPipe, 1F1B")):
        show.BubbleStudio([1])


def test_the_static_twin_says_and_draws_the_same():
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe")
    data, _ = studio._repr_mimebundle_()  # as every widget has it
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == studio.model_id
    assert data["text/html"].startswith("<figure")
    alt = data["text/plain"]
    assert alt.startswith("1F1B, 4 ranks, 8 micro-batches, simulated: makespan 33 s, bubble fraction 27.3 %")
    assert "bubble overhead 37.5 %, at most 4 micro-batches held by a rank; GPipe, 4 ranks" in alt
    studio.family, studio.steady = "ZB-H2", True
    twin = studio.static()
    assert twin.alt.startswith("ZB-H2, 4 ranks, 8 micro-batches, simulated: a step every 24 s, bubble fraction 0 %")
    assert (
        twin.canvas.axes[0].get_title(loc="left").startswith("ZB-H2, simulated: bubble fraction 0 %, a step every 24 s")
    )


def count_pixels(png, colour):
    """Pixels of exactly this colour, above the legend."""
    picture = matplotlib.image.imread(io.BytesIO(png))[:-120, :, :3]
    return np.isclose(picture, matplotlib.colors.to_rgb(colour), atol=0.003).all(axis=2).sum()


def test_idle_time_has_the_strongest_ink_of_the_picture_and_as_much_of_it_as_the_bubble():
    """1F1B idles 36 of 33 s times four ranks and ZB-H1 12 of 27 s: so much of the same width is drawn in idle ink."""
    idle = [count_pixels(show.BubbleStudio(name, 4, 8).static().png, LIGHT.idle) for name in ("1F1B", "ZB-H1")]
    assert idle[0] / idle[1] == pytest.approx((36 / 33) / (12 / 27), rel=0.03)


def test_a_family_that_does_not_exist_at_a_size_is_named_with_the_reason():
    """Of one schedule only at its own size; of a rule that refuses odd numbers at even ones alone."""

    def even(num_ranks, num_microbatches):
        if num_microbatches % 2:
            raise ValueError(f"{num_microbatches} micro-batches cannot be paired; give an even number")
        return one_f_one_b(num_ranks, num_microbatches)

    studio = show.BubbleStudio(Schedule(one_f_one_b(3, 4).rows, "mine"))
    studio._families["pairs"] = FamilyChoice("pairs", even)
    assert studio.view["missing"] == {}
    studio.family = "GPipe"
    studio.num_microbatches = 5
    assert studio.view["missing"] == {
        "mine": "mine is for 3 ranks, 4 micro-batches and not for 3 ranks, 5 micro-batches; "
        "choose another family to change them",
        "pairs": "5 micro-batches cannot be paired; give an even number",
    }
    studio.num_ranks, studio.num_microbatches = 64, 511
    assert "pairs" not in studio.view["missing"], "large schedules are not all made for this"
    studio.family = "pairs"
    assert studio.view["problem"] == "511 micro-batches cannot be paired; give an even number"


def test_without_matplotlib_the_widget_is_shown_and_its_twin_alone_is_missing(monkeypatch):
    studio = show.BubbleStudio("1F1B", 2, 2)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    data, _ = studio._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == studio.model_id
    assert "text/html" not in data
    with pytest.raises(ModuleNotFoundError):
        studio.static()
