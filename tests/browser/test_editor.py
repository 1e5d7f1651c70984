"""The schedule editor's own JavaScript in a bare page: drag, keys, split, undo, edges, run, CSV."""

import time
from pathlib import Path

import pytest

from pllab import show
from pllab.schedule import Schedule, gpipe, interleaved, one_f_one_b, split_backwards
from pllab.simulate import Costs, simulate
from pllab.timeline import Span, Timeline
from tests.browser import bench
from tests.browser.bench import block, order

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

LAST_TICK_WITHIN_THE_BOARD = """() => {
  const board = document.querySelector(".pl-board");
  board.scrollLeft = 1e6;
  const tick = [...board.querySelectorAll(".pl-axis span")].at(-1);
  return tick.getBoundingClientRect().right <= board.getBoundingClientRect().right;
}"""
FILL = "node => getComputedStyle(node).backgroundColor"
INK_OF_IDLE = "node => getComputedStyle(node).backgroundImage.match(/rgb[^)]*[)]/)[0]"
BARS = "node => [getComputedStyle(node).borderTopWidth, getComputedStyle(node).borderBottomWidth]"
NAMES = ("said", "trouble", "busy", "can", "focus", "done", "view")


def run_emulated(schedule):
    spans = [Span(one.rank, one.action, one.start / 50, one.end / 49) for one in simulate(schedule, Costs()).spans]
    return Timeline.of(spans, "emulated", schedule.num_ranks)


@pytest.fixture
def editor():
    return show.ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, par=10, run=run_emulated)


@pytest.fixture
def page(chromium_page):
    chromium_page.emulate_media(reduced_motion="reduce")
    return chromium_page


@pytest.fixture
def root(page, editor):
    return bench.mount(page, editor)


def answer(page, editor):
    """Do what the kernel does: carry out the commands, send back what has changed."""
    editor.commands = page.evaluate("window.model.get('commands')")
    until = time.monotonic() + 20
    while editor.busy and time.monotonic() < until:
        time.sleep(0.005)
    bench.push(page, editor, *NAMES)


def press(page, editor, *keys):
    for key in keys:
        page.keyboard.press(key)
    answer(page, editor)


@bench.both_schemes
def test_blocks_stand_at_their_times_with_the_words_of_python(root, editor):
    expect(root.get_by_role("row")).to_have_count(2)
    expect(root.get_by_role("gridcell")).to_have_count(12)
    expect(root.locator(".pl-verdict")).to_have_text(editor.view["verdict"][0])
    expect(root.locator(".pl-numbers span")).to_have_text(editor.view["numbers"])
    expect(root.locator(".pl-score")).to_have_text("2 over par")
    expect(block(root, "1B0")).to_have_attribute(
        "aria-label", "1B0, backward of micro-batch 0 on stage 1, place 2 of 6 on rank 1"
    )
    first, last = block(root, "0F0").bounding_box(), block(root, "0B2").bounding_box()
    assert last["width"] == pytest.approx(2 * first["width"], abs=1)
    assert last["x"] - first["x"] == pytest.approx(10 * first["width"], abs=2), "0B2 starts at 10"


def test_a_drag_marks_the_place_and_moves_the_block(page, root, editor):
    box, target = block(root, "1B1").bounding_box(), block(root, "1F1").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 10, box["y"] + 12)
    page.mouse.move(target["x"] + 5, box["y"] + 12)
    slot = root.locator(".pl-slot")
    expect(slot).to_be_visible()
    assert slot.bounding_box()["x"] == pytest.approx(target["x"] - 2, abs=3)
    page.mouse.up()
    expect(slot).to_be_hidden()
    answer(page, editor)
    assert order(root, 1) == ["1F0", "1B0", "1B1", "1F1", "1F2", "1B2"]
    expect(root.locator(".pl-live")).to_have_text("1B1 moved before 1F1 on rank 1: illegal, 1 problem.")
    expect(block(root, "1B1")).to_be_focused()


def test_a_click_or_a_drag_that_comes_back_moves_nothing(page, root):
    box = block(root, "1F2").bounding_box()
    x, y = box["x"] + 5, box["y"] + 8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.up()
    expect(block(root, "1F2")).to_be_focused()
    page.mouse.down()
    page.mouse.move(x - 200, y)
    page.mouse.move(x, y)
    page.mouse.up()
    page.mouse.down()
    page.mouse.move(x - 300, y)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert page.evaluate("window.model.get('commands')") == []


def test_arrows_choose_and_tab_reaches_one_block(page, root):
    page.locator("#outside").focus()
    page.keyboard.press("Tab")
    expect(block(root, "0F0")).to_be_focused()
    for key, action in [
        ("ArrowRight", "0F1"),
        ("ArrowDown", "1F0"),
        ("ArrowDown", "1F0"),
        ("End", "1B2"),
        ("ArrowUp", "0B1"),
        ("Home", "0F0"),
        ("ArrowLeft", "0F0"),
    ]:
        page.keyboard.press(key)
        expect(block(root, action)).to_be_focused()
    assert root.locator(".pl-block[tabindex='0']").count() == 1


def test_alt_and_an_arrow_move_at_once_even_before_python_answers(page, root, editor):
    block(root, "1B0").focus()
    press(page, editor, "Alt+ArrowRight", "Alt+ArrowRight")
    assert order(root, 1) == ["1F0", "1F1", "1B1", "1B0", "1F2", "1B2"]
    expect(block(root, "1B0")).to_be_focused()
    press(page, editor, "Alt+ArrowLeft")
    expect(root.locator(".pl-live")).to_have_text(editor.said)
    assert editor.said.startswith("1B0 moved before 1B1 on rank 1: legal, makespan")


def test_pick_up_carry_and_drop_is_one_step_and_escape_puts_back(page, root, editor):
    block(root, "0F0").focus()
    page.keyboard.press("Space")
    expect(root.locator(".pl-live")).to_contain_text("0F0 picked up")
    press(page, editor, "ArrowRight", "ArrowRight")
    assert order(root, 0)[:3] == ["0F1", "0B0", "0F0"]
    press(page, editor, "Escape")
    assert order(root, 0)[:3] == ["0F0", "0F1", "0B0"]
    expect(root.locator(".pl-lifted")).to_have_count(0)
    expect(root.locator(".pl-live")).to_contain_text("0F0 put back: legal")
    expect(root.get_by_role("button", name="Undo")).to_be_disabled()
    press(page, editor, "Space", "End", "Enter")
    assert order(root, 0)[-1] == "0F0"
    page.keyboard.press("ArrowLeft")
    expect(block(root, "0B2")).to_be_focused()
    press(page, editor, "Control+z")
    assert order(root, 0)[0] == "0F0"
    press(page, editor, "Control+y")
    assert order(root, 0)[-1] == "0F0"


def test_s_splits_and_merges_and_the_button_says_which(page, root, editor):
    block(root, "1B1").focus()
    press(page, editor, "s")
    assert order(root, 1) == ["1F0", "1B0", "1F1", "1I1", "1W1", "1F2", "1B2"]
    expect(block(root, "1I1")).to_be_focused()
    page.keyboard.press("ArrowRight")
    root.get_by_role("button", name="Merge 1I1 and 1W1").click()
    answer(page, editor)
    assert order(root, 1) == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]
    root.get_by_role("button", name="Split every B").click()
    answer(page, editor)
    expect(root.get_by_role("gridcell")).to_have_count(18)
    root.get_by_role("button", name="Undo").click()
    answer(page, editor)
    expect(root.get_by_role("gridcell")).to_have_count(12)
    root.get_by_role("button", name="Redo").click()
    answer(page, editor)
    root.get_by_role("button", name="Reset").click()
    answer(page, editor)
    expect(root.get_by_role("button", name="Reset")).to_be_disabled()
    block(root, "0F1").focus()
    expect(root.get_by_role("button", name="Split", exact=True)).to_be_disabled()


@bench.both_schemes
def test_an_illegal_order_shows_its_sentence_and_a_dashed_edge(page, root, editor):
    block(root, "1B0").focus()
    press(page, editor, "Alt+ArrowLeft")
    verdict = root.locator(".pl-verdict")
    expect(verdict).to_have_attribute("aria-live", "polite")
    expect(verdict).to_have_text("The schedule deadlocks: 1B0 waits for 1F0, which comes after it on rank 1.")
    edge = root.locator('[data-edge="1F0-1B0"]')
    expect(edge).to_have_count(1)
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    over = "rgb(243, 124, 30)" if is_dark else "rgb(213, 94, 0)"  # of theme.DARK and theme.LIGHT
    assert edge.evaluate("n => getComputedStyle(n).stroke") == over
    assert edge.evaluate("n => getComputedStyle(n).strokeDasharray") != "none"
    drawn, waiting, needed = edge.bounding_box(), block(root, "1B0").bounding_box(), block(root, "1F0").bounding_box()
    assert drawn["x"] == pytest.approx(waiting["x"] + waiting["width"] / 2, abs=8)
    assert drawn["x"] + drawn["width"] == pytest.approx(needed["x"] + needed["width"] / 2, abs=8)
    assert drawn["y"] + drawn["height"] == pytest.approx(waiting["y"], abs=8), "it ends on the block it names"
    expect(root.locator(".pl-score")).to_have_text("no score while illegal")
    press(page, editor, "Alt+ArrowRight")
    expect(edge).to_have_count(0)


@bench.both_schemes
def test_axe_finds_nothing_in_an_illegal_order_or_beside_a_run(page, root, editor):
    editor.run_it()
    bench.push(page, editor, *NAMES)
    expect(root.locator(".pl-ran > span")).to_have_count(12)
    assert bench.findings(page) == []
    editor.do("move", "1B0", to=0)
    bench.push(page, editor, *NAMES)
    expect(root.locator(".pl-edge").first).to_be_attached()
    assert bench.findings(page) == []


def test_memory_over_the_limit_is_marked(page, root, editor):
    block(root, "0F2").focus()
    press(page, editor, "Alt+ArrowLeft")
    expect(root.locator(".pl-head").first).to_contain_text("holds 3 of 2: too many")
    expect(root.locator(".pl-memory.pl-over")).to_have_count(1)
    expect(root.locator(".pl-verdict")).to_contain_text("more than the limit of 2")


def test_the_legend_names_what_memory_is_counted_in(page):
    root = bench.mount(page, show.ScheduleEditor(interleaved(2, 4), memory_limit=3))
    expect(root.locator(".pl-of-held")).to_have_text("micro-batches of 2 stages held")
    expect(root.locator(".pl-head").first).to_contain_text("holds 2.5 of 3")
    expect(root.locator(".pl-title")).to_contain_text("memory limit 3 micro-batches of 2 stages")


@bench.both_schemes
def test_run_draws_what_was_measured_and_refuses_while_illegal(page, root, editor):
    button = root.get_by_role("button", name="Run it")
    button.click()
    answer(page, editor)
    expect(root.locator(".pl-ran span")).to_have_count(12)
    expect(root.locator(".pl-measured")).to_contain_text("engine emulated (sleep): makespan")
    expect(root.locator(".pl-head").first).to_contain_text("emulated")
    block(root, "1B0").focus()
    press(page, editor, "Alt+ArrowLeft")
    expect(root.locator(".pl-ran span")).to_have_count(0)
    expect(button).to_have_attribute("aria-disabled", "true")
    button.focus()
    page.keyboard.press("Enter")
    answer(page, editor)
    expect(root.get_by_role("alert")).to_contain_text("An illegal schedule is not run: the schedule deadlocks")


def test_the_solver_is_asked_and_its_order_shown(page):
    class Optimum:
        schedule, makespan, bound, proven = gpipe(2, 2), 9, 9, True

    page.emulate_media(reduced_motion="no-preference")
    editor = show.ScheduleEditor(one_f_one_b(2, 2), par=lambda: Optimum)
    root = bench.mount(page, editor)
    expect(root.get_by_role("button", name="Run it")).to_be_hidden()
    expect(root.locator(".pl-score")).to_be_hidden()
    root.get_by_role("button", name="Ask the solver").click()
    answer(page, editor)
    expect(root.locator(".pl-par")).to_have_text("par 9, proven by the solver: no order is shorter")
    expect(root.locator(".pl-score")).to_have_text("par")
    root.get_by_role("button", name="Show the solver's order").click()
    answer(page, editor)
    assert order(root, 0) == ["0F0", "0F1", "0B0", "0B1"]
    root.get_by_role("button", name="Split every B").click()  # blocks that go while others glide
    answer(page, editor)
    expect(root).to_have_attribute("data-pl-state", "ready")
    expect(root.get_by_role("gridcell")).to_have_count(12)


def test_a_pasted_csv_is_loaded_and_a_bad_one_is_a_sentence(page, root, editor):
    root.get_by_text("CSV: copy this schedule").click()
    field = root.get_by_label("Schedule as CSV")
    expect(field).to_have_value(editor.schedule.to_csv().strip())
    field.fill("0F0,0Q0")
    root.get_by_role("button", name="Split every B").focus()
    page.evaluate("window.model.set('busy', 'Running.')")
    page.evaluate("window.model.set('busy', '')")
    expect(field).to_have_value("0F0,0Q0")
    root.get_by_role("button", name="Load this CSV").click()
    answer(page, editor)
    expect(root.get_by_role("alert")).to_contain_text("'0Q0' is no action")
    expect(field).to_have_value("0F0,0Q0")
    field.fill(Schedule.of([["0F0", "0B0"], ["1F0", "1B0"], ["2F0", "2B0"]]).to_csv())
    root.get_by_role("button", name="Load this CSV").click()
    answer(page, editor)
    expect(root.get_by_role("row")).to_have_count(3)
    expect(root.get_by_role("gridcell")).to_have_count(6)
    expect(root.get_by_role("alert")).to_be_hidden()


def test_eight_ranks_fit_and_the_buttons_stay_in_sight_after_a_run(page):
    page.set_viewport_size({"width": 1070 + 32, "height": 720})
    editor = show.ScheduleEditor(one_f_one_b(8, 16), memory_limit=8, run=run_emulated)
    root = bench.mount(page, editor)
    page.locator("#outside").evaluate("node => node.remove()")
    assert root.bounding_box()["width"] == 1070
    root.get_by_role("button", name="Run it").click()
    answer(page, editor)
    expect(root.locator(".pl-ran > span")).to_have_count(256)
    assert page.evaluate("window.scrollY") == 0
    board = root.locator(".pl-board")
    assert board.evaluate("node => node.scrollWidth <= node.clientWidth")
    assert board.bounding_box()["y"] + board.bounding_box()["height"] <= 720
    boxes = root.locator(".pl-bars button:visible").evaluate_all(
        "all => all.map((n) => n.getBoundingClientRect().bottom)"
    )
    assert len(boxes) == 10
    assert max(boxes) < board.bounding_box()["y"]
    numbers = root.locator(".pl-block:has-text('15')").evaluate_all(
        "all => all.every((n) => n.scrollWidth <= n.clientWidth)"
    )
    assert numbers and root.locator(".pl-block:has-text('15')").count() == 16


def test_later_stages_are_pale_and_idle_time_is_the_darkest_of_all(page):
    root = bench.mount(page, show.ScheduleEditor(interleaved(2, 4)))
    fills = {name: bench.brightness(block(root, name).evaluate(FILL)) for name in ("0F0", "2F0", "0B0", "2B0")}
    idle = bench.brightness(root.locator(".pl-legend .pl-idle").evaluate(INK_OF_IDLE))
    assert fills["2F0"] > fills["0F0"] + 30 and fills["2B0"] > fills["0B0"] + 20
    assert idle < min(fills.values()) - 100
    expect(root.locator(".pl-of-later")).to_be_visible()
    bars = {name: block(root, name).evaluate(BARS) for name in ("0F0", "0B0")}
    assert bars == {"0F0": ["3px", "1px"], "0B0": ["1px", "3px"]}
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.pl-widget')).getPropertyValue('--look-ground') === '#000000'"
    )
    dark = bench.brightness(block(root, "0F0").evaluate(FILL))
    assert dark < fills["0F0"] - 50
    assert bench.brightness(root.locator(".pl-legend .pl-idle").evaluate(INK_OF_IDLE)) > dark + 100


def test_our_keys_stop_at_the_widget_and_others_pass(page, root):
    page.evaluate(bench.PASSED)
    block(root, "0F0").focus()
    for key in ("ArrowRight", "Alt+ArrowLeft", "Space", "Escape", "Control+z", "Control+s", "F1"):
        page.keyboard.press(key)
    root.get_by_role("button", name="Reset").focus()
    page.keyboard.press("x")  # which cuts a cell in JupyterLab
    assert page.evaluate("window.passed") == ["Alt", "Control", "Control", "s", "F1"]
    assert page.url == "about:blank"


def test_a_button_that_has_nothing_left_to_do_keeps_the_focus(page, root, editor):
    block(root, "1B0").focus()
    press(page, editor, "Alt+ArrowRight")
    for name in ("Undo", "Redo", "Split every B", "Merge all", "Reset"):
        button = root.get_by_role("button", name=name)
        button.focus()
        press(page, editor, "Enter")
        expect(button).to_be_focused()
        expect(button).to_have_attribute("aria-disabled", "true")
    root.get_by_role("button", name="Redo").focus()
    press(page, editor, "Enter")
    expect(root.locator(".pl-live")).to_contain_text("Nothing to redo: legal")


def test_the_focus_goes_on_when_its_button_goes(page):
    editor = show.ScheduleEditor(one_f_one_b(2, 2), par=lambda: 9)
    root = bench.mount(page, editor)
    for is_order_known in (False, True):
        if is_order_known:
            par = type("Optimum", (), {"schedule": gpipe(2, 2), "makespan": 9, "bound": 9, "proven": True})
            editor = show.ScheduleEditor(one_f_one_b(2, 2), par=lambda par=par: par)
            root = bench.mount(page, editor)
        root.get_by_role("button", name="Ask the solver").focus()
        press(page, editor, "Enter")
        expect(root.get_by_role("button", name="Ask the solver")).to_be_hidden()
        expect(root.locator(":focus")).to_have_text("Show the solver's order" if is_order_known else "Show as table")


def test_undo_works_from_a_button_and_a_text_has_its_own(page, root, editor):
    root.get_by_role("button", name="Split every B").focus()
    press(page, editor, "Enter", "Control+z")
    expect(root.get_by_role("gridcell")).to_have_count(12)
    root.get_by_text("CSV: copy this schedule").click()
    root.get_by_label("Schedule as CSV").press("Control+y")
    assert page.evaluate("window.model.get('commands').at(-1).verb") == "undo"


def test_the_same_trouble_is_said_again(page, root, editor):
    block(root, "1B0").focus()
    press(page, editor, "Alt+ArrowLeft")
    alert = root.locator(".pl-error")
    root.get_by_role("button", name="Run it").focus()
    press(page, editor, "Enter")
    expect(alert).to_contain_text("An illegal schedule is not run")
    page.keyboard.press("Enter")
    expect(alert).to_have_text("")
    editor.commands = page.evaluate("window.model.get('commands')")
    bench.push(page, editor, "done")  # all that has changed for the kernel
    expect(alert).to_contain_text("An illegal schedule is not run")


def test_a_kernel_that_does_not_answer_is_said(page, root, editor):
    block(root, "1B0").focus()
    page.keyboard.press("Alt+ArrowRight")
    expect(root.locator(".pl-busy")).to_have_text("Waiting for the kernel, which is at work.")
    answer(page, editor)
    expect(root.locator(".pl-busy")).to_be_empty()


def test_in_the_table_the_split_button_keeps_up(page, root, editor):
    block(root, "1B0").focus()
    root.get_by_role("button", name="Show as table").click()
    root.get_by_role("button", name="Split every B").click()
    answer(page, editor)
    root.get_by_role("button", name="Merge 1I0 and 1W0").click()
    answer(page, editor)
    expect(root).to_have_attribute("data-pl-state", "ready")
    expect(root.get_by_role("button", name="Split 1B0")).to_be_visible()
    root.get_by_role("button", name="Show as table").click()
    assert order(root, 1) == ["1F0", "1B0", "1F1", "1I1", "1W1", "1F2", "1I2", "1W2"]


def test_a_circle_of_waiting_is_drawn_closed(page):
    schedule = Schedule.of([["0F0", "0B0", "0F1", "0B1"], ["1F1", "1F0", "1B0", "1B1"]])
    root = bench.mount(page, show.ScheduleEditor(schedule))
    assert {one.get_attribute("data-edge") for one in root.locator(".pl-edge").all()} == {"1B0-0B0", "0F1-1F1"}
    brackets = root.locator(".pl-bracket")
    assert {one.get_attribute("data-bracket") for one in brackets.all()} == {"0B0-0F1", "1F1-1B0"}
    front, behind = block(root, "1F1").bounding_box(), block(root, "1B0").bounding_box()
    drawn = root.locator('[data-bracket="1F1-1B0"]').bounding_box()
    assert front["x"] < drawn["x"] < front["x"] + front["width"]
    assert behind["x"] < drawn["x"] + drawn["width"] < behind["x"] + behind["width"]
    invalid = root.locator('[aria-invalid="true"]').evaluate_all("all => all.map((n) => n.dataset.id)")
    assert set(invalid) == {"0B0", "0F1", "1F1", "1B0"}
    expect(root.locator(".pl-axis-name")).to_contain_text("dotted brackets from what stands in front")


def take(page, root, action, x, y=0):
    """Press on a block and move by x and y, in steps; the button stays down."""
    box = block(root, action).bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 10 + x, box["y"] + 10 + y, steps=4)


def test_a_drop_far_outside_puts_the_block_back(page, root):
    take(page, root, "1B1", -250, 400)
    expect(root.locator(".pl-slot")).to_be_hidden()
    page.mouse.up()
    expect(root.locator(".pl-live")).to_have_text("1B1 let go outside the board, so it stays where it was.")
    assert page.evaluate("window.model.get('commands')") == []
    assert block(root, "1B1").evaluate("n => n.style.transform") == ""


def test_a_drag_goes_on_when_the_board_is_drawn_again(page, root, editor):
    take(page, root, "1B1", -200)
    editor.run_it()
    answer(page, editor)
    expect(root.locator(".pl-ran span")).to_have_count(12)
    hand = root.locator(".pl-slot").bounding_box()
    page.mouse.move(block(root, "1F1").bounding_box()["x"] + 3, hand["y"] + 5)
    page.mouse.up()
    answer(page, editor)
    assert order(root, 1) == ["1F0", "1B0", "1B1", "1F1", "1F2", "1B2"]


def test_a_dragged_block_that_is_gone_ends_the_drag(page, root, editor):
    take(page, root, "1B1", -60)
    editor.do("split_all")
    answer(page, editor)
    expect(root.locator(".pl-slot")).to_be_hidden()
    page.mouse.move(5, 5)
    page.mouse.up()
    block(root, "1F0").focus()
    page.keyboard.press("ArrowRight")
    expect(block(root, "1I0")).to_be_focused()
    assert page.evaluate("window.model.get('commands')") == []


def test_at_an_end_of_the_board_it_scrolls_along(page):
    page.set_viewport_size({"width": 420, "height": 900})
    editor = show.ScheduleEditor(one_f_one_b(2, 14))  # too long for a page this narrow
    root = bench.mount(page, editor)
    board = root.locator(".pl-board").bounding_box()
    box = block(root, "1F0").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(board["x"] + board["width"] - 4, box["y"] + 5, steps=3)
    at_the_end = """() => {
        const board = document.querySelector(".pl-board");
        return board.scrollLeft > 0 && board.scrollLeft + board.clientWidth >= board.scrollWidth - 1;
    }"""
    page.wait_for_function(at_the_end)
    page.mouse.up()
    answer(page, editor)
    assert order(root, 1)[-1] == "1F0"


AGAIN = """async ([source]) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const place = document.body.appendChild(document.createElement("div"));
  (await import(address)).default.render({ model: window.model, el: place });
}"""


def test_two_views_show_one_schedule_and_only_one_takes_the_focus(page, root, editor):
    page.evaluate(AGAIN, [str(editor._esm)])
    first, second = root.first, root.nth(1)
    block(second, "1B0").focus()
    press(page, editor, "Alt+ArrowRight")
    block(first, "1B1").focus()
    press(page, editor, "Alt+ArrowRight")
    assert order(first, 1) == order(second, 1) == ["1F0", "1F1", "1B0", "1F2", "1B1", "1B2"]
    expect(block(first, "1B1")).to_be_focused()
    block(second, "1B0").focus()
    press(page, editor, "Control+z")
    expect(block(second, "1B0")).to_be_focused()


def test_style_sheets_of_other_widgets_on_the_page_change_nothing(page, root, editor):
    block(root, "1B0").focus()
    press(page, editor, "Alt+ArrowLeft")
    parts = ".pl-block, .pl-edge, .pl-memory, .pl-key, .pl-axis span, .pl-score, .pl-numbers"
    places = f"root => [...root.querySelectorAll('{parts}')].map((n) => JSON.stringify(n.getBoundingClientRect()))"
    before = root.evaluate(places)
    for path in sorted(Path(show.__file__).parent.rglob("*.css")):
        if path.name not in ("common.css", "schedule_editor.css"):
            page.add_style_tag(content=path.read_text())
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    bench.push(page, editor, "view")
    assert root.evaluate(places) == before


@bench.both_schemes
def test_the_table_says_the_same(root, page, editor):
    root.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-board")).to_be_hidden()
    expect(root.locator("th")).to_have_text(["Rank", "Place", "Action", "Kind", "From", "To"])
    expect(root.locator("tbody tr").nth(1).locator("td")).to_have_text(["rank 0", "2", "0F1", "forward", "1", "2"])
    root.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-board")).to_be_visible()


def test_blocks_fit_their_letters_and_unmounting_cleans_up(page):
    schedule = split_backwards(one_f_one_b(6, 12))  # W is the widest letter
    root = bench.mount(page, show.ScheduleEditor(schedule, projector=True))
    assert root.locator(".pl-block").evaluate_all("all => all.every((n) => n.scrollWidth <= n.clientWidth)")
    assert block(root, "0F0").bounding_box()["height"] >= 24
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= 420")
    page.wait_for_function(LAST_TICK_WITHIN_THE_BOARD)  # the board is drawn anew once its width has changed
    box = block(root, "0F3").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(418, box["y"] + 5)  # the board scrolls along, on a timer
    page.evaluate("window.unmount()")
    assert page.evaluate(bench.LISTENERS_LEFT) == 0
    at = page.evaluate("document.querySelector('.pl-board').scrollLeft")
    page.wait_for_timeout(80)
    assert page.evaluate("document.querySelector('.pl-board').scrollLeft") == at
