"""The bucket slider's own JavaScript in a bare page: boxes, keys, buttons, announcements, table."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

SIZES = [4096, 1024, 8192, 1024, 1024]


@pytest.fixture
def widget():
    points = [{"bucket_bytes": 1, "seconds": 0.0011, "low": 0.001, "high": 0.0013}]
    return show.BucketSlider(SIZES, 2e-4, 1e-9, points)


@pytest.fixture
def slider(chromium_page, widget):
    return bench.mount(chromium_page, widget)


@bench.both_schemes
def test_boxes_are_messages_and_the_measured_point_is_drawn(slider, widget):
    expect(slider.locator(".pl-strip .pl-box")).to_have_count(5)
    expect(slider.locator(".pl-chart .pl-predicted")).to_have_count(len(widget.choices))
    expect(slider.locator(".pl-chart .pl-measured")).to_have_count(1)
    expect(slider.locator("[aria-live=polite]")).to_have_text(widget.choices[0]["sentence"])


def test_keys_move_the_slider_while_it_has_the_focus(chromium_page, slider, widget):
    live, handle = slider.locator(".pl-live"), slider.get_by_role("slider", name="Size of a bucket")
    handle.focus()
    for key, step in [("ArrowRight", 1), ("End", -1), ("ArrowLeft", -2), ("Home", 0)]:
        chromium_page.keyboard.press(key)
        expect(live).to_have_text(widget.choices[step]["sentence"])
        expect(handle).to_have_attribute("aria-valuetext", widget.choices[step]["sentence"])
        expect(slider.locator(".pl-strip .pl-box")).to_have_count(widget.choices[step]["num_messages"])


def test_the_slider_is_reached_by_tab(chromium_page, slider):
    chromium_page.locator("#outside").focus()
    for _ in range(6):
        chromium_page.keyboard.press("Tab")
        if chromium_page.evaluate("document.activeElement.type === 'range'"):
            return
    pytest.fail("Tab never reached the slider")


def test_buttons_step_and_stop_at_the_ends(slider, widget):
    smaller, larger = slider.get_by_role("button", name="Smaller"), slider.get_by_role("button", name="Larger")
    expect(smaller).to_be_disabled()
    for _ in range(len(widget.choices) - 1):
        larger.click()
    expect(larger).to_be_disabled()
    expect(slider.locator(".pl-live")).to_have_text(widget.choices[-1]["sentence"])


@bench.both_schemes
def test_the_table_says_the_same(slider, widget):
    slider.get_by_role("button", name="Show as table").click()
    expect(slider.locator(".pl-buckets-picture")).to_be_hidden()
    expect(slider.locator("tbody tr")).to_have_count(len(widget.choices))
    cells = slider.locator("tbody tr").first.locator("td")
    expect(cells).to_have_text(["one each", "5", "8.19 kB", "1.02 ms", "1.1 ms", "1 ms to 1.3 ms"])
    slider.get_by_role("button", name="Larger").click()
    expect(slider.locator("tr.pl-running td").first).to_have_text(widget.choices[1]["label"])
