"""What is handed to the studio: measured runs, which must be of its schedule, and schedules of one's own."""

import pytest

from pllab import show
from pllab.schedule import Action, Kind, Schedule, ScheduleError, gpipe, interleaved, one_f_one_b, peak_in_flight, zb_h1
from pllab.show.studio.settings import FAMILIES
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline


def real(timeline, change=lambda span: span):
    """The same spans as measured, some of them changed or left out."""
    spans = filter(None, map(change, timeline.spans))
    return Timeline.of(spans, "real", timeline.num_ranks)


def swapped(span):
    """Rank 1 takes 1B0 for 1F1, and the other way round."""
    others = {"1B0": Action(1, Kind.F, 4), "1F4": Action(1, Kind.B, 0)}
    return span._replace(action=others.get(str(span.action), span.action))


OWN = simulate(one_f_one_b(4, 8))


@pytest.mark.parametrize(
    "measured",
    [
        real(simulate(one_f_one_b(2, 3))),
        real(simulate(gpipe(4, 8))),
        real(OWN, swapped),
        real(OWN, lambda span: None if str(span.action) == "2B7" else span),
        Timeline.of([*OWN.spans, Span(4, Action(0, Kind.F, 0), 0, 1)], "real"),
    ],
)
def test_a_run_of_another_schedule_is_refused(measured):
    with pytest.raises(ValueError, match="the measured run is not of the schedule: rank"):
        show.BubbleStudio("1F1B", 4, 8, measured=measured)


def test_messages_and_optimizer_steps_are_no_actions_of_a_schedule():
    more = [Span(0, Action(0, Kind(kind), 0), 0.5, 0.6) for kind in "CU"]
    studio = show.BubbleStudio("1F1B", 4, 8, measured=Timeline.of([*OWN.spans, *more], "real"))
    assert len(studio.view["runs"][2]["actions"]) == 24 * 66


def test_a_schedule_is_a_family_of_its_own_with_three_stages_a_rank():
    order = interleaved(4, 8, stages_per_rank=3)
    studio = show.BubbleStudio(order, costs=Costs(forward=2.0), compare="1F1B")
    assert studio.schedule is order
    assert studio.options["families"][1:] == show.BubbleStudio().options["families"]
    assert studio.options["families"][0]["name"] == studio.family == studio.view["runs"][0]["name"]
    assert studio.costs.duration(11, Kind.F) == pytest.approx(2 / 3)
    assert studio.view["runs"][0]["most_held"] == pytest.approx([peak / 3 for peak in peak_in_flight(order)])
    assert studio.timeline.busy == pytest.approx(4 * 8 * 4.0)
    given = Costs(forward=[0.1 * stage for stage in range(1, 13)])
    assert show.BubbleStudio(order, costs=given).timeline == simulate(order, given)


def test_ranks_may_have_different_numbers_of_stages():
    order = Schedule.of([["0F0", "1F0", "1B0", "0B0"], ["2F0", "2B0"]], "mine")
    studio = show.BubbleStudio(order, costs=Costs((1.0, 2.0, 3.0)), compare="GPipe")
    assert studio.timeline == simulate(order, Costs((1.0, 2.0, 3.0)))
    compared = studio._setting.costs_of(FAMILIES["GPipe"])
    assert [compared.duration(stage, Kind.F) for stage in (0, 1)] == pytest.approx([2.0, 4.0])
    assert studio.view["runs"][0]["title"] == "mine, 2 ranks, 1 micro-batch"


@pytest.mark.parametrize(
    ("name", "shown"), [("mine", "mine"), ("1F1B", "1F1B (given)"), ("", "schedule"), ("ZB-V (given)", "ZB-V (given)")]
)
def test_the_name_in_the_menu_is_nobody_elses(name, shown):
    studio = show.BubbleStudio(Schedule(one_f_one_b(2, 2).rows, name))
    assert studio.family == shown
    assert [one["name"] for one in studio.options["families"]].count(shown) == 1


def test_its_sizes_cannot_be_moved_until_another_family_is_chosen():
    order = Schedule(zb_h1(4, 8).rows, "mine")
    studio = show.BubbleStudio(order)
    picture = studio.view["runs"]
    studio.num_ranks = 5
    assert studio.view["problem"] == (
        "mine is for 4 ranks, 8 micro-batches and not for 5 ranks, 8 micro-batches; "
        "choose another family to change them"
    )
    assert (studio.schedule, studio.view["runs"]) == (order, picture)
    assert studio.timeline == simulate(studio.schedule, studio.costs)
    studio.family = "GPipe"
    assert (studio.view["problem"], studio.schedule.num_ranks) == ("", 5)
    studio.num_microbatches = 3
    studio.compare = "mine"
    assert studio.view["problem"].startswith("mine is for 4 ranks")
    studio.compare = ""
    studio.family = "mine"
    assert (studio.num_ranks, studio.num_microbatches, studio.view["problem"]) == (4, 8, "")
    assert studio.schedule == order


def test_a_schedule_of_another_size_and_an_illegal_one_are_refused():
    with pytest.raises(ValueError, match="is for 2 ranks, 4 micro-batches and not for 3 ranks, 4 micro-batches"):
        show.BubbleStudio(one_f_one_b(2, 4), 3)
    with pytest.raises(ScheduleError, match="deadlock"):
        show.BubbleStudio(Schedule.of([["0B0", "0F0"]]))
    with pytest.raises(ScheduleError, match="the schedule is empty"):
        show.BubbleStudio(Schedule(()))
    with pytest.raises(ValueError, match="costs are given for 2 stages but the schedule has 6"):
        show.BubbleStudio(interleaved(2, 2, stages_per_rank=3), costs=Costs((1.0, 2.0)))
