"""The cut editor's own JavaScript in a bare page: keys, mouse, announcements, table."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect


@pytest.fixture
def editor():
    names = ["embed", "block 0", "block 1", "block 2", "head"]
    return show.CutEditor([1, 10, 10, 10, 30], [2, 3], names=names, best=[4, 1], title="one batch")


@pytest.fixture
def root(chromium_page, editor):
    return bench.mount(chromium_page, editor)


def said(editor, cuts, show_best=False):
    """Python's words for a cut."""
    editor.cuts, editor.show_best = cuts, show_best
    return editor.sentence


@bench.both_schemes
def test_it_is_drawn_with_the_words_of_python(root, editor):
    expect(root.locator(".pl-layer")).to_have_count(5)
    expect(root.locator(".pl-live")).to_have_text(editor.sentence)
    expect(root.locator(".pl-sum.pl-slowest text")).to_have_text("stage 1: 50 ms, slowest")
    expect(root.locator(".pl-layer.pl-slowest")).to_have_count(3)


def test_keys_move_the_line_and_stay_inside(chromium_page, root, editor):
    line = root.get_by_role("slider", name="Cut 1")
    chromium_page.locator("#outside").focus()
    chromium_page.keyboard.press("Tab")
    expect(line).to_be_focused()
    for key, cut in [("ArrowDown", 3), ("ArrowRight", 4), ("ArrowDown", 4), ("Home", 1), ("ArrowUp", 1), ("End", 4)]:
        chromium_page.keyboard.press(key)
        expect(line).to_have_attribute("aria-valuenow", str(cut))
        expect(root.locator(".pl-live")).to_have_text(said(editor, [cut]))
    chromium_page.keyboard.press("Control+ArrowUp")
    chromium_page.keyboard.press("ArrowLeft")
    expect(line).to_have_attribute("aria-valuetext", "after block 1")
    assert chromium_page.evaluate("window.model.get('cuts')") == [3]


def test_the_mouse_drags_the_line(chromium_page, root):
    box = root.locator(".pl-knob").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    chromium_page.mouse.move(x, y)
    chromium_page.mouse.down()
    chromium_page.mouse.move(x, y + 30)
    chromium_page.mouse.move(x, y + 53)
    chromium_page.mouse.up()
    chromium_page.mouse.move(x, y - 26)  # the button is up: nothing follows
    assert chromium_page.evaluate("window.model.get('cuts')") == [4]


def test_the_best_cut_is_shown_on_demand(chromium_page, root, editor):
    expect(root.locator(".pl-best")).to_have_count(0)
    button = root.get_by_role("button", name="Show the best cut")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(root.locator(".pl-best")).to_have_count(1)
    expect(root.locator(".pl-live")).to_have_text(said(editor, [2], show_best=True))
    root.get_by_role("slider").focus()
    chromium_page.keyboard.press("End")
    expect(root.locator(".pl-live")).to_have_text(said(editor, [4], show_best=True))


def test_two_lines_never_cross(chromium_page):
    root = bench.mount(chromium_page, show.CutEditor([1, 1, 1, 1], [1, 1, 2]))
    expect(root.get_by_role("button", name="Show the best cut")).to_have_count(0)
    root.get_by_role("slider", name="Cut 1").focus()
    chromium_page.keyboard.press("End")
    assert chromium_page.evaluate("window.model.get('cuts')") == [1, 2]
    root.get_by_role("slider", name="Cut 2").focus()
    chromium_page.keyboard.press("End")
    assert chromium_page.evaluate("window.model.get('cuts')") == [1, 3]


@bench.both_schemes
def test_the_table_says_the_same(chromium_page, root):
    toggle = root.get_by_role("button", name="Show as table")
    toggle.click()
    expect(root.locator(".pl-cut-picture")).to_be_hidden()
    expect(root.locator("th")).to_have_text(["Layer", "Cost", "Stage", "Cost of the stage", "Slowest"])
    last = root.locator("tbody tr").last.locator("td")
    expect(last).to_have_text(["head", "30 ms", "stage 1", "50 ms", "slowest"])
    chromium_page.evaluate("window.model.set('cuts', [4])")
    expect(last).to_have_text(["head", "30 ms", "stage 1", "30 ms", ""])
    toggle.click()
    expect(root.locator(".pl-cut-picture")).to_be_visible()
    expect(root.get_by_role("slider")).to_have_attribute("aria-valuenow", "4")


def test_a_line_is_thick_enough_to_catch_and_a_narrow_page_redraws(chromium_page, root):
    assert root.locator(".pl-catch").bounding_box()["height"] >= 24
    chromium_page.set_viewport_size({"width": 420, "height": 900})
    chromium_page.wait_for_function("document.querySelector('.pl-cut-picture svg').clientWidth < 420")
