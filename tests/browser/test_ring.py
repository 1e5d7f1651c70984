"""The ring player in a bare page: keys, buttons, words, table, both colour schemes."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect


@pytest.fixture
def player():
    """Three ranks that pass 1, 10 and 100 around and add them up."""
    came = [(1, 100, 10), (10, 1, 100), (100, 10, 1)]
    return show.RingPlayer(
        [
            {
                "messages": [("send", (rank + 1) % 3, 4), ("receive", (rank - 1) % 3, 4)] * 2,
                "held": [sum(numbers[: step + 1]) for step in range(3)],
                "sent": numbers[:2],
            }
            for rank, numbers in enumerate(came)
        ]
    )


@pytest.fixture
def root(chromium_page, player):
    return bench.mount(chromium_page, player)


def sentences(player):
    return [moment["sentence"] for moment in player.view["moments"]]


@bench.both_schemes
def test_ranks_messages_and_a_readable_ground(chromium_page, root):
    expect(root.locator(".pl-ring-rank")).to_have_count(3)
    expect(root.locator(".pl-ring-hop")).to_have_count(0)
    root.get_by_role("button", name="Step forward").click()
    expect(root.get_by_role("img", name="rank 2 sends 100 to rank 0")).to_be_visible()
    expect(root.locator(".pl-ring-held")).to_have_text(["101", "11", "110"])
    ink, ground = root.evaluate("node => [getComputedStyle(node).color, getComputedStyle(node).backgroundColor]")
    dark = chromium_page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (bench.brightness(ground) < bench.brightness(ink)) is dark
    assert abs(bench.brightness(ground) - bench.brightness(ink)) > 150


def test_keys_step_jump_stay_inside_and_are_ours_alone(chromium_page, root, player):
    start, first, last = sentences(player)
    live = root.locator(".pl-live")
    chromium_page.evaluate("window.passed = []; document.addEventListener('keydown', (e) => passed.push(e.key))")
    chromium_page.locator("#outside").focus()
    chromium_page.keyboard.press("End")
    expect(live).to_have_text(start)
    root.locator(".pl-ring-picture").focus()
    for key, sentence in [
        ("ArrowLeft", start),
        ("ArrowRight", first),
        ("End", last),
        ("ArrowRight", last),
        ("Home", start),
        ("s", start),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_have_text(sentence)
    chromium_page.keyboard.press("Control+ArrowRight")
    expect(live).to_have_text(start)
    assert chromium_page.evaluate("window.passed") == ["End", "Control", "ArrowRight"]


def test_space_plays_to_the_end_without_a_flood_of_announcements(chromium_page, player):
    chromium_page.clock.install()
    root = bench.mount(chromium_page, player)
    live = root.locator(".pl-live")
    root.locator(".pl-ring-picture").focus()
    chromium_page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "off")
    chromium_page.clock.run_for(1_300)
    expect(live).to_have_text(sentences(player)[1])
    chromium_page.clock.run_for(5_000)
    expect(live).to_have_text(sentences(player)[2])
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "polite")


@bench.both_schemes
def test_the_table_says_the_same(root):
    toggle = root.get_by_role("button", name="Show as table")
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "true")
    expect(root.locator(".pl-ring-picture")).to_be_hidden()
    expect(root.locator("th")).to_have_text(["Step", "Messages", "Rank 0 holds", "Rank 1 holds", "Rank 2 holds"])
    told = ["2", "0 to 1: 100; 1 to 2: 1; 2 to 0: 10", "111", "111", "111"]
    expect(root.locator("tbody tr").last.locator("td")).to_have_text(told)
    root.get_by_role("button", name="Step forward").click()
    expect(root.locator("tr.pl-runs td").first).to_have_text("1")
    toggle.click()
    expect(root.locator(".pl-ring-hop")).to_have_count(3)


def test_the_projector_enlarges_and_a_narrow_page_fits(chromium_page, root):
    button, rank = root.get_by_role("button", name="Projector"), root.locator(".pl-ring-rank").first
    small = rank.bounding_box()["height"]
    assert button.bounding_box()["height"] >= 24
    button.click()
    assert rank.bounding_box()["height"] > 1.4 * small
    chromium_page.set_viewport_size({"width": 260, "height": 700})
    chromium_page.wait_for_function("document.querySelector('.pl-ring-picture svg').clientWidth < 230")
    box, inside = root.locator("svg").bounding_box(), root.locator(".pl-ring-name").nth(1).bounding_box()
    assert inside["x"] + inside["width"] <= box["x"] + box["width"]


def test_a_failure_is_visible_and_unmounting_cleans_up(chromium_page, root):
    chromium_page.evaluate("() => { try { window.model.set('step', -1); } catch { /* it is also thrown */ } }")
    expect(root).to_have_attribute("data-pl-state", "error")
    expect(root.get_by_role("alert")).to_contain_text("This widget failed")
    chromium_page.evaluate("window.unmount()")
    assert chromium_page.evaluate("Object.values(window.model.listeners).flat().length") == 0
