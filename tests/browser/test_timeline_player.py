"""The timeline player's own JavaScript in a bare page: keys, mouse, announcements."""

import pytest

from pllab import show
from pllab.schedule import Action, Kind, gpipe
from pllab.simulate import simulate
from pllab.timeline import Span, Timeline
from tests.browser import bench
from tests.browser.bench import expect
from tests.show.recorded import run_forward_only

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

AT_START = "t = 0 s: rank 0 runs F0, rank 1 is idle"
AT_100 = "t = 100 ms: rank 0 runs F1, rank 1 runs F0"
AT_END = "t = 400 ms: every rank is done"


@pytest.fixture
def timeline():
    return run_forward_only()


@pytest.fixture
def player(chromium_page, timeline):
    return bench.mount(chromium_page, show.TimelinePlayer(timeline))


def test_idle_time_stands_out_and_says_how_long_in_both_themes(chromium_page, player):
    expect(player.locator(".pl-gap")).to_have_text(["idle 100 ms", "idle 100 ms"])
    for scheme, ground, is_strong in (("light", "#FFFFFF", (29, 130)), ("dark", "#000000", (226, 130))):
        chromium_page.emulate_media(color_scheme=scheme)
        chromium_page.wait_for_function(f"document.querySelector('.pl-player').style.cssText.includes('{ground}')")
        places = (player.locator("pattern rect").first, player.locator("[role=gridcell] .pl-box").first)
        slab, work = (bench.brightness(bench.style_of(place, "fill")) for place in places)
        assert abs(slab - is_strong[0]) < 2 and abs(slab - work) > is_strong[1]


def test_boxes_of_one_width_have_one_form_of_label(chromium_page):
    """Twelve equal boxes: where `F11` does not fit, F0 is not written beside it but F above 0, too."""
    spans = [Span(0, Action(0, Kind.F, index), float(index), index + 1.0) for index in range(12)]
    player = bench.mount(chromium_page, show.TimelinePlayer(Timeline.of(spans, "simulated", 1)))
    forms = []
    for width in (1000, 420, 330):
        chromium_page.set_viewport_size({"width": width, "height": 700})
        chromium_page.wait_for_function(f"document.querySelector('.pl-grid svg').clientWidth < {width}")
        cells = player.get_by_role("gridcell")
        lines = [cells.nth(index).locator(".pl-label").count() for index in range(12)]
        assert len(set(lines)) == 1
        forms.append(lines[0])
    assert forms == [1, 2, 2]


def test_keys_buttons_slider_and_mouse_go_from_moment_to_moment(chromium_page, player):
    live, slider = player.locator(".pl-live"), player.get_by_role("slider", name="Time")
    back, forward = (player.get_by_role("button", name=f"Step {way}") for way in ("back", "forward"))
    cell = player.get_by_role("gridcell").nth(5)  # F2 on rank 1
    player.get_by_role("grid").focus()
    press = chromium_page.keyboard.press
    for act, said in [
        (lambda: press("ArrowRight"), AT_100),
        (lambda: press("End"), AT_END),
        (lambda: press("ArrowRight"), AT_END),
        (lambda: press("Home"), AT_START),
        (lambda: press("ArrowLeft"), AT_START),
        (lambda: press("Control+ArrowRight"), AT_START),
        (forward.click, AT_100),
        (lambda: slider.press("Home"), AT_START),
        (cell.click, "t = 300 ms: rank 0 is idle, rank 1 runs F2"),
        (forward.click, AT_END),
    ]:
        act()
        expect(live).to_have_text(said)
        expect(slider).to_have_attribute("aria-valuetext", said)
        assert (back.is_disabled(), forward.is_disabled()) == (said == AT_START, said == AT_END)
    expect(player.get_by_role("grid")).to_be_focused()  # which has the keys of a button that is disabled
    expect(cell.locator("title")).to_have_text("F2 (forward) on rank 1: 300 ms to 400 ms, 100 ms")


def test_space_plays_to_the_end_without_a_flood_of_announcements(own_page, timeline):
    own_page.clock.install()
    player = bench.mount(own_page, show.TimelinePlayer(timeline))
    live = player.locator(".pl-live")
    player.get_by_role("grid").focus()
    own_page.keyboard.press("Space")
    expect(player.get_by_role("button", name="Pause")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "off")
    own_page.clock.run_for(2_000)
    own_page.keyboard.press("Space")
    expect(live).to_have_text(AT_100)
    expect(live).to_have_attribute("aria-live", "polite")
    own_page.keyboard.press("Space")
    own_page.clock.run_for(10_000)
    expect(live).to_have_text(AT_END)
    expect(player.get_by_role("button", name="Play")).to_be_visible()


@pytest.mark.parametrize(("size", "width", "height"), [((4, 8), 1920, 1080), ((8, 16), 1280, 720)])
def test_from_afar_the_picture_is_large_and_nothing_moves_as_it_plays(chromium_page, size, width, height):
    chromium_page.set_viewport_size({"width": width, "height": height})
    player = bench.mount(chromium_page, show.TimelinePlayer(simulate(gpipe(*size)), projector=True))
    assert player.locator(".pl-grid").bounding_box()["height"] > 0.5 * height
    boxes = """node => [...node.children].map((one) => JSON.stringify(one.getBoundingClientRect())).join()"""
    rest = player.evaluate(boxes)
    for _ in range(12):
        chromium_page.keyboard.press("ArrowRight")
        assert player.evaluate(boxes) == rest


def test_from_afar_many_rows_can_be_read_and_scroll(chromium_page):
    chromium_page.set_viewport_size({"width": 1280, "height": 720})
    player = bench.mount(chromium_page, show.TimelinePlayer(simulate(gpipe(64, 2)), projector=True))
    grid, names = player.get_by_role("grid"), player.get_by_role("rowheader")
    tops = names.evaluate_all("all => all.map((one) => one.getBoundingClientRect().y)")
    assert min(one - other for one, other in zip(tops[1:], tops, strict=False)) >= 20
    names.last.scroll_into_view_if_needed()
    box, last = grid.bounding_box(), names.last.bounding_box()
    assert box["y"] <= last["y"] and last["y"] + last["height"] <= box["y"] + box["height"]


def test_a_widget_that_stands_twice_in_a_page_fills_the_window_until_another_does(chromium_page, timeline):
    widget = show.TimelinePlayer(timeline)
    player = bench.mount(chromium_page, widget)
    chromium_page.evaluate(bench.SHOW_AGAIN, str(widget._esm))
    expect(player).to_have_count(2)
    pressed = player.get_by_role("button", name="Projector", pressed=True)
    another = "document.dispatchEvent(new CustomEvent('pl-projector', { detail: document.body }))"
    for leave in (lambda: chromium_page.keyboard.press("Escape"), lambda: chromium_page.evaluate(another)):
        player.first.get_by_role("button", name="Projector").click()
        expect(pressed).to_have_count(2)
        leave()
        expect(pressed).to_have_count(0)
        expect(chromium_page.locator(":popover-open")).to_have_count(0)
