"""What is handed to the studio: costs, measured runs, which must be of its schedule, and schedules of one's own."""

from itertools import permutations, product
from random import Random

import pytest

from pllab import show
from pllab.schedule import Action, Kind, Schedule, ScheduleError, gpipe, interleaved, one_f_one_b, peak_in_flight, zb_h1
from pllab.show.studio.settings import FAMILIES
from pllab.show.studio.stage_costs import Profile
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline
from tests.show.recorded import recorded

KINDS = (Kind.F, Kind.I, Kind.W, Kind.B)


def costs_at_random(num_stages, seed=0):
    """Every field of its own on every stage."""
    random = Random(seed)
    one = lambda low, high: [random.uniform(low, high) for _ in range(num_stages)]  # noqa: E731
    work = one(0.5, 2.0), one(0.5, 2.0), one(0.5, 2.0)
    return Costs(*work, p2p=0.05, backward=one(0.8, 3.0), overlap=0.5)


def totals(costs, num_stages):
    """Seconds of all stages together, for each kind."""
    return [sum(costs.duration(stage, kind) for stage in range(num_stages)) for kind in KINDS]


PARTLY_ONE_NUMBER = [
    Costs(1.0, 0.7, 0.6, p2p=0.1, backward=0.9),
    Costs(backward=(1.0, 2.0, 1.5, 1.1)),
    Costs(backward_input=0.0, backward_weight=0.0, backward=2.0),
]


def test_what_is_shown_is_what_the_given_costs_simulate_to():
    cases = [(name, 4, given) for name, given in product(("1F1B", "ZB-H1"), PARTLY_ONE_NUMBER)]
    for name, p in product(FAMILIES, (1, 3, 4)):
        cases.append((name, p, costs_at_random(p * FAMILIES[name].stages_per_rank, seed=p)))
    for name, p, given in cases:
        studio = show.BubbleStudio(name, p, 6, given)
        assert studio.timeline == simulate(studio.schedule, given), f"{name} on {p} ranks with {given}"
        assert given in PARTLY_ONE_NUMBER or studio.costs == given, f"{name} on {p} ranks"


def test_two_families_do_the_same_work_whichever_the_costs_were_given_for():
    p = 3
    stages = {name: p * family.stages_per_rank for name, family in FAMILIES.items()}
    for first, second in permutations(FAMILIES, 2):
        pair = f"from {first} to {second}"
        given = costs_at_random(stages[first])
        wanted = totals(given, stages[first])
        studio = show.BubbleStudio(first, p, 4, given)
        assert totals(studio._setting.costs_of(FAMILIES[second]), stages[second]) == pytest.approx(wanted), pair
        studio.family = second
        assert totals(studio.costs, stages[second]) == pytest.approx(wanted), pair
        assert studio.costs.overlap == given.overlap, pair
        shown = [studio.stage_costs[str(stage)] for stage in range(stages[second])]
        assert [sum(values) for values in zip(*shown, strict=True)] == pytest.approx(wanted[:3]), pair
        studio.family = first
        assert studio.costs == given, f"{pair} and back"


def test_the_compared_family_has_its_slow_layers_where_they_are():
    slow = Costs(*[(1.0, 1.0, 2.0, 1.0)] * 3)
    studio = show.BubbleStudio("1F1B", 4, 8, slow, compare="interleaved 1F1B")
    halves = Costs(*[(0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 0.5, 0.5)] * 3)
    makespans = [run["step"]["length_s"] for run in studio.view["runs"][:2]]
    assert makespans == [simulate(one_f_one_b(4, 8), slow).makespan, simulate(interleaved(4, 8), halves).makespan]
    assert makespans == [55, 39]
    studio.family = "interleaved 1F1B"
    assert (totals(studio.costs, 8), studio.timeline.busy) == (totals(halves, 8), 120)
    assert studio.stage_costs["5"] == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1), (1, 3), (3, 2), (2, 3), (1.5, 1), (1, 1.5)])
def test_a_stage_costs_what_its_layers_cost(old, new):
    """Six thin layers a rank, on two ranks: a stage is a sum of layers, whichever way they are dealt."""
    random = Random(3)
    before, after = round(12 / 2 / old), round(12 / 2 / new)
    values = [random.random() for _ in range(round(2 * old))]
    layers = [value / before for value in values for _ in range(before)]
    cells = {str(stage): (value, None, None) for stage, value in enumerate(values)}
    found = Profile(cells, old).cut(new, (1.0, 1.0, 1.0))
    expected = [sum(layers[start : start + after]) for start in range(0, 12, after)]
    assert [values[0] for values in found.cells.values()] == pytest.approx(expected)
    assert [values[1] for values in found.cells.values()] == pytest.approx([1 / new] * len(expected))


def test_the_dials_show_what_a_rank_costs_on_average():
    studio = show.BubbleStudio("ZB-V", 2, 4, Costs((1.0, 2.0, 3.0, 4.0), 0.5, (0.0, 0.0, 0.0, 1.0)))
    assert (studio.forward, studio.backward_input, studio.backward_weight) == (5.0, 1.0, 0.5)


def test_what_no_stage_was_given_still_follows_the_dials():
    studio = show.BubbleStudio("1F1B", 4, 8)
    studio.stage_costs = {"3": (None, 9.0, None)}
    studio.family = "ZB-V"
    assert [studio.stage_costs[stage] for stage in ("0", "7")] == [(0.5, 0.5, 0.5), (0.5, 4.5, 0.5)]
    studio.backward_input = 3.0
    assert [studio.costs.duration(stage, Kind.I) for stage in range(8)] == [1.5] * 6 + [4.5] * 2
    studio.family = "GPipe"
    assert studio.stage_costs == {"3": (None, 9.0, None)}


def test_ranks_taken_away_come_back_with_their_costs_and_new_ones_cost_the_mean():
    given = costs_at_random(4)
    studio = show.BubbleStudio("1F1B", 4, 8, given)
    studio.num_ranks = 2
    assert totals(studio.costs, 2) == pytest.approx([sum(given.duration(s, kind) for s in range(2)) for kind in KINDS])
    studio.family, studio.num_ranks = "ZB-V", 4
    studio.family = "1F1B"
    assert studio.costs == given
    studio.num_ranks = 6
    assert totals(studio.costs, 6) == pytest.approx([1.5 * total for total in totals(given, 4)])


def test_a_whole_backward_stays_until_its_halves_are_moved():
    given = Costs(1.0, (1.0, 2.0), (1.0, 2.0), backward=(1.5, 3.8))
    studio = show.BubbleStudio("1F1B", 2, 4, given)
    measured = studio.stage_costs
    studio.stage_costs = measured | {"1": (1.0, 2.0, 6.0)}
    assert [studio.costs.duration(stage, Kind.B) for stage in (0, 1)] == [1.5, 8.0]
    studio.stage_costs = {}
    assert studio.costs.duration(0, Kind.B) == studio.costs.duration(1, Kind.B) == 3.0
    studio.stage_costs = measured
    assert studio.costs == Costs((1.0, 1.0), (1.0, 2.0), (1.0, 2.0), backward=(1.5, 3.8))


def test_another_family_is_one_answer_with_its_stage_costs():
    studio = show.BubbleStudio("1F1B", 4, 8, costs_at_random(4))
    before, seen = studio.view["number"], []
    studio.observe(lambda change: seen.append(change["new"]["runs"][0]["title"]), names="view")
    studio.family = "ZB-V"
    assert studio.view["number"] == before + 1
    assert (len(studio.stage_costs), seen) == (8, ["ZB-V, 4 ranks, 8 micro-batches"])


@pytest.mark.parametrize("stage_costs", [{"0": (1.0,)}, {"0": (-1.0, None, None)}])
def test_stage_costs_that_are_none_are_a_sentence_until_they_go(stage_costs):
    studio = show.BubbleStudio("1F1B", 4, 8)
    studio.stage_costs = stage_costs
    assert studio.view["problem"]
    studio.stage_costs = {}
    assert studio.view["problem"] == ""


def test_emulated_runs_stay_when_a_family_was_only_visited():
    costs = Costs((1.0, 1.2), (1.5, 1.5), (1.5, 1.5), backward=(2.2, 2.2), p2p=0.01)
    run = simulate(one_f_one_b(2, 8), costs)
    studio = show.BubbleStudio("1F1B", 2, 8, costs, measured=recorded(run, "emulated"))
    assert studio.timeline.makespan == pytest.approx(30.42) == run.makespan
    studio.family = "interleaved 1F1B"
    assert not studio.view["runs"][2]
    studio.family = "1F1B"
    assert studio.view["runs"][2]


# Measured runs and schedules of one's own


def swapped(span):
    """Rank 1 takes 1B0 for 1F1, and the other way round."""
    others = {"1B0": Action(1, Kind.F, 4), "1F4": Action(1, Kind.B, 0)}
    return span._replace(action=others.get(str(span.action), span.action))


OWN = simulate(one_f_one_b(4, 8))


@pytest.mark.parametrize(
    "measured",
    [
        recorded(simulate(one_f_one_b(2, 3))),
        recorded(simulate(gpipe(4, 8))),
        Timeline.of(map(swapped, OWN.spans), "real"),
        Timeline.of([span for span in OWN.spans if str(span.action) != "2B7"], "real"),
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
