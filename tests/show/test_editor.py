"""The schedule editor without a browser: what is judged, said, scored and run, and the messages of the browser."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from pllab.schedule import Action, Kind, Schedule, dual_pipe_v, gpipe, interleaved, needs, one_f_one_b, zb_h1, zbv
from pllab.show import BubbleStudio, ScheduleEditor
from pllab.show.editor.positions import BoardRules, Position, judge, move, split
from pllab.show.theme import LIGHT
from pllab.show.timeline_picture import ABOVE_MEMORY
from pllab.simulate import Costs, critical_steps, simulate
from pllab.timeline import Span, Timeline
from tests.show.recorded import emulate


@pytest.fixture
def editor():
    return ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, par=9)


def ask(editor, verb, **details):
    """Send a message as the browser does."""
    editor._handle_custom_msg({"verb": verb, **details}, [])


def blocks_of(editor):
    """The blocks on the board by action."""
    return {block["id"]: block for row in editor.view["rows"] for block in row["blocks"]}


def starts_of(editor):
    return {action: block["start"] for action, block in blocks_of(editor).items()}


def makespan_of(editor):
    return simulate(editor.schedule, Costs()).makespan


def test_the_first_order_is_judged_with_the_simulators_numbers(editor):
    timeline = simulate(one_f_one_b(2, 3), Costs())
    assert editor.view["is_legal"] and timeline.makespan == 12
    assert [row["peak"] for row in editor.view["rows"]] == [2, 1]
    assert editor.view["score"] == "3 over par" and editor.view["par"] == "par 9"
    assert editor.view["numbers"] == [
        "makespan 12",
        "bubble fraction, idle / all: 6/24 = 25.0 %",
        "bubble overhead, idle / busy: 6/18 = 33.3 %",
        "engine: simulated",
    ]
    assert starts_of(editor) == {str(span.action): span.start for span in timeline.spans}


def test_each_move_says_what_it_did_and_what_it_led_to(editor):
    editor.do("move", "1B1", to=5)
    assert simulate(editor.schedule, Costs()).makespan == 16
    assert editor.view["said"] == "B1 moved to the end of rank 1: legal, makespan 16, bubble fraction 43.8 %."
    editor.do("move", "0F2", to=2)
    assert editor.view["said"] == "F2 moved before B0 on rank 0: illegal, 1 problem."
    assert "Rank 0 holds 3 micro-batches at F2, more than the limit of 2" in editor.view["verdict"][0]
    assert editor.view["rows"][0]["is_over"] and editor.view["rows"][0]["held"] == "holds 3 of 2: too many"
    assert editor.view["has_times"], "an order over the limit can still be simulated"
    assert editor.view["score"] == "", "and has no score, because par keeps to the limit"
    assert editor.schedule.name == "1F1B, edited"
    for to, said in ((99, "F2 moved to the end of rank 0"), (99, "F2 stays where it is on rank 0")):
        editor.do("move", "0F2", to=to)
        assert editor.view["said"].startswith(said)


def test_a_backward_before_its_forward_has_a_sentence_and_an_edge_and_no_times(editor):
    editor.do("move", "1B0", to=0)
    assert editor.view["edges"] == [["1F0", "1B0"]]
    assert editor.view["verdict"] == [
        "The schedule deadlocks: B0 of rank 1 waits for F0 of rank 1, which comes after it on rank 1."
    ]
    assert not editor.view["has_times"] and editor.view["numbers"] == []
    assert editor.view["score"] == "" and not editor.view["can"]["run"]
    ends = [block["end"] for block in editor.view["rows"][1]["blocks"]]
    assert [block["start"] for block in editor.view["rows"][1]["blocks"]] == [0, *ends[:-1]]


@given(st.lists(st.tuples(st.integers(0, 23), st.integers(0, 9)), max_size=6))
def test_an_order_has_times_or_edges_and_each_edge_is_a_need_that_comes_too_late(moves):
    schedule = split(one_f_one_b(3, 3), Action.parse("1B1"))
    for number, to in moves:
        actions = list(schedule.actions())
        schedule = move(schedule, actions[number % len(actions)], to)
    judged = judge(Position(schedule), BoardRules(Costs()))
    assert (judged.timeline is None) == bool(judged.edges) == bool(judged.problems)
    present = set(schedule.actions())
    assert all(need in needs(waiting, 3, present) for need, waiting in judged.edges)


def test_memory_goes_up_at_the_start_of_a_forward_and_down_at_the_end_of_each_half():
    schedule = Schedule.of([["0F0", "0I0", "0F1", "0W0", "0B1"]])
    judged = judge(Position(schedule), BoardRules(Costs(), 2))
    assert judged.staircase(0) == [(0, 1), (2, 0.5), (2, 1.5), (4, 1), (6, 0)]


def test_split_and_merge_shorten_and_restore(editor):
    ask(editor, "split_all")
    assert editor.schedule.is_split and makespan_of(editor) < 12
    assert editor.view["rows"][0]["blocks"][2]["change"] == "Merge I0 and W0"
    ask(editor, "merge", id="0W0")
    assert editor.view["focus"] == "0B0"
    assert editor.view["said"].startswith("I0 and W0 merged into B0: legal")


def test_undo_redo_and_reset_and_what_is_undone_is_not_claimed_twice(editor):
    for by in (1, 2):
        ask(editor, "move", id="0F0", by=by)
    first, second, third = "0F0 0F1 0B0 0F2", "0F1 0F0 0B0 0F2", "0F1 0B0 0F2 0F0"
    for verb, details, said, row, can in [
        ("undo", {}, "Undone: ", second, {"undo", "redo", "reset"}),
        ("undo", {}, "Undone: ", first, {"redo"}),
        ("undo", {}, "Nothing to undo: legal", first, {"redo"}),
        ("redo", {}, "Redone: ", second, {"undo", "redo", "reset"}),
        ("redo", {}, "Redone: ", third, {"undo", "reset"}),
        ("redo", {}, "Nothing to redo: ", third, {"undo", "reset"}),
        ("undo", {}, "Undone: ", second, {"undo", "redo", "reset"}),
        ("move", {"id": "0F0", "to": 1}, "F0 stays where it is on rank 0: ", second, {"undo", "redo", "reset"}),
        ("reset", {}, "Back to the first order: legal", first, {"undo"}),
        ("undo", {}, "Undone: ", second, {"undo", "redo", "reset"}),
    ]:
        ask(editor, verb, **details)
        assert editor.view["said"].startswith(said) and " ".join(map(str, editor.schedule.rows[0][:4])) == row
        assert {name for name in ("undo", "redo", "reset") if editor.view["can"][name]} == can
        assert editor.schedule.name == ("1F1B, edited" if "reset" in can else "1F1B")


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ({"verb": "split", "id": "0F0"}, "F0 of rank 0 cannot be split; only a B is a whole backward."),
        ({"verb": "merge", "id": "0B0"}, "B0 of rank 0 cannot be merged; only an I and its W make a whole backward."),
        ({"verb": "place", "id": "0B0"}, "B0 of rank 0 cannot be placed now; everything stands on the board."),
        ({"verb": "run"}, "This editor has nothing to run with"),
        ({"verb": "move", "id": "0B0", "to": [1]}, "TypeError: "),
    ],
)
def test_what_the_browser_cannot_have_is_a_sentence_until_the_next_move(editor, message, sentence):
    ask(editor, **message)
    assert editor.view["trouble"].startswith(sentence) and editor.view["trouble"].endswith(".")
    assert editor.schedule == one_f_one_b(2, 3)
    ask(editor, "split_all")
    assert editor.view["trouble"] == ""


@pytest.mark.parametrize(
    ("verb", "action", "places", "sentence"),
    [
        ("move", "0B0", {}, "0B0 is moved nowhere; give its new place in the row, to=0 for the first"),
        ("move", "0B7", {"to": 0}, "0B7 is not in the schedule; name one of its actions, for example 0F0"),
        ("split", None, {}, "'None' is no action; write stage, kind and micro-batch"),
        ("cancel", "0B0", {}, "'cancel' is nothing the editor does; it does move, place"),
        (["move"], "0B0", {}, "is nothing the editor does"),
    ],
)
def test_nonsense_from_a_cell_is_one_sentence_and_changes_nothing(editor, verb, action, places, sentence):
    with pytest.raises(ValueError) as refused:
        editor.do(verb, action, **places)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)
    assert editor.schedule == one_f_one_b(2, 3) and not editor.view["can"]["undo"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"costs": Costs(forward=(1.0, 2.0, 3.0))}, "3 stages"),
        ({"par": "nine"}, "par is 'nine'"),
        ({"par": float("nan")}, "par is nan"),
        ({"memory_limit": float("nan")}, "memory_limit is nan"),
    ],
)
def test_what_no_game_can_begin_with_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ScheduleEditor(gpipe(2, 2), **options)


# Par, and what was built


@pytest.mark.parametrize(("par", "score"), [(12 + 1e-9, "par"), (10.5, "1.5 over par"), (13, "1 under par")])
def test_scores(par, score):
    assert ScheduleEditor(one_f_one_b(2, 3), par=par).view["score"] == score


def test_what_was_built_is_named_and_what_was_there_is_not():
    editor = ScheduleEditor(gpipe(2, 3))
    built = [(editor.schedule, editor.view["built"])]
    moves = [("move", "1B0", 1), ("move", "1B1", 3), ("move", "0B0", 2), ("split_all", "", None), ("reset", "", None)]
    for verb, action, to in moves:
        editor.do(verb, action, to=to)
        built.append((editor.schedule, editor.view["built"]))
    assert [name for _, name in built] == ["", "", "You built eager 1F1B.", "You built 1F1B.", "", ""]
    assert built[3][0] == one_f_one_b(2, 3)


def test_the_makespan_before_is_marked_until_nothing_differs(editor):
    steps = [
        (None, None, []),
        ("move", 5, [12]),
        ("move", 0, None),
        ("move", 3, [16]),  # the last that could run
        ("undo", None, None),
        ("undo", None, [12]),
        ("move", 0, None),
        ("undo", None, []),  # it ends where the last order that could run ended
        ("undo", None, [16]),
    ]
    for verb, to, before in steps:
        if verb:
            ask(editor, verb, id="1B1", to=to)
        marks = [(9, "par")] + [(at, "before") for at in before or ()]
        wanted = [{"at": at, "text": f"{what} {at}", "look": what} for at, what in marks]
        assert editor.view["marks"] == ([] if before is None else wanted)
        assert editor.view["has_times"] == (before is not None)
    assert editor.view["end"] == 16 > makespan_of(editor), "the mark has room"


def test_the_critical_path_is_the_one_of_the_simulator(editor):
    editor.do("move", "1B1", to=5)
    steps = critical_steps(editor.schedule, simulate(editor.schedule, Costs()))
    marked = {action: block for action, block in blocks_of(editor).items() if block["is_critical"]}
    assert set(marked) == {str(step.span.action) for step in steps}
    assert sum(step.span.duration + step.lag for step in steps) == makespan_of(editor)
    assert all(block["said"].endswith("on the critical path") for block in marked.values())
    editor.do("move", "1B0", to=0)
    assert not any(block["is_critical"] for block in blocks_of(editor).values())


def test_an_action_of_a_circle_is_called_what_its_block_is_called_and_is_drawn_to_the_one_that_waits():
    rows = [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]
    circle = ScheduleEditor(Schedule.of(rows)).view
    assert circle["edges"] == [["1B0", "0B0"], ["0F1", "1F1"]] and not circle["has_times"]
    assert circle["verdict"] == [
        "The schedule deadlocks: B0 of rank 0 waits for B0 of rank 1, which comes after F1 on rank 1; "
        "F1 of rank 1 waits for F1 of rank 0, which comes after B0 on rank 0."
    ]
    looped = ScheduleEditor(Schedule.of([["0F0", "2F0", "2B0", "0B0"], ["1F0", "3F0", "3B0", "1B0"]]))
    assert looped.view["rows"][0]["blocks"][0]["text"] == "0F0", "a label names the stage"
    looped.do("move", "3B0", to=0)
    assert looped.view["said"].startswith("3B0 moved before 1F0 on rank 1")
    assert "3B0 waits for 3F0" in looped.view["verdict"][0]


# From an empty board


def ready(editor):
    return [[each["id"] for each in row["ready"]] for row in editor.view["rows"]]


def test_an_emptied_board_shows_what_each_rank_can_do_next(editor):
    assert ready(editor) == [[], []]
    editor.do("clear")
    assert ready(editor) == [["0F0"], []] and editor.schedule.num_actions == 0
    assert editor.view["numbers"][0] == "0 of 12 actions placed" and editor.view["score"] == ""
    assert not editor.view["can"]["run"] and not editor.view["can"]["clear"]
    ask(editor, "place", id="0F0")
    ask(editor, "place", id="0F1")
    assert ready(editor) == [[], ["1F0"]], "rank 0 holds 2, which is the limit"
    assert editor.view["said"] == "F1 placed on rank 0: legal so far."
    ask(editor, "place", id="1F0")
    assert ready(editor) == [[], ["1F1", "1B0"]] or ready(editor) == [[], ["1B0", "1F1"]]
    with pytest.raises(ValueError, match="0B0 cannot be placed now; the next moves are 1B0, 1F1"):
        editor.do("place", "0B0")
    assert starts_of(editor) == {"0F0": 0, "0F1": 1, "1F0": 1} and "Legal so far" in editor.view["verdict"][0]
    ask(editor, "undo")
    assert ready(editor) == [[], ["1F0"]]
    assert editor.static().png and "3 of 12" not in editor.static().alt


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([gpipe(3, 3), one_f_one_b(3, 4), interleaved(2, 4), zb_h1(3, 4), zbv(2, 4)]), st.data())
def test_next_moves_lead_from_an_empty_board_to_a_legal_schedule_of_all_the_work(schedule, data):
    limit = max(simulate(schedule, Costs()).peak_in_flight) / schedule.stages_per_rank
    editor = ScheduleEditor(schedule, memory_limit=limit + 1)
    editor.do("clear")
    while moves := [each for row in ready(editor) for each in row]:
        before = starts_of(editor)
        editor.do("place", data.draw(st.sampled_from(moves)))
        assert editor.view["is_legal"]
        assert before.items() <= starts_of(editor).items(), "what comes later moves nothing"
    if schedule.stages_per_rank == 1:  # otherwise first stages may fill the memory that later ones need
        assert sorted(editor.schedule.actions()) == sorted(schedule.actions())
        assert makespan_of(editor) == simulate(editor.schedule, Costs()).makespan


def test_a_forward_overlaps_no_backward_that_is_not_on_the_board():
    order, costs = dual_pipe_v(2, 4), Costs(overlap=1.0)
    editor = ScheduleEditor(order, costs)
    editor.do("clear")
    for span in simulate(order, costs).spans:
        editor.do("place", str(span.action))
        last = blocks_of(editor)[str(span.action)]
        assert span.action.kind != "F" or last["end"] - last["start"] == pytest.approx(1.0), span


def test_with_two_stages_on_a_rank_a_forward_fills_half_a_place():
    editor = ScheduleEditor(interleaved(2, 4), memory_limit=1)
    editor.do("clear")
    for action in ("0F0", "0F1"):
        assert ready(editor)[0] == [action]
        editor.do("place", action)
    assert ready(editor)[0] == [] and "next forward would exceed" not in editor.view["verdict"][0]
    for action in ("1F0", "1F1"):
        editor.do("place", action)
    told = "but no rank can go on: the next forward would exceed the limit. Undo, or reset."
    assert not any(ready(editor)) and editor.view["verdict"][0].endswith(told)


def test_an_order_on_a_part_of_the_board_is_judged_by_what_stands_there(editor):
    editor.do("clear")
    for action in ("0F0", "1F0", "1B0", "0B0"):
        editor.do("place", action)
    editor.do("move", "1B0", to=0)
    assert editor.view["edges"] == [["1F0", "1B0"]] and not editor.view["has_times"]
    editor.do("split", "1B0")
    assert {one["id"] for one in editor.view["rows"][1]["blocks"]} == {"1I0", "1W0", "1F0"}


# Run


def test_a_run_is_given_the_costs_and_is_drawn_under_the_prediction_in_their_unit():
    costs = Costs((1.0, 2.0), 0.5, 0.5, p2p=0.5)
    editor = ScheduleEditor(one_f_one_b(2, 3), costs, run=emulate)
    ask(editor, "run")
    for row in editor.view["rows"]:
        for predicted, measured in zip(row["blocks"], row["measured"], strict=True):
            assert measured["start"] == pytest.approx(1.25 * predicted["start"])
            assert measured["text"] == predicted["text"]
    timeline = simulate(one_f_one_b(2, 3), costs)
    took, bubble = 1.25 * timeline.makespan, 100 * timeline.bubble_fraction
    assert editor.view["end"] == pytest.approx(took)
    assert editor.view["measured"] == (
        f"Measured, engine emulated (sleep), in the unit of the costs: bubble fraction {bubble:.1f} %, makespan "
        f"{took:.3g} against {timeline.makespan:g}, 25.0 % longer."
    )
    assert editor.view["said"] == f"This order ran: makespan {took:.3g}, engine emulated (sleep)."
    editor.do("split_all")
    assert editor.view["measured"] == "", "the run was of another order"
    editor.do("undo")
    assert editor.view["measured"] != ""


def test_messages_that_a_run_measured_are_not_work():
    def with_message(schedule, costs):
        sent = Span(0, Action.parse("0F0")._replace(kind=Kind.C), 9.0, 9.1)
        return Timeline.of([*emulate(schedule, costs).spans, sent], "emulated", schedule.num_ranks)

    editor = ScheduleEditor(one_f_one_b(2, 3), run=with_message)
    editor.run_it()
    assert {block["kind"] for row in editor.view["rows"] for block in row["measured"]} == {"F", "B"}


def test_an_illegal_order_and_a_part_of_one_are_not_run():
    ran = []
    editor = ScheduleEditor(gpipe(2, 2), memory_limit=1, run=ran.append)
    ask(editor, "run")
    assert editor.view["trouble"].startswith("An illegal schedule is not run: rank 0 holds 2 micro-batches")
    assert not ran and not editor.view["can"]["run"]
    editor = ScheduleEditor(gpipe(2, 2), run=ran.append)
    editor.do("clear")
    with pytest.raises(ValueError, match="a part of a schedule is not run; place every action first"):
        editor.run_it()
    assert not ran


def test_while_it_runs_the_editor_says_so_and_afterwards_it_does_not():
    seen = []
    editor = ScheduleEditor(
        gpipe(2, 2), run=lambda *given, **more: seen.append(editor.view["busy"]) or emulate(*given, **more)
    )
    ask(editor, "run")
    assert (seen, editor.view["busy"]) == (["Running this order."], "")


def dies(schedule, costs):
    raise RuntimeError("rank 1 died")


def runs_another(schedule, costs):
    return emulate(gpipe(3, 2), Costs())


def answers_late(schedule, costs):
    time.sleep(0.5)
    return emulate(schedule, costs)


OTHER = "the measured run is not of the schedule: rank 2 ran something else; measure the one on screen"
LATE = "the run has not answered in 0.05 s; give it less to do, or set timeout_s"
FAILING = [(dies, RuntimeError, "rank 1 died"), (runs_another, ValueError, OTHER), (answers_late, TimeoutError, LATE)]


@pytest.mark.parametrize(("run", "error", "sentence"), FAILING)
def test_a_run_that_fails_is_raised_in_a_cell_and_told_by_both_widgets(run, error, sentence):
    editor, studio = ScheduleEditor(gpipe(2, 2), run=run), BubbleStudio("GPipe", 2, 2, run=run)
    editor.timeout_s = studio.timeout_s = 0.05 if run is answers_late else 20
    with pytest.raises(error, match=sentence):
        editor.run_it()
    assert editor.view["busy"] == "" and editor.view["can"]["run"]
    ask(editor, "run")
    told = f"RuntimeError: {sentence}" if error is RuntimeError else sentence[0].upper() + sentence[1:]
    assert editor.view["trouble"] == f"{told}."
    studio.order = {"what": "run", "number": "1"}
    assert studio.view["problem"] == f"the run failed: {error.__name__}: {sentence}"
    assert editor.view["measured"] == "" and not studio.running and not studio.view["runs"][2]


# Memory


@pytest.mark.parametrize("family", ["1F1B", "interleaved 1F1B", "ZB-V", "GPipe"])
@pytest.mark.parametrize("limit", [1.5, 2, 2.5, 3])
def test_memory_is_counted_as_the_studio_counts_it(family, limit):
    studio = BubbleStudio(family, 2, 4)
    most = studio.view["runs"][0]["most_held"]
    editor = ScheduleEditor(studio.schedule, memory_limit=limit)
    assert [row["peak"] for row in editor.view["rows"]] == list(most)
    assert editor.view["is_legal"] == (max(most) <= limit)
    for held, row in zip(most, editor.view["rows"], strict=True):
        assert row["held"] == f"holds {held:g} of {limit:g}" + (": too many" if held > limit else "")


def test_all_ranks_and_the_limit_share_one_axis_of_memory(editor):
    assert editor.view["most"] == 2
    assert ScheduleEditor(one_f_one_b(2, 3), memory_limit=5).view["most"] == 5
    for limit in (None, float("inf")):
        assert ScheduleEditor(gpipe(2, 3), memory_limit=limit).view["most"] == 3


# Picture and state


def test_static_twin_says_what_the_widget_says(editor):
    alt = editor.static().alt
    for told in (*editor.view["verdict"], "makespan 12, bubble fraction, idle / all: 6/24", "3 over par; par 9."):
        assert told in alt.replace("Makespan", "makespan")
    editor.do("move", "1B0", to=0)
    assert "no score while illegal; par 9" in editor.static().alt
    editor.do("clear")
    assert "not yet complete; par 9" in editor.static().alt
    assert editor.static().png.startswith(b"\x89PNG")


def test_the_printed_twin_has_each_block_at_its_time_and_an_arrow_from_what_is_needed(editor):
    for action in ("0F0", "1B0"):
        editor.do("move", action, to=0)
        [axes] = editor.static().canvas.axes
        top, height = ABOVE_MEMORY
        texts = {text.get_position(): text.get_text() for text in axes.texts if not isinstance(text, Annotation)}
        labels = {place: text for place, text in texts.items() if not text.startswith("idle")}
        assert (texts != labels) is editor.view["has_times"]
        boxes = [path.get_extents() for one in axes.collections for path in one.get_paths()]
        blocks = [(block, rank) for rank, row in enumerate(editor.view["rows"]) for block in row["blocks"]]
        middles = {one["id"]: ((one["start"] + one["end"]) / 2, rank + top + height / 2) for one, rank in blocks}
        assert labels == {middles[one["id"]]: one["text"] for one, _ in blocks}
        for one, _ in blocks:
            assert any(
                (box.x0, box.x1) == (one["start"], one["end"]) and box.contains(*middles[one["id"]]) for box in boxes
            )
        arrows = [(text.xyann[0], text.xy[0]) for text in axes.texts if isinstance(text, Annotation)]
        assert arrows == [(middles[need][0], middles[waiting][0]) for need, waiting in editor.view["edges"]]
        assert axes.yaxis_inverted() and len(arrows) == action.count("B")


def test_the_printed_twin_has_a_staircase_for_each_rank_and_what_is_over_the_limit_is_red(editor):
    def areas(colour):
        [axes] = editor.static().canvas.axes
        drawn = [one for one in axes.collections if isinstance(one, PolyCollection)]
        found = [one for one in drawn if to_hex(one.get_facecolor()[0]).upper() == colour]
        return [one.get_paths()[0].get_extents().height for one in found]

    [first, second] = areas(LIGHT.held)
    assert first == pytest.approx(2 * second) and areas(LIGHT.over) == pytest.approx([0, 0], abs=1e-9)
    editor.do("move", "0F2", to=2)
    [first, second] = areas(LIGHT.held)
    assert [first, *areas(LIGHT.over)] == pytest.approx([3 * second, second, 0], abs=1e-9)


def test_a_schedule_may_be_called_anything_and_cost_nothing():
    editor = ScheduleEditor(Schedule(gpipe(2, 2).rows, 'a "b" $x^$ <i>'), Costs(0.0, 0.0, 0.0))
    assert editor.view["end"] == 1.0, "free work has an axis too"
    assert editor.static().png and 'Schedule a "b" $x^$ <i>:' in editor.static().alt
