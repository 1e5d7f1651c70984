"""The gradient fingerprint's own JavaScript in a bare page: keys, list, announcements, table."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

RIGHT = {"wte": [1.0, 2.0], "w": [3.0, 4.0], "b": [5.0], "frozen": None}
WAYS = {
    "summed": {"wte": [2.0, 4.0], "w": [6.0, 8.0], "b": [10.0], "frozen": None},
    "mixed": {"wte": [2.0, -1.0], "w": [3.0, 4.0], "b": None, "frozen": None},
}


@pytest.fixture
def root(chromium_page):
    return bench.mount(chromium_page, show.GradientFingerprint(RIGHT, WAYS, num_ranks=2))


@bench.both_schemes
def test_every_parameter_has_its_ratio_and_the_verdict_is_there(root):
    expect(root.get_by_role("gridcell")).to_have_count(4)
    expect(root.locator(".pl-ratio")).to_have_text(["x 2", "x 2", "x 2", "none"])
    expect(root.locator(".pl-verdict")).to_contain_text("the sum over 2 ranks and not the mean")
    expect(root.locator(".pl-chosen .pl-name")).to_have_text("wte")


def test_keys_choose_a_parameter_and_a_way_and_stay_inside(chromium_page, root):
    grid, live = root.get_by_role("grid"), root.locator(".pl-live")
    grid.focus()
    for key, sentence in [
        ("ArrowRight", "w: the gradient is 2 times the right one"),
        ("End", "frozen: the gradient is None, as it should be"),
        ("ArrowRight", "frozen: the gradient is None, as it should be"),
        ("ArrowLeft", "b: the gradient is 2 times the right one"),
        ("ArrowDown", "b: the gradient is None, and one process has one"),
        ("ArrowDown", "b: the gradient is None, and one process has one"),
        ("Home", "wte: the gradient is no multiple of the right one: 100.0 % of it points elsewhere"),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_have_text(sentence)
    chromium_page.keyboard.press("Control+End")
    active = grid.get_attribute("aria-activedescendant")
    expect(root.locator(f"#{active}")).to_have_attribute("aria-label", live.text_content())
    expect(root.locator(".pl-ratio")).to_have_text(["! 0", "1", "! none", "none"])
    expect(root.get_by_role("combobox", name="Way")).to_have_value("mixed")


def test_list_and_mouse(chromium_page, root):
    root.get_by_role("combobox", name="Way").select_option("mixed")
    expect(root.locator(".pl-verdict")).to_contain_text("mixed: Only wte, b differ (2 of 4)")
    root.get_by_role("gridcell").nth(1).click()
    expect(root.locator(".pl-live")).to_have_text("w: the gradient equals the right one")
    assert chromium_page.evaluate("window.model.get('cell')") == 1


@bench.both_schemes
def test_the_table_says_the_same(root):
    root.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-grid")).to_be_hidden()
    expect(root.locator("tbody tr")).to_have_count(4)
    first = root.locator("tbody tr").first.locator("td")
    expect(first).to_have_text(["wte", "x 2", "wte: the gradient is 2 times the right one"])
