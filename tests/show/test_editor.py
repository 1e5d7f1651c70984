"""The schedule editor without a browser: what is judged, said, scored and run, and the commands of the browser."""

import itertools
import json
import threading
import time
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.schedule import (
    Action,
    Held,
    Schedule,
    ScheduleError,
    check,
    gpipe,
    interleaved,
    needs,
    one_f_one_b,
    problems,
)
from pllab.show import BubbleStudio, ScheduleEditor
from pllab.show.editor.edits import move, split
from pllab.show.editor.judgement import BoardRules, Par, judge
from pllab.show.widget import takes_costs
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline

NUMBERS = itertools.count(1)


@pytest.fixture
def editor():
    return ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, par=9)


def ask(editor, verb, **details):
    """Send a command as the browser does, and wait for slow work."""
    editor.commands = [{"n": next(NUMBERS), "verb": verb, **details}]
    until = time.monotonic() + 20
    while editor.busy and time.monotonic() < until:
        time.sleep(0.005)
    assert not editor.busy


def emulate(schedule):
    """A run that takes 10 ms a unit and starts late."""
    spans = [
        Span(one.rank, one.action, 5 + one.start / 100, 5 + one.end / 100) for one in simulate(schedule, Costs()).spans
    ]
    return Timeline.of(spans, "emulated", schedule.num_ranks)


def test_the_first_order_is_judged_with_the_simulators_numbers(editor):
    timeline = simulate(one_f_one_b(2, 3), Costs())
    state = editor.state()
    assert state["is_legal"] and state["problems"] == []
    assert state["makespan"] == timeline.makespan == 12
    assert state["bubble_fraction"] == timeline.bubble_fraction
    assert state["peak_in_flight"] == [2, 1]
    assert state["score"] == "3 over par"
    assert editor.view["numbers"] == [
        "makespan 12",
        "bubble fraction, idle / all: 6/24 = 25.0 %",
        "bubble overhead, idle / busy: 6/18 = 33.3 %",
        "engine: simulated",
    ]
    starts = {block["id"]: block["start"] for row in editor.view["rows"] for block in row["blocks"]}
    assert starts == {str(span.action): span.start for span in timeline.spans}


def test_each_move_says_what_it_did_and_what_it_led_to(editor):
    editor.do("move", "1B1", to=5)
    assert simulate(editor.schedule, Costs()).makespan == 16
    assert editor.said == "1B1 moved to the end of rank 1: legal, makespan 16, bubble fraction 43.8 %."
    editor.do("move", "0F2", by=-1)
    assert editor.said == "0F2 moved before 0B0 on rank 0: illegal, 1 problem."
    assert "Rank 0 holds 3 micro-batches at 0F2, more than the limit of 2" in editor.view["verdict"][0]
    assert editor.view["rows"][0]["is_over"] and editor.view["rows"][0]["held"] == "holds 3 of 2: too many"
    assert editor.view["has_times"], "an order over the limit can still be simulated"
    assert editor.view["score"] == "", "and has no score, because par keeps to the limit"
    assert editor.schedule.name == "1F1B, edited"
    editor.do("move", "0F2", to=99)
    assert editor.said.startswith("0F2 moved to the end of rank 0")
    editor.do("move", "0F2", to=99)
    assert editor.said.startswith("0F2 stays where it is on rank 0")
    editor.do("move", "0F2", by=-1)
    assert editor.said.startswith("0F2 moved before 0B2 on rank 0: illegal")


def test_a_backward_before_its_forward_has_a_sentence_and_an_edge_and_no_times(editor):
    editor.do("move", "1B0", to=0)
    assert editor.view["edges"] == [["1F0", "1B0"]]
    assert editor.view["verdict"] == ["The schedule deadlocks: 1B0 waits for 1F0, which comes after it on rank 1."]
    assert not editor.view["has_times"] and editor.view["numbers"] == []
    assert editor.view["score"] == "" and editor.state()["makespan"] is None
    ends = [block["end"] for block in editor.view["rows"][1]["blocks"]]
    assert [block["start"] for block in editor.view["rows"][1]["blocks"]] == [0, *ends[:-1]]


def test_a_circle_over_two_ranks_is_drawn_from_the_need_to_the_one_that_waits():
    judged = judge(Schedule.of([["0F0", "0B0", "0F1", "0B1"], ["1F1", "1B1", "1F0", "1B0"]]), BoardRules())
    told = {f"{need}>{waiting}" for need, waiting in judged.edges}
    assert told == {"1B0>0B0", "0F1>1F1"}
    assert judged.timeline is None


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([["0F0", "0B0", "0F1", "0B1"], ["1F1", "1F0", "1B0", "1B1"]], {"0B0>0F1", "1F1>1B0"}),
        ([["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]], {"0B0>0F1", "1F1>1B0"}),
        ([["0F0", "0B0"], ["1B0", "1F0"]], set()),
        ([["0F0", "0B0"], ["1F0", "1B0"]], set()),
    ],
)
def test_a_circle_is_closed_by_what_stands_in_front_on_each_rank(rows, told):
    judged = judge(Schedule.of(rows), BoardRules())
    assert {f"{front}>{behind}" for front, behind in judged.circle} == told
    for front, behind in judged.circle:
        row = next(row for row in judged.schedule.rows if front in row)
        assert row.index(front) < row.index(behind)


@given(st.lists(st.tuples(st.integers(0, 23), st.integers(0, 9)), max_size=6))
def test_an_order_has_times_or_edges_and_each_edge_is_a_need_that_comes_too_late(moves):
    schedule = split(one_f_one_b(3, 3), Action.parse("1B1"))
    for number, to in moves:
        actions = list(schedule.actions())
        schedule = move(schedule, actions[number % len(actions)], to)
    judged = judge(schedule, BoardRules())
    assert (judged.timeline is None) == bool(judged.edges) == bool(judged.problems)
    present = set(schedule.actions())
    assert all(need in needs(waiting, 3, present) for need, waiting in judged.edges)


def test_memory_goes_up_at_the_start_of_a_forward_and_down_at_the_end_of_each_half():
    schedule = Schedule.of([["0F0", "0I0", "0F1", "0W0", "0B1"]])
    judged = judge(schedule, BoardRules(Costs(), 2, Held(0.25)))
    assert judged.staircase(0, Held(0.25)) == [(0, 1), (2, 0.75), (2, 1.75), (4, 1), (6, 0)]


def test_split_and_merge_shorten_and_restore(editor):
    before = editor.schedule
    ask(editor, "split_all")
    assert editor.schedule.is_split and editor.state()["makespan"] < 12
    assert editor.view["rows"][0]["blocks"][2]["change"] == "Merge 0I0 and 0W0"
    ask(editor, "merge", id="0W0")
    assert editor.focus == "0B0" and editor.said.startswith("0I0 and 0W0 merged into 0B0: legal")
    ask(editor, "merge_all")
    assert editor.schedule == before


def test_undo_redo_reset_and_a_grab(editor):
    for _ in range(3):
        ask(editor, "move", id="0F0", by=1, grab=4)
    assert [str(action) for action in editor.schedule.rows[0][:4]] == ["0F1", "0B0", "0F2", "0F0"]
    ask(editor, "undo")
    assert editor.schedule == one_f_one_b(2, 3) and editor.can["redo"] and not editor.can["undo"]
    ask(editor, "redo")
    ask(editor, "reset")
    assert editor.schedule == one_f_one_b(2, 3) and editor.schedule.name == "1F1B"
    ask(editor, "undo")
    assert editor.schedule != one_f_one_b(2, 3)
    ask(editor, "move", id="0F1", by=2, grab=5)
    ask(editor, "cancel", id="0F1", grab=5)
    assert editor.said.startswith("0F1 put back")


def test_commands_are_carried_out_once_each_and_in_order(editor):
    first, second = next(NUMBERS), next(NUMBERS)
    go = [{"n": first, "verb": "move", "id": "0F0", "by": 1}, {"n": second, "verb": "move", "id": "0F0", "by": 1}]
    editor.commands = go[:1]
    editor.commands = go
    assert [str(action) for action in editor.schedule.rows[0][:3]] == ["0F1", "0B0", "0F0"]
    assert editor.done == second


def test_what_cannot_be_done_is_a_sentence_and_changes_nothing(editor):
    for verb, details, sentence in [
        ("split", {"id": "0F0"}, "0F0 cannot be split; only a B is a whole backward."),
        ("merge", {"id": "0B0"}, "0B0 cannot be merged; only an I and its W make a whole backward."),
        ("load", {"text": "0F0,0X0"}, "Line 1, column 2 of the schedule: '0X0' is no action"),
        ("load", {"text": "0F0"}, "This schedule cannot be edited: 0B0 is missing"),
        ("load", {"text": "  "}, "This schedule cannot be edited: the schedule is empty"),
        ("run", {}, "This editor has nothing to run with"),
        ("show_par", {}, "No order that reaches par is known"),
        ("jump", {}, "'jump' is nothing the editor does"),
    ]:
        ask(editor, verb, **details)
        assert editor.trouble.startswith(sentence)
        assert editor.schedule == one_f_one_b(2, 3)
    ask(editor, "split_all")
    assert editor.trouble == ""


def test_csv_in_and_out_and_the_par_belongs_to_the_sizes(editor):
    ask(editor, "load", text=gpipe(3, 2).to_csv())
    assert editor.schedule == gpipe(3, 2) and editor.schedule.to_csv() == editor.view["csv"]
    assert editor.view["par"] == "" and editor.can["solve"]
    ask(editor, "load", text=one_f_one_b(2, 3).to_csv())
    assert editor.view["score"] == "3 over par" and not editor.can["solve"]


def test_an_order_keeps_its_name_until_it_is_edited(editor):
    editor.do("move", "0B0", to=4)
    assert editor.view["title"] == "1F1B, edited"
    editor.do("undo")
    assert editor.view["title"] == "1F1B"
    editor.do("load", text="\ufeff" + gpipe(2, 2).to_csv())  # as a spreadsheet saves it
    assert editor.schedule == gpipe(2, 2) and "edited" not in editor.view["title"]


def test_what_is_undone_is_not_claimed_twice(editor):
    editor.do("undo")
    assert editor.said.startswith("Nothing to undo: legal")
    editor.do("split_all")
    editor.do("undo")
    assert editor.said.startswith("Undone: legal")
    editor.do("redo")
    editor.do("redo")
    assert editor.said.startswith("Nothing to redo: legal")


def test_costs_per_stage_refuse_other_sizes_and_the_order_stays():
    editor = ScheduleEditor(gpipe(2, 2), Costs(forward=(1.0, 2.0)))
    with pytest.raises(ValueError, match="2 stages"):
        editor.do("load", text=gpipe(3, 2).to_csv())
    assert editor.schedule == gpipe(2, 2) and not editor.can["undo"]


@pytest.mark.parametrize("text", ["0F0", "", "0F0,0F0,0B0"])
def test_a_schedule_no_move_can_mend_is_refused(text):
    with pytest.raises(ValueError, match="cannot be edited"):
        ScheduleEditor(Schedule.from_csv(text))


def test_a_schedule_too_long_to_edit_is_refused():
    with pytest.raises(ValueError, match="has 640 actions; the editor takes 600"):
        ScheduleEditor(gpipe(8, 40))


# Par


def test_a_par_is_a_number_an_optimum_or_a_function():
    class Optimum:
        schedule, makespan, bound, proven = gpipe(2, 3), 9.0, 9.0, True

    assert ScheduleEditor(gpipe(2, 3), par=Optimum()).view["par"] == "par 9, proven by the solver: no order is shorter"
    editor = ScheduleEditor(one_f_one_b(2, 3), par=Optimum)
    assert editor.can["solve"] and editor.view["score"] == ""
    ask(editor, "solve")
    assert editor.view["score"] == "3 over par" and editor.said.startswith("The solver answers: par 9, proven")
    ask(editor, "show_par")
    assert editor.schedule == gpipe(2, 3)
    unproven = Par.of(type("Optimum", (), {"schedule": None, "makespan": 10, "bound": 8, "proven": False}))
    assert unproven.words() == "par 10, the solver's best; it has proven only that none is below 8"
    with pytest.raises(ValueError, match="par is 'nine'"):
        ScheduleEditor(gpipe(2, 3), par="nine")


def test_scores():
    assert Par(9.0).score(9 + 1e-9) == "par"
    assert Par(9.0).score(10.5) == "1.5 over par"
    assert Par(9.0).score(8) == "1 under par"


def test_a_solver_that_fails_or_never_answers_is_a_sentence():
    def fail():
        raise ImportError("optimal() needs OR-tools; install it with pip install 'pllab[solver]'")

    editor = ScheduleEditor(gpipe(2, 2), par=fail)
    ask(editor, "solve")
    assert editor.trouble == "optimal() needs OR-tools; install it with pip install 'pllab[solver]'."
    gate = threading.Event()
    slow = ScheduleEditor(gpipe(2, 2), par=lambda: gate.wait(20), timeout_s=0.05)
    ask(slow, "solve")
    gate.set()
    assert slow.trouble.startswith("The solver has not answered in 0.05 s")
    assert slow.view["par"] == ""


def test_without_a_par_the_solver_of_the_room_below_is_asked(monkeypatch):
    asked = []

    class Optimum:
        schedule, makespan, bound, proven = gpipe(2, 3), 9.0, 9.0, True

    def optimal(*sizes, held, time_limit_s):
        asked.append((*sizes, held, time_limit_s))
        return Optimum

    monkeypatch.setattr("pllab.schedule.optimal", optimal, raising=False)
    editor = ScheduleEditor(one_f_one_b(2, 3), Costs(forward=2.0), memory_limit=2, held=Held(0.25), timeout_s=12)
    assert editor.ask_solver().makespan == 9
    assert asked == [(2, 3, Costs(forward=2.0), 2, Held(0.25), 6.0)]


@pytest.mark.parametrize(
    ("backward", "par", "score"),
    [
        (3.0, "no order is shorter", "2.5 over par"),
        (2.0, "no order of split backwards is shorter", "2.5 under par"),
    ],
)
def test_the_solver_claims_no_more_than_it_proved(backward, par, score):
    """It splits every backward, so it says nothing of orders with whole ones where these are quicker."""
    pytest.importorskip("ortools", reason="the extra `solver` is not installed")
    editor = ScheduleEditor(one_f_one_b(2, 4), Costs(1.0, 1.5, 1.5, backward=backward), memory_limit=2)
    editor.ask_solver()
    assert editor.view["par"] == f"par 17.5, proven by the solver: {par}" and par in editor.said
    assert editor.view["score"] == score
    editor.do("show_par")
    assert editor.view["score"] == "par" and editor.state()["is_legal"]


def test_several_stages_on_a_rank_have_no_solver_unless_one_is_given():
    looped = Schedule.of([["0F0", "2F0", "2B0", "0B0"], ["1F0", "3F0", "3B0", "1B0"]])
    editor = ScheduleEditor(looped)
    assert not editor.can["solve"]
    with pytest.raises(ValueError, match="one stage on each rank"):
        editor.ask_solver()
    assert ScheduleEditor(looped, par=lambda: 9).can["solve"]
    assert editor.view["rows"][0]["blocks"][0]["text"] == "0F0", "a label names the stage"


# Run


def test_a_run_is_drawn_under_the_prediction_on_its_scale():
    editor = ScheduleEditor(one_f_one_b(2, 3), run=emulate)
    ask(editor, "run")
    rows = editor.view["rows"]
    for row in rows:
        for predicted, measured in zip(row["blocks"], row["measured"], strict=True):
            assert measured["start"] == pytest.approx(predicted["start"], abs=1e-6)
            assert measured["text"] == predicted["text"]
    assert editor.view["measured"] == (
        "Measured, engine emulated (sleep): makespan 120 ms, bubble fraction 25.0 %. Drawn under the prediction with "
        "one unit of cost = 10 ms, so that both are busy as long: 12 against 12, 0.0 % longer."
    )
    assert editor.said == "This order ran: makespan 120 ms, engine emulated (sleep)."
    assert editor.state()["measured_makespan_s"] == pytest.approx(0.12)
    editor.do("split_all")
    assert editor.view["measured"] == "" and editor.measured is None, "the run was of another order"
    editor.do("undo")
    assert editor.measured is not None


def test_a_run_on_a_given_scale_shows_how_much_longer_it_was():
    editor = ScheduleEditor(gpipe(2, 2), run=emulate, unit="u", unit_s=0.008)
    editor.run_it()
    assert "1 u of cost = 8 ms: 11.2 u against 9 u, 25.0 % longer." in editor.view["measured"]
    assert editor.view["end"] == pytest.approx(11.25)


def test_an_illegal_order_is_not_run_and_a_run_that_fails_is_a_sentence():
    ran = []

    def broken(schedule):
        ran.append(schedule)
        raise RuntimeError("rank 1 died")

    editor = ScheduleEditor(gpipe(2, 2), memory_limit=1, run=broken)
    ask(editor, "run")
    assert editor.trouble.startswith("An illegal schedule is not run: rank 0 holds 2 micro-batches")
    assert not ran and not editor.can["run"]
    editor = ScheduleEditor(gpipe(2, 2), run=broken)
    ask(editor, "run")
    assert editor.trouble == "RuntimeError: rank 1 died."
    with pytest.raises(RuntimeError, match="rank 1 died"):
        editor.run_it()


def test_one_slow_thing_at_a_time():
    gate = threading.Event()
    editor = ScheduleEditor(gpipe(2, 2), run=lambda schedule: gate.wait(20) and emulate(schedule))
    editor.commands = [{"n": 1, "verb": "run"}]
    editor.commands = [{"n": 1, "verb": "run"}, {"n": 2, "verb": "solve"}]
    assert editor.trouble == "One thing at a time: Running this order."
    editor.commands = [{"n": 3, "verb": "split", "id": "0B0"}]
    gate.set()
    until = time.monotonic() + 20
    while editor.busy and time.monotonic() < until:
        time.sleep(0.005)
    assert editor.said.endswith("It has been changed since, so these times are not drawn.")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "Run gave back None; it should return the Timeline it measured."),
        (emulate(gpipe(3, 2)), "Run measured 2F0, which is not in the schedule; return the run of that one."),
    ],
)
def test_a_run_that_measured_something_else_is_a_sentence(given, sentence):
    editor = ScheduleEditor(gpipe(2, 2), run=lambda _: given)
    ask(editor, "run")
    assert editor.trouble == sentence
    assert editor.measured is None


def in_units(schedule, costs, slower=1.1):
    """A run that is given the costs and answers in their unit, late by `slower`."""
    spans = [Span(*one[:2], 7 + slower * one.start, 7 + slower * one.end) for one in simulate(schedule, costs).spans]
    return Timeline.of(spans, "emulated", schedule.num_ranks)


def test_a_run_that_takes_costs_is_given_them_and_is_drawn_in_their_unit():
    costs = Costs((1.0, 2.0), 0.5, 0.5, p2p=0.5)
    editor = ScheduleEditor(one_f_one_b(2, 3), costs, run=partial(in_units, slower=1.25), unit="u")
    ask(editor, "run")
    predicted, bubble = simulate(one_f_one_b(2, 3), costs).makespan, 100 * editor.measured.bubble_fraction
    assert editor.view["end"] == pytest.approx(1.25 * predicted)
    assert editor.view["measured"] == (
        f"Measured, engine emulated (sleep), in the unit of the costs: bubble fraction {bubble:.1f} %, makespan "
        f"{1.25 * predicted:g} u against {predicted:g} u, 25.0 % longer."
    )
    assert editor.said == f"This order ran: makespan {1.25 * predicted:g} u, engine emulated (sleep)."
    state = editor.state()
    assert state["measured_makespan"] == pytest.approx(1.25 * predicted) and state["measured_makespan_s"] is None


def test_seconds_for_a_unit_belong_to_the_run_where_it_answers_in_units():
    with pytest.raises(ValueError, match=r"unit_s is 0.01 and run takes costs.*partial\(run, unit_s=0.01\)"):
        ScheduleEditor(gpipe(2, 2), run=in_units, unit_s=0.01)
    assert takes_costs(in_units) and takes_costs(partial(in_units, slower=2))
    assert not any(map(takes_costs, (emulate, print, None)))


# Memory


@pytest.mark.parametrize("family", ["1F1B", "interleaved 1F1B", "ZB-V", "GPipe"])
@pytest.mark.parametrize("limit", [1.5, 2, 2.5, 3])
def test_memory_is_counted_as_the_studio_counts_it(family, limit):
    studio = BubbleStudio(family, 2, 4, memory_limit=limit)
    most = studio.state()["runs"][0]["most_held"]
    editor = ScheduleEditor(studio.schedule, memory_limit=limit)
    assert editor.state()["peak_in_flight"] == list(most)
    assert bool(editor.state()["problems"]) == (max(most) > limit)
    for held, row in zip(most, editor.view["rows"], strict=True):
        assert row["held"] == f"holds {held:g} of {limit:g}" + (": too many" if held > limit else "")


def test_the_unit_of_memory_is_named_where_a_rank_has_several_stages():
    editor = ScheduleEditor(interleaved(2, 4), memory_limit=3)
    assert editor.view["summary"] == "4 micro-batches on 2 ranks, memory limit 3 micro-batches of 2 stages"
    assert editor.view["verdict"][0].endswith("no rank holds more than 3 micro-batches of 2 stages.")
    assert "Memory, in micro-batches of 2 stages: rank 0 holds 2.5 of 3" in editor.static().alt
    with pytest.raises(ScheduleError, match="rank 0 holds 2.5 micro-batches of 2 stages at 0F2, more than the limit"):
        check(editor.schedule, memory_limit=2)


# Picture and state


def test_static_twin_says_what_the_widget_says(editor):
    alt = editor.static().alt
    for told in (*editor.view["verdict"], "makespan 12, bubble fraction, idle / all: 6/24", "3 over par; par 9."):
        assert told in alt.replace("Makespan", "makespan")
    editor.do("move", "1B0", to=0)
    assert "no score while illegal" in editor.static().alt
    assert editor.static().png.startswith(b"\x89PNG")


def test_the_output_holds_the_widget_and_its_twin_and_everything_is_plain_json(editor):
    data, _ = editor._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == editor.model_id
    assert data["text/plain"] == editor.static().alt
    for name in ("view", "can", "state", "theme"):
        value = getattr(editor, name)
        assert json.loads(json.dumps(value() if callable(value) else value))


def test_free_work_and_one_action_can_be_drawn():
    editor = ScheduleEditor(gpipe(1, 1), Costs(0.0, 0.0, 0.0))
    assert editor.view["end"] == 1.0
    assert editor.static().png


def test_the_judgement_is_the_one_of_the_room_below(editor):
    editor.do("move", "0B0", to=0)
    assert editor.state()["problems"] == [one.sentence for one in problems(editor.schedule, 2)]
    assert all(isinstance(action, Action) for edge in editor.judgement.edges for action in edge)
