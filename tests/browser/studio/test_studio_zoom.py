"""The studio from afar and from near: zoom, and sizes too large for boxes."""

import re

import pytest

from pllab import show
from pllab.show.theme import LIGHT
from pllab.simulate import Costs
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.studio.studio_screen import WRITTEN_ON, Plot, live_of, mount, open_drawer

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]


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
    plot.point(1, 20)
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
    plot.pic.focus()
    chromium_page.mouse.move(2, 2)
    for key, is_whole in (("0", True), ("+", False), ("Escape", True), ("+", False), ("Escape", True)):
        chromium_page.keyboard.press(key)
        assert (plot.picture() == whole) is is_whole
    drawer = open_drawer(root)
    for name, is_whole in (("Zoom in", False), ("Fit", True)):
        drawer.get_by_role("button", name=name).click()
        assert (plot.picture() == whole) is is_whole


def axis_of(root):
    """The times below the plots, in seconds."""
    texts = root.locator(".pl-axis canvas").evaluate(WRITTEN_ON)
    return [float(one.removesuffix(" s")) for one in texts]


# Large sizes


def test_32_by_256_is_one_tint_beside_the_other(chromium_page):
    """Boxes of about a pixel: nothing but work where a rank works, no outline of it, and long waits stay sharp."""
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    studio = show.BubbleStudio("1F1B", 32, 256, Costs(1.0, 0.9, 0.5))
    root = mount(chromium_page, studio)
    long = studio.timeline.makespan
    plot = Plot(root, view=(0, long), ranks=32)
    tints = [bytes.fromhex(LIGHT.fill_of(kind)[1:]) for kind in "FB"]
    for rank in (1, 16, 30):
        place, end = plot.at(rank, 0.35 * long), plot.at(rank, 0.65 * long)
        row = plot.pixels(int(place.x), int(place.y + place.box / 2), int(end.x - place.x))
        seen = [bytes.fromhex(colour[1:]) for colour, _ in row]
        for channel, ends in enumerate(zip(*tints, strict=True)):
            assert min(ends) - 12 <= min(one[channel] for one in seen), f"idle ink or an outline on rank {rank}"
            assert max(one[channel] for one in seen) <= max(ends) + 1
    for rank, time in ((31, 10.0), (31, long - 10.0), (16, 4.0)):
        assert LIGHT.idle in plot.idle_at(rank, time)
    place = plot.at(31, 0)
    row = [colour for colour, _ in plot.pixels(place.x, place.y + 1, plot.at(31, long).x - place.x)]
    waits = sum(colour[1:] <= LIGHT.idle_stripe[1:] for colour in row) / len(row)
    work = studio.timeline.of_rank(31)
    assert waits == pytest.approx(1 - (work[-1].end - work[0].start) / long, abs=0.02)
    plot.point(16, 0.5 * long)
    expect(live_of(root)).to_contain_text("rank 16")
    plot.pic.focus()
    bench.press(chromium_page, *"++++++++")
    assert any(re.fullmatch(r"[FB]\d+", one) for one in plot.words()[40:]), "boxes again when zoomed in"
