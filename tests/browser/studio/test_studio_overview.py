"""The studio from afar and from near: all families as points, zoom and brush, sizes too large for boxes."""

import re

import pytest

from pllab import show
from pllab.show.studio.settings import FAMILIES
from pllab.show.theme import LIGHT, write_percent, write_seconds
from pllab.simulate import Costs
from tests.browser.studio.studio_screen import (
    WRITTEN_ON,
    Plot,
    live_of,
    mount,
    open_drawer,
)

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect


# The overview


def test_the_overview_has_every_family_and_a_click_loads_one(chromium_page, root, studio):
    points = root.locator(".pl-point")
    expect(points).to_have_count(len(FAMILIES) - 1)  # a search would take seconds
    for family in FAMILIES:
        if FAMILIES[family].is_searched:
            continue
        (one,) = show.BubbleStudio(family, 4, 8).state()["runs"]
        numbers = f"{write_percent(one['bubble_fraction'])}, {write_seconds(one['makespan_s'])}"
        label = f"{family}: bubble fraction {numbers}, holds {max(one['most_held']):.3g}"
        expect(root.locator(f"[data-family='{family}']")).to_have_attribute("aria-label", label)

    def shown(*names):
        expect(root.locator(".pl-name")).to_have_text(list(names))
        expect(root.locator(".pl-point.pl-on")).to_have_attribute("data-family", names[0])
        expect(root.locator(".pl-point.pl-vs")).to_have_count(len(names) - 1)
        assert (studio.family, studio.compare) == (names[0], names[1] if len(names) > 1 else "")

    root.locator("[data-family='GPipe'] .pl-hit").click()
    shown("GPipe")
    root.locator("[data-family='ZB-V'] .pl-hit").click(modifiers=["Shift"])
    shown("GPipe", "ZB-V")
    root.locator("[data-family='ZB-V'] .pl-hit").click()
    shown("ZB-V", "GPipe")
    root.get_by_role("combobox", name="Compare with").select_option("ZB-V")
    shown("GPipe", "ZB-V")
    root.get_by_role("combobox", name="Schedule").select_option("ZB-V")
    shown("ZB-V", "GPipe")
    root.locator("[data-family='ZB-V']").focus()
    chromium_page.keyboard.press("ArrowRight")
    name = chromium_page.evaluate("document.activeElement.dataset.family")
    assert name not in ("ZB-V", None)
    chromium_page.keyboard.press("Enter")
    expect(root.locator(".pl-name").first).to_have_text(name)
    texts = root.locator(".pl-rail svg > text")
    assert any("%" in one for one in texts.all_text_contents())
    root.get_by_role("button", name="bubble against memory").click()
    expect(root.get_by_role("button", name="step time against memory")).to_be_visible()
    assert any(one.endswith(" s") for one in texts.all_text_contents())
    heights = {name: root.locator(f"[data-family='{name}'] .pl-dot").bounding_box()["y"] for name in ("GPipe", "ZB-V")}
    assert heights["ZB-V"] > heights["GPipe"], "less time is lower"


# Zoom, pan, brush


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
        chromium_page.keyboard.press("PageDown")
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


def test_a_drag_selects_times_and_z_zooms_into_them(chromium_page, pair):
    studio, root = pair
    one, other = Plot(root, 0), Plot(root, 1)
    whole = one.picture()
    one.drag(1, 6.0, 9.0, 12.0)
    said = live_of(root).text_content()
    assert (
        found := re.match(r"([\d.]+) s to ([\d.]+) s, ([\d.]+) s: 1F1B idle ([\d.]+) %, ZB-H1 idle ([\d.]+) %\.", said)
    )
    begun, over, _, *idle = map(float, found.groups())
    assert begun == pytest.approx(6, abs=0.1) and over == pytest.approx(12, abs=0.1)
    for family, percent in zip(("1F1B", "ZB-H1"), idle, strict=True):
        spans = show.BubbleStudio(family, 4, 8).timeline.spans
        busy = sum(max(0.0, min(over, span.end) - max(begun, span.start)) for span in spans)
        assert percent == pytest.approx(100 * (1 - busy / (4 * (over - begun))), abs=0.06)
    for plot in (one, other):
        assert plot.fill_at(1, 9.0, above=True)[1] == 0 and plot.fill_at(1, 20.0, above=True) == (LIGHT.ground, 158)
    one.pic.focus()
    chromium_page.keyboard.press("z")
    assert 6 <= axis_of(root)[0] and axis_of(root)[-1] <= 12
    chromium_page.mouse.move(2, 2)
    assert one.fill_at(1, 20.0, above=True)[1] == 0
    chromium_page.keyboard.press("Escape")
    assert one.picture() == whole
    one.drag(1, 6.0, 12.0)
    chromium_page.mouse.move(2, 2)
    assert one.fill_at(1, 20.0, above=True)[1] > 0
    chromium_page.keyboard.press("Escape")
    assert one.fill_at(1, 20.0, above=True)[1] == 0
    assert one.picture() == whole, "Escape lets go before it zooms out"
    assert studio.selected == ""


# Large sizes


def test_32_by_256_is_one_tint_beside_the_other(chromium_page):
    """Boxes of about a pixel: nothing but work where a rank works, no outline of it, and long waits stay sharp."""
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    studio = show.BubbleStudio("1F1B", 32, 256, Costs(1.0, 0.9, 0.5))
    root = mount(chromium_page, studio, with_kernel=False)  # whose overview would take long
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
    ends = span_of_rank(studio, 31)
    assert waits == pytest.approx(1 - (ends[1] - ends[0]) / long, abs=0.02)
    plot.point(16, 0.5 * long)
    expect(live_of(root)).to_contain_text("rank 16")
    plot.pic.focus()
    for _ in range(8):
        chromium_page.keyboard.press("+")
    assert any(re.fullmatch(r"[FB]\d+", one) for one in plot.words()[40:]), "boxes again when zoomed in"


def span_of_rank(studio, rank):
    spans = [one for one in studio.timeline.spans if one.rank == rank]
    return min(one.start for one in spans), max(one.end for one in spans)


def test_a_redraw_leaves_the_keyboard_where_it_is(chromium_page, root):
    expect(root.locator(".pl-point")).to_have_count(len(FAMILIES) - 1)
    root.locator(".pl-point[tabindex='0']").focus()
    chromium_page.keyboard.press("ArrowRight")
    here = "document.activeElement.dataset.family"
    before = root.evaluate(here)
    root.locator(".pl-swap").evaluate("(button) => button.click()")  # draws all points anew, and takes no focus itself
    expect(root.locator(".pl-swap")).to_contain_text("step time")
    assert root.evaluate(here) == before
    expect(root.locator(".pl-point[tabindex='0']")).to_have_attribute("data-family", before)
