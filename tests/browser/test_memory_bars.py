"""The memory bars' own JavaScript in a bare page: widths, keys, table."""

import pytest

from pllab import show
from pllab.show.widgets.memory_bars import ZeroStage
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

PLAIN = {"parameters": 4.0, "gradients": 4.0, "optimizer": 8.0}
SMALL = {"parameters": 2.0, "gradients": 2.0, "optimizer": 4.0}
WIDTHS = "node => [...node.children].map((part) => part.getBoundingClientRect().width / node.clientWidth)"


@pytest.fixture
def root(chromium_page):
    stages = [ZeroStage("plain", [PLAIN] * 2, PLAIN), ZeroStage("ZeRO-3", [{**SMALL, "gathered": 0.2}] * 2, SMALL)]
    return bench.mount(chromium_page, show.MemoryBars(stages, unit="bytes per parameter"))


@bench.both_schemes
def test_a_bar_is_as_wide_as_its_numbers(root):
    expect(root.locator(".pl-name")).to_have_text(["rank 0", "rank 1", "closed form"])
    assert root.locator(".pl-space").first.evaluate(WIDTHS) == pytest.approx([0.25, 0.25, 0.5], abs=0.02)
    expect(root.locator(".pl-total")).to_have_text(["16.0"] * 3)


def test_keys_choose_the_stage_and_stay_inside(chromium_page, root):
    slider, live = root.get_by_role("slider", name="Stage"), root.locator(".pl-live")
    slider.focus()
    for key, sentence in [
        ("ArrowRight", "ZeRO-3: a rank holds 8.2 bytes"),
        ("ArrowRight", "ZeRO-3: a rank holds 8.2 bytes"),
        ("0", "plain: a rank holds 16.0 bytes"),
        ("9", "plain: a rank holds 16.0 bytes"),
        ("1", "ZeRO-3: a rank holds 8.2 bytes"),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_contain_text(sentence)
    assert chromium_page.evaluate("window.model.get('stage')") == 1
    expect(slider).to_have_attribute("aria-valuetext", "ZeRO-3")
    expect(root.get_by_role("img")).to_have_attribute("aria-label", live.text_content())
    expect(root.locator(".pl-space").first.locator(".pl-part")).to_have_text(["P", "", "G", "O"])  # no room for a word


@bench.both_schemes
def test_the_table_has_all_stages(root):
    root.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-bars")).to_be_hidden()
    expect(root.locator("tbody tr")).to_have_count(6)
    last = root.locator("tbody tr").last.locator("td")
    expect(last).to_have_text(["ZeRO-3", "closed form", "2.00", "0.00", "2.00", "4.00", "8.00"])
