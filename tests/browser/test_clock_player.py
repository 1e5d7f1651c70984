"""The clock player's own JavaScript in a bare page: grid, keys, sliders, words, table."""

import pytest

from pllab import show
from pllab.pipeline import clock_cycles
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

FIRST = "tick 0: micro-batch 0 on stage 0; idle: stage 1"
SECOND = "tick 1: micro-batch 1 on stage 0, micro-batch 0 on stage 1; nobody is idle"
LAST = "tick 3: micro-batch 2 on stage 1; idle: stage 0"


@pytest.fixture
def player():
    return show.ClockPlayer(clock_cycles, 3, 2)


@pytest.fixture
def root(chromium_page, player):
    return bench.mount(chromium_page, player)


def answer(page, player):
    """Do what the kernel does after a slider moved: take its value, send the new view."""
    for trait in ("num_batches", "num_partitions"):
        setattr(player, trait, page.evaluate(f"window.model.get('{trait}')"))
    page.evaluate(
        "([view, step]) => { window.model.set('step', step); window.model.set('view', view); }",
        [player.view, player.step],
    )


@bench.both_schemes
def test_the_grid_is_drawn_and_its_later_ticks_can_be_read(root):
    expect(root.get_by_role("row")).to_have_count(2)
    expect(root.get_by_role("gridcell")).to_have_count(6)
    expect(root.locator(".pl-runs")).to_have_count(1)
    expect(root.locator(".pl-later")).to_have_count(5)
    expect(root.locator(".pl-numbers")).to_contain_text("bubble fraction, idle / all: 2/8 = 25.0 %")
    expect(root.locator(".pl-numbers")).to_contain_text("bubble overhead, idle / busy: 2/6 = 33.3 %")
    later = root.locator(".pl-later .pl-number").first
    ink = later.evaluate("node => getComputedStyle(node).fill")
    ground = root.evaluate("node => getComputedStyle(node).backgroundColor")
    assert abs(bench.brightness(ink) - bench.brightness(ground)) > 150


def test_keys_step_jump_and_stay_inside(chromium_page, root):
    live = root.locator(".pl-live")
    expect(live).to_have_attribute("aria-live", "polite")
    root.get_by_role("grid").focus()
    for key, sentence in [
        ("ArrowLeft", FIRST),
        ("ArrowRight", SECOND),
        ("End", LAST),
        ("ArrowRight", LAST),
        ("Home", FIRST),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_have_text(sentence)
    chromium_page.keyboard.press("Control+ArrowRight")
    expect(live).to_have_text(FIRST)
    assert chromium_page.evaluate("window.model.get('step')") == 0


def test_a_slider_by_keyboard_redraws_the_grid_and_both_numbers(chromium_page, root, player):
    root.get_by_role("grid").focus()
    chromium_page.keyboard.press("End")
    chromium_page.keyboard.press("Shift+Tab")
    slider = root.get_by_role("slider", name="Stages")
    expect(slider).to_be_focused()
    chromium_page.keyboard.press("ArrowRight")
    chromium_page.keyboard.press("ArrowRight")
    expect(root.locator("output").last).to_have_text("4")
    answer(chromium_page, player)
    expect(root.get_by_role("row")).to_have_count(4)
    expect(root.get_by_role("gridcell")).to_have_count(12)
    expect(root.locator(".pl-title")).to_have_text(
        "3 micro-batches on 4 stages 6 ticks, 12 of 24 cells idle, engine: simulated"
    )
    expect(root.locator(".pl-numbers")).to_contain_text("50.0 %")
    expect(root.locator(".pl-numbers")).to_contain_text("100.0 %")
    expect(root.locator(".pl-live")).to_contain_text("tick 0")


def test_space_plays_to_the_end_without_a_flood_of_announcements(own_page, player):
    own_page.clock.install()
    root = bench.mount(own_page, player)
    live = root.locator(".pl-live")
    root.get_by_role("grid").focus()
    own_page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "off")
    own_page.clock.run_for(800)
    expect(live).to_have_text(SECOND)
    own_page.clock.run_for(5_000)
    expect(live).to_have_text(LAST)
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "polite")


def test_buttons_and_mouse(chromium_page, root):
    live = root.locator(".pl-live")
    expect(root.get_by_role("button", name="Step back")).to_be_disabled()
    root.get_by_role("button", name="Step forward").click()
    expect(live).to_have_text(SECOND)
    root.get_by_role("gridcell", name="tick 3: micro-batch 2 on stage 1").click()
    expect(live).to_have_text(LAST)
    expect(root.get_by_role("button", name="Step forward")).to_be_disabled()
    assert root.get_by_role("button", name="Play").bounding_box()["height"] >= 24


@bench.both_schemes
def test_the_table_says_the_same(root):
    toggle = root.get_by_role("button", name="Show as table")
    toggle.click()
    expect(root.locator(".pl-clock-grid")).to_be_hidden()
    expect(root.locator("th")).to_have_text(["Tick", "Stage 0", "Stage 1"])
    expect(root.locator("tbody tr").nth(1).locator("td")).to_have_text(["1", "micro-batch 1", "micro-batch 0"])
    root.get_by_role("button", name="Step forward").click()
    expect(root.locator("tr.pl-runs td").first).to_have_text("1")
    toggle.click()
    expect(root.locator(".pl-clock-grid")).to_be_visible()


def test_a_clock_that_fails_is_said_and_drawn_again(chromium_page, player, root):
    def few_only(m, p):
        return [] if m > 3 else clock_cycles(m, p)

    player._clock = few_only
    slider = root.get_by_role("slider", name="Micro-batches")
    slider.focus()
    chromium_page.keyboard.press("ArrowRight")
    answer(chromium_page, player)
    expect(root.get_by_role("alert")).to_have_text("the clock gave no pair for 4 micro-batches on 2 stages")
    expect(root.locator(".pl-clock-grid")).to_be_hidden()
    chromium_page.keyboard.press("ArrowLeft")
    answer(chromium_page, player)
    expect(root.get_by_role("alert")).to_be_hidden()
    expect(root.get_by_role("gridcell")).to_have_count(6)
