"""The schedule editor's own JavaScript in a bare page: drag, keys, split, undo, edges, run, an empty board."""

import pytest

from pllab import show
from pllab.schedule import gpipe, interleaved, one_f_one_b, split_backwards
from pllab.simulate import Costs, simulate
from tests.browser import bench
from tests.browser.bench import block, expect, order
from tests.show.recorded import emulate

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

LAST_TICK_WITHIN_THE_BOARD = """() => {
  const board = document.querySelector(".pl-board");
  board.scrollLeft = 1e6;
  const tick = [...board.querySelectorAll(".pl-axis span")].at(-1);
  return tick.getBoundingClientRect().right <= board.getBoundingClientRect().right;
}"""
EACH_FITS = "all => all.every((node) => node.scrollWidth <= node.clientWidth)"
INK_OF_IDLE = "node => getComputedStyle(node).backgroundImage.match(/rgb[^)]*[)]/)[0]"


@pytest.fixture
def editor():
    return show.ScheduleEditor(one_f_one_b(2, 3), memory_limit=2, par=10, run=emulate)


@pytest.fixture
def page(chromium_page):
    chromium_page.emulate_media(reduced_motion="reduce")
    return chromium_page


@pytest.fixture
def root(page, editor):
    return bench.mount(page, editor)


def answer(page, editor):
    """Wait until Python has answered every message."""
    page.wait_for_function("!window.model.unanswered")
    bench.push(page, editor, "view")


def press(page, editor, *keys):
    bench.press(page, *keys)
    answer(page, editor)


def move(page, root, editor, action, key):
    block(root, action).focus()
    press(page, editor, key)


def click(page, root, editor, name):
    root.get_by_role("button", name=name).click()
    answer(page, editor)


def asked(page):
    """The messages that the browser has sent."""
    return page.evaluate("window.model.asked")


@bench.both_schemes
def test_blocks_stand_at_their_times_with_the_words_of_python(root, editor):
    expect(root.get_by_role("row")).to_have_count(2)
    expect(root.get_by_role("gridcell")).to_have_count(12)
    expect(root.locator(".pl-verdict")).to_have_text(editor.view["verdict"][0])
    expect(root.locator(".pl-bar span")).to_have_text(["par 10", *editor.view["numbers"]])
    expect(root.locator(".pl-score")).to_have_text("2 over par")
    expect(block(root, "1B0")).to_have_attribute(
        "aria-label", "B0, backward of micro-batch 0 on stage 1, place 2 of 6 on rank 1, on the critical path"
    )
    outlined = root.locator(".pl-block.pl-critical").evaluate_all("all => all.map((n) => n.dataset.id)")
    assert set(outlined) == {b["id"] for row in editor.view["rows"] for b in row["blocks"] if b["is_critical"]}
    assert bench.style_of(block(root, outlined[0]), "outlineWidth") == "2px"
    first, last = block(root, "0F0").bounding_box(), block(root, "0B2").bounding_box()
    assert last["width"] == pytest.approx(2 * first["width"], abs=1)
    assert last["x"] - first["x"] == pytest.approx(10 * first["width"], abs=2), "0B2 starts at 10"


def grasp(page, root, action):
    """Take a block by its middle, where the button stays down: the place in the page."""
    box = block(root, action).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    return x, y


def hold(page, root, action, left):
    """Take a block by its middle and carry it until its left edge is at `left`; the button stays down."""
    before = left_of(root, action)
    x, y = grasp(page, root, action)
    page.mouse.move(x + left - before, y + 2, steps=5)


def drag(page, root, editor, action, left):
    hold(page, root, action, left)
    page.mouse.up()
    answer(page, editor)


def left_of(root, action):
    return block(root, action).bounding_box()["x"]


def test_blocks_make_way_for_a_drag_and_it_falls_where_it_is_seen(page, root, editor):
    width = block(root, "1F1").bounding_box()["width"]
    first, other = left_of(root, "1F1"), left_of(root, "1F2")
    hold(page, root, "1B1", first)
    assert left_of(root, "1B1") == pytest.approx(first, abs=2)
    slot = root.locator(".pl-slot")
    assert slot.bounding_box()["x"] == pytest.approx(first, abs=1)
    assert slot.bounding_box()["width"] == pytest.approx(2 * width, abs=1)
    assert left_of(root, "1F1") == pytest.approx(first + 2 * width, abs=1), "it makes way"
    assert left_of(root, "1F2") == pytest.approx(other, abs=1), "and this one need not"
    page.mouse.up()
    expect(slot).to_have_count(0)
    answer(page, editor)
    assert order(root, 1) == ["1F0", "1B0", "1B1", "1F1", "1F2", "1B2"]
    expect(root.locator(".pl-live")).to_have_text("B1 moved before F1 on rank 1: illegal, 1 problem.")
    expect(block(root, "1B1")).to_be_focused()
    assert block(root, "1F1").evaluate("node => node.style.translate") == ""


@pytest.mark.parametrize("action", ["0F0", "0F1", "0B0", "0B2"])
def test_a_block_falls_into_every_place_whose_slot_is_under_it(page, root, editor, action):
    """Aimed with its left edge at the left edge of where it would stand, from either side, taken by its middle."""
    start = order(root, 0)
    place = start.index(action)
    for to, other in enumerate(start):
        box, own = block(root, other).bounding_box(), block(root, action).bounding_box()
        aim = box["x"] + box["width"] - own["width"] if to > place else box["x"]
        drag(page, root, editor, action, aim)
        rest = [name for name in start if name != action]
        assert order(root, 0) == [*rest[:to], action, *rest[to:]]
        editor.do("reset")
        answer(page, editor)


def test_1f1b_is_built_from_gpipe_by_dragging_alone(page):
    """As one would: for each place of each row, the wanted block is dragged there by sight. Nothing is skipped."""
    wanted = one_f_one_b(4, 4)
    editor = show.ScheduleEditor(gpipe(4, 4))
    root = bench.mount(page, editor)
    for rank in reversed(range(4)):
        for place, action in enumerate(map(str, wanted.rows[rank])):
            there = order(root, rank)[place]
            if there != action:
                drag(page, root, editor, action, left_of(root, there))
            assert order(root, rank)[place] == action
    assert editor.schedule == wanted and editor.view["is_legal"]
    expect(root.locator(".pl-title")).to_contain_text("You built 1F1B.")
    assert [one["verb"] for one in asked(page)] == ["move"] * len(asked(page))


def test_an_empty_board_is_filled_with_next_moves(page, editor):
    page.set_viewport_size({"width": 1100, "height": 720})
    root = bench.mount(page, editor)
    click(page, root, editor, "Empty the board")
    expect(root.locator(".pl-block")).to_have_count(0)
    expect(root.locator("[data-next]")).to_have_text(["F0"])
    expect(root.locator(".pl-score")).to_have_text("not yet complete")
    for action in ("0F0", "0F1", "1F0"):
        root.locator(f'[data-next="{action}"]').click()
        answer(page, editor)
    expect(root.locator(".pl-row").nth(1).locator("[data-next]")).to_have_text(["B0", "F1"])
    last, following = block(root, "1F0").bounding_box(), root.locator("[data-next]").first.bounding_box()
    assert following["x"] >= last["x"] + last["width"]
    root.locator('[data-next="1B0"]').focus()
    for _ in range(9):  # by key, the focus goes on to a next move
        press(page, editor, "Enter")
    assert editor.schedule.num_actions == 12 and editor.view["is_legal"]
    expect(root.locator(".pl-block:focus")).to_have_count(1)
    assert bench.findings(page) == []
    expect(root.locator(".pl-score")).to_contain_text("par")
    click(page, root, editor, "Empty the board")
    root.locator("[data-next]").first.focus()
    press(page, editor, "Control+z")
    assert editor.schedule.num_actions == 12
    expect(root.locator(".pl-block:focus")).to_have_count(1)
    press(page, editor, "Control+y")
    assert editor.schedule.num_actions == 0
    expect(root.locator("[data-next]:focus")).to_have_count(1)


def test_score_and_marks_of_par_and_of_the_order_before_are_above_the_blocks(page, root, editor):
    click(page, root, editor, "Split every B")
    assert root.locator(".pl-bar").bounding_box()["y"] < block(root, "0F0").bounding_box()["y"]
    expect(root.locator(".pl-mark")).to_have_text(["par 10", "before 12"])
    last = block(root, "0W2").bounding_box()
    length = block(root, "0F0").bounding_box()["width"]
    moments = [mark.bounding_box()["x"] for mark in root.locator(".pl-mark").all()]
    end = last["x"] + last["width"]
    makespan = simulate(editor.schedule, Costs()).makespan
    assert moments[0] - end == pytest.approx((10 - makespan) * length, abs=3)
    assert moments[1] - end == pytest.approx((12 - makespan) * length, abs=3)


def test_a_click_a_drag_that_comes_back_and_escape_move_nothing(page, root):
    x, y = grasp(page, root, "1F2")
    page.mouse.up()
    expect(block(root, "1F2")).to_be_focused()
    for end in (lambda: page.mouse.move(x, y), lambda: page.keyboard.press("Escape")):
        page.mouse.down()
        page.mouse.move(x - 200, y)
        expect(root.locator(".pl-slot")).to_have_count(1)
        end()
        page.mouse.up()
        page.mouse.move(x, y)
    assert asked(page) == []
    assert block(root, "1F2").evaluate("n => n.style.translate") == ""


def test_blocks_fit_their_letters_and_a_long_board_scrolls(page):
    schedule = split_backwards(one_f_one_b(6, 12))  # W is the widest letter
    root = bench.mount(page, show.ScheduleEditor(schedule, projector=True))
    assert root.locator(".pl-block").evaluate_all(EACH_FITS)
    assert block(root, "0F0").bounding_box()["height"] >= 24
    page.set_viewport_size({"width": 420, "height": 900})
    page.wait_for_function(LAST_TICK_WITHIN_THE_BOARD)  # the board is drawn anew once its width has changed


def test_arrows_choose_tab_reaches_one_block_and_only_our_keys_stop_at_the_widget(page, root):
    page.evaluate(bench.PASSED)
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
    bench.press(page, "Alt+ArrowLeft", "Control+z", "Control+s", "Meta+s", "F1")
    root.get_by_role("button", name="Reset").focus()
    page.keyboard.press("x")  # which cuts a cell in JupyterLab
    assert page.evaluate("window.passed") == ["Tab", "Alt", "Control", "Control", "s", "Meta", "s", "F1"]
    assert page.url == "about:blank"


def test_s_splits_and_merges_and_the_button_says_which(page, root, editor):
    move(page, root, editor, "1B1", "s")
    assert order(root, 1) == ["1F0", "1B0", "1F1", "1I1", "1W1", "1F2", "1B2"]
    expect(block(root, "1I1")).to_be_focused()
    page.keyboard.press("ArrowRight")
    click(page, root, editor, "Merge I1 and W1")
    assert order(root, 1) == ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]
    block(root, "0F1").focus()
    expect(root.get_by_role("button", name="Split", exact=True)).to_be_disabled()


@bench.both_schemes
def test_an_illegal_order_shows_its_sentence_and_a_dashed_edge(page, root, editor):
    move(page, root, editor, "1B0", "Alt+ArrowLeft")
    verdict = root.locator(".pl-verdict")
    expect(verdict).to_have_attribute("aria-live", "polite")
    expect(verdict).to_have_text(
        "The schedule deadlocks: B0 of rank 1 waits for F0 of rank 1, which comes after it on rank 1."
    )
    edge = root.locator('[data-edge="1F0-1B0"]')
    expect(edge).to_have_count(1)
    invalid = root.locator('[aria-invalid="true"]').evaluate_all("all => all.map((n) => n.dataset.id)")
    assert set(invalid) == {"1F0", "1B0"}
    expect(root.locator(".pl-axis-name")).to_contain_text("cannot run, so it has no times")
    assert bench.style_of(edge, "stroke") == bench.as_drawn(bench.look_of(page).over)
    assert bench.style_of(edge, "strokeDasharray") != "none"
    drawn, waiting, needed = edge.bounding_box(), block(root, "1B0").bounding_box(), block(root, "1F0").bounding_box()
    assert drawn["x"] == pytest.approx(waiting["x"] + waiting["width"] / 2, abs=8)
    assert drawn["x"] + drawn["width"] == pytest.approx(needed["x"] + needed["width"] / 2, abs=8)
    assert drawn["y"] + drawn["height"] == pytest.approx(waiting["y"], abs=8), "it ends on the block it names"
    expect(root.locator(".pl-score")).to_have_text("no score while illegal")
    assert bench.findings(page) == []
    press(page, editor, "Alt+ArrowRight")
    expect(edge).to_have_count(0)


@bench.both_schemes
def test_run_draws_what_was_measured_of_this_order(page, root, editor):
    click(page, root, editor, "Run it")
    expect(root.locator(".pl-ran span")).to_have_count(12)
    expect(root.locator(".pl-measured")).to_contain_text("engine emulated (sleep), in the unit of the costs: ")
    expect(root.locator(".pl-head").first).to_contain_text("emulated")
    assert bench.findings(page) == []
    move(page, root, editor, "1B0", "Alt+ArrowLeft")
    expect(root.locator(".pl-ran span")).to_have_count(0)
    root.get_by_role("button", name="Run it").press("Enter")  # a button that cannot be used says why
    expect(root.get_by_role("alert")).to_contain_text("An illegal schedule is not run")


def test_eight_ranks_fit_and_the_buttons_stay_in_sight_after_a_run(page):
    page.set_viewport_size({"width": 1070 + 32, "height": 720})
    editor = show.ScheduleEditor(one_f_one_b(8, 16), memory_limit=8, run=simulate)
    root = bench.mount(page, editor)
    page.locator("#outside").evaluate("node => node.remove()")
    assert root.bounding_box()["width"] == 1070
    click(page, root, editor, "Run it")
    expect(root.locator(".pl-ran > span")).to_have_count(256)
    assert page.evaluate("window.scrollY") == 0
    board = root.locator(".pl-board")
    assert board.evaluate("node => node.scrollWidth <= node.clientWidth")
    assert board.bounding_box()["y"] + board.bounding_box()["height"] <= 720
    buttons = [button.bounding_box() for button in root.locator(".pl-bars button:visible").all()]
    assert len(buttons) == 8  # of four groups
    assert max(box["y"] + box["height"] for box in buttons) < board.bounding_box()["y"]
    last = root.locator(".pl-block:has-text('15')")
    assert last.count() == 16 and last.evaluate_all(EACH_FITS)


def test_later_stages_are_pale_and_too_much_held_and_idle_time_stand_out(page):
    root = bench.mount(page, show.ScheduleEditor(interleaved(2, 4), memory_limit=2))
    expect(root.get_by_role("button", name="Run it")).to_be_hidden()
    expect(root.locator(".pl-score")).to_be_hidden()  # without a par
    expect(root.locator(".pl-head").first).to_contain_text("holds 2.5 of 2: too many")
    expect(root.locator(".pl-memory.pl-over")).to_have_count(1)
    fills = {name: bench.ground_of(block(root, name)) for name in ("0F0", "2F0", "0B0", "2B0")}
    idle = bench.brightness(root.locator(".pl-legend .pl-idle").evaluate(INK_OF_IDLE))
    assert fills["2F0"] > fills["0F0"] + 30 and fills["2B0"] > fills["0B0"] + 20
    assert idle < min(fills.values()) - 100
    expect(root.locator(".pl-of-later")).to_be_visible()
    for name, bars in (("0F0", ["3px", "1px"]), ("0B0", ["1px", "3px"])):
        assert [bench.style_of(block(root, name), f"border{side}Width") for side in ("Top", "Bottom")] == bars
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('.pl-widget')).getPropertyValue('--look-ground') === '#000000'"
    )
    idle = bench.brightness(root.locator(".pl-legend .pl-idle").evaluate(INK_OF_IDLE))
    assert idle > bench.ground_of(block(root, "0F0")) + 100


def test_a_button_that_has_nothing_left_to_do_keeps_the_focus(page, root, editor):
    move(page, root, editor, "1B0", "Alt+ArrowRight")
    for name in ("Undo", "Redo", "Split every B", "Reset", "Redo"):
        button = root.get_by_role("button", name=name)
        button.focus()
        press(page, editor, "Enter")
        expect(button).to_be_focused()
        expect(button).to_have_attribute("aria-disabled", "true")
    expect(root.locator(".pl-live")).to_contain_text("Nothing to redo: legal")


def test_a_drag_goes_on_when_the_board_is_drawn_again_and_ends_with_its_block(page, root, editor):
    hold(page, root, "1B1", left_of(root, "1B0"))
    editor.run_it()
    answer(page, editor)
    expect(root.locator(".pl-ran span")).to_have_count(12)
    expect(root.locator(".pl-lifted")).to_have_count(1)
    page.mouse.up()
    answer(page, editor)
    assert order(root, 1) == ["1F0", "1B1", "1B0", "1F1", "1F2", "1B2"]
    hold(page, root, "1B1", left_of(root, "1F2"))
    editor.do("split_all")
    answer(page, editor)
    expect(root.locator(".pl-slot")).to_have_count(0)
    page.mouse.up()
    assert len(asked(page)) == 1


def test_two_views_show_one_schedule_and_only_one_takes_the_focus(page, root, editor):
    page.evaluate(bench.SHOW_AGAIN, str(editor._esm))
    first, second = root.first, root.nth(1)
    move(page, second, editor, "1B0", "Alt+ArrowRight")
    move(page, first, editor, "1B1", "Alt+ArrowRight")
    assert order(first, 1) == order(second, 1) == ["1F0", "1F1", "1B0", "1F2", "1B1", "1B2"]
    expect(block(first, "1B1")).to_be_focused()
    move(page, second, editor, "1B0", "Control+z")
    expect(block(second, "1B0")).to_be_focused()
