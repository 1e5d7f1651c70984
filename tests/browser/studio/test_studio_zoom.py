"""The studio from afar and from near: zoom, and sizes too large for boxes."""

import re
from itertools import pairwise

import pytest

from pllab import show
from pllab.show.theme import LIGHT
from pllab.simulate import Costs
from tests.browser.studio.studio_screen import (
    WRITTEN_ON,
    Plot,
    contrast,
    live_of,
    mount,
    open_drawer,
)

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect


# Zoom and pan


def test_only_the_wheel_with_ctrl_zooms_and_the_plain_one_scrolls_the_page(chromium_page, root):
    plot = Plot(root)
    chromium_page.evaluate(
        "document.body.append(Object.assign(document.createElement('p'), { style: 'height: 3000px' }))"
    )
    whole = plot.picture()
    plot.point(1, 20)
    chromium_page.mouse.wheel(0, 200)
    chromium_page.wait_for_function("window.scrollY > 100")
    assert plot.picture() == whole
    chromium_page.evaluate("window.scrollTo(0, 0)")
    chromium_page.wait_for_function("window.scrollY === 0")
    plot.point(1, 20.0)
    chromium_page.keyboard.down("Control")
    chromium_page.mouse.wheel(0, -208)
    chromium_page.keyboard.up("Control")
    differs = "([node, old]) => node.toDataURL() !== old"
    chromium_page.wait_for_function(differs, arg=[plot.base.element_handle(), whole])
    assert chromium_page.evaluate("window.scrollY") == 0
    zoomed = plot.picture()
    expect(live_of(root)).to_contain_text("rank 1")
    times = axis_of(root)
    assert 6 < times[0] <= 20 <= times[-1] < 32, "the time under the pointer stays"
    plot.pic.focus()
    chromium_page.mouse.move(2, 2)
    box = plot.pic.bounding_box()
    chromium_page.mouse.move(box["x"] + 400, box["y"] + 60)  # zoomed: a drag moves
    chromium_page.mouse.down()
    chromium_page.mouse.move(box["x"] + 300, box["y"] + 60)
    chromium_page.mouse.up()
    assert plot.picture() != zoomed
    assert axis_of(root)[-1] > times[-1] or axis_of(root)[0] > times[0]
    for back in ("0", "Escape"):
        plot.pic.focus()
        chromium_page.keyboard.press(back)
        chromium_page.mouse.move(2, 2)
        assert plot.picture() == whole
        chromium_page.keyboard.press("+")
        assert plot.picture() != whole
    chromium_page.keyboard.press("Escape")
    drawer = open_drawer(root)
    drawer.get_by_role("button", name="Zoom in").click()
    assert plot.picture() != whole
    drawer.get_by_role("button", name="Fit").click()
    assert plot.picture() == whole


def axis_of(root):
    """The times below the plots, in seconds."""
    texts = root.locator(".pl-axis canvas").evaluate(WRITTEN_ON)
    return [float(one.removesuffix(" s")) for one in texts]


# Large sizes


def test_32_by_256_is_woven_and_not_moire(chromium_page):
    """Neighbouring columns of the steady phase hardly differ, its lanes are F above B, and long waits stay sharp."""
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    studio = show.BubbleStudio("1F1B", 32, 256, Costs(1.0, 0.9, 0.5, p2p=0.1))
    root = mount(chromium_page, studio, with_kernel=False)
    long = studio.timeline.makespan
    plot = Plot(root, view=(0, long), ranks=32)
    for rank in (1, 16, 30):
        place, end = plot.at(rank, 0.35 * long), plot.at(rank, 0.65 * long)
        wide, high = int(end.x - place.x), int(place.box)
        cells = [colour for colour, _ in plot.pixels(int(place.x), int(place.y), wide, high)]
        rows = [cells[y * wide : (y + 1) * wide] for y in range(high)]
        jumps = sum(contrast(*two) > 1.12 for row in rows for two in pairwise(row))
        assert jumps < 0.01 * wide * high, f"{jumps} of {wide * high} neighbours differ on rank {rank}"
        blue, orange = (int(rows[at][wide // 2][5:7], 16) - int(rows[at][wide // 2][1:3], 16) for at in (1, -3))
        assert blue > 0 > orange, "forward lies above backward"
    for rank, time in ((31, 10.0), (31, long - 10.0), (16, 4.0)):
        assert plot.idle_at(rank, time) == {LIGHT.idle}, "idle time before and after is one ink"
    place = plot.at(31, 0)
    row = [colour for colour, _ in plot.pixels(place.x, place.y + place.box / 2, plot.at(31, long).x - place.x)]
    waits = sum(colour == LIGHT.idle for colour in row) / len(row)
    ends = span_of_rank(studio, 31)
    assert waits == pytest.approx(1 - (ends[1] - ends[0]) / long, abs=0.02)
    plot.point(16, 0.5 * long)
    expect(live_of(root)).to_contain_text("rank 16")
    plot.pic.focus()
    for _ in range(6):
        chromium_page.keyboard.press("+")
    assert any(re.fullmatch(r"[FB]?\d+", one) for one in plot.words()[40:]), "boxes again when zoomed in"


def span_of_rank(studio, rank):
    spans = [one for one in studio.timeline.spans if one.rank == rank]
    return min(one.start for one in spans), max(one.end for one in spans)
