"""The index map's own JavaScript in a bare page: sliders, keys, announcements, table."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

NUMBER = 29


def deal(world_size, epoch, remainder):
    """Cards, two a step; the epoch turns the stack, and "drop" leaves the rest out."""
    order = [(sample + 5 * epoch) % NUMBER for sample in range(NUMBER)]
    if remainder == "drop":
        order = order[: NUMBER - NUMBER % world_size]
    else:
        order += order[: -NUMBER % world_size]
    shares = [order[rank::world_size] for rank in range(world_size)]
    return [[share[start : start + 2] for start in range(0, len(share), 2)] for share in shares]


@pytest.fixture
def widget():
    return show.IndexMap(NUMBER, deal)


@pytest.fixture
def root(chromium_page, widget):
    return bench.mount(chromium_page, widget)


def summary_of(widget, world_size, epoch, remainder):
    return widget.maps[f"{world_size}/{remainder}"][epoch]["summary"]


@bench.both_schemes
def test_squares_and_marks(root, widget):
    expect(root.get_by_role("gridcell")).to_have_count(NUMBER)
    expect(root.get_by_role("row")).to_have_count(3)
    expect(root.locator(".pl-live")).to_have_text(summary_of(widget, 4, 0, "pad"))
    expect(root.locator(".pl-again")).to_have_count(3)
    expect(root.locator(".pl-sample b").nth(5)).to_have_text("r1 s1")
    expect(root.locator(".pl-sample b").nth(0)).to_have_text("r0 s1 +1")
    box = root.get_by_role("gridcell").first.bounding_box()
    assert min(box["width"], box["height"]) >= 24


def test_sliders_and_list_choose_the_map(chromium_page, root, widget):
    live = root.locator("[aria-live=polite]")
    root.get_by_role("slider", name="Epoch").focus()
    chromium_page.keyboard.press("ArrowRight")
    expect(live).to_have_text(summary_of(widget, 4, 1, "pad"))
    root.get_by_role("slider", name="Ranks").focus()
    chromium_page.keyboard.press("Home")
    chromium_page.keyboard.press("ArrowRight")
    expect(live).to_have_text(summary_of(widget, 2, 1, "pad"))
    root.get_by_role("combobox", name="Left over").select_option("drop")
    expect(live).to_have_text(summary_of(widget, 2, 1, "drop"))
    expect(root.locator(".pl-nobody b")).to_have_text("none")
    chosen = ["world_size", "epoch", "remainder"]
    assert chromium_page.evaluate("names => names.map((name) => window.model.get(name))", chosen) == [2, 1, "drop"]


def test_arrow_keys_choose_the_sample_that_is_spelled_out(chromium_page, root, widget):
    grid, info = root.get_by_role("grid"), root.locator(".pl-info")
    sentences = widget.maps["4/pad"][0]["sentences"]
    expect(info).to_have_text(sentences[0])
    grid.focus()
    for key, sample in [
        ("ArrowRight", 1),
        ("ArrowDown", 11),
        ("End", 28),
        ("ArrowRight", 28),
        ("ArrowDown", 28),
        ("ArrowUp", 18),
        ("Home", 0),
        ("ArrowLeft", 0),
    ]:
        chromium_page.keyboard.press(key)
        expect(info).to_have_text(sentences[sample])
    active = grid.get_attribute("aria-activedescendant")
    expect(root.locator(f"#{active}")).to_have_attribute("aria-label", sentences[0])
    root.get_by_role("gridcell").nth(17).click()
    expect(info).to_have_text(sentences[17])


def test_keys_of_the_grid_stop_at_the_widget_and_others_pass(chromium_page, root):
    chromium_page.evaluate(bench.PASSED)
    root.get_by_role("grid").focus()
    for key in ("ArrowDown", "s", "Escape", "Control+ArrowRight"):
        chromium_page.keyboard.press(key)
    assert chromium_page.evaluate("window.passed") == ["Escape", "Control", "ArrowRight"]


@bench.both_schemes
def test_the_table_says_the_same(root, widget):
    toggle = root.get_by_role("button", name="Show as table")
    toggle.click()
    expect(root.locator(".pl-map")).to_be_hidden()
    rows = widget.maps["4/pad"][0]["rows"]
    expect(root.locator("tbody tr")).to_have_count(len(rows))
    expect(root.locator("th")).to_have_text(["Rank", "Step", "Samples"])
    expect(root.locator("tbody tr").last.locator("td")).to_have_text(rows[-1])
    toggle.click()
    expect(root.locator(".pl-map")).to_be_visible()
