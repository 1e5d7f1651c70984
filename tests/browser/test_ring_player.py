"""The ring player's own JavaScript in a bare page: keys, buttons, words, table."""

import pytest

from pllab import show
from pllab.transfers import ring_all_reduce, tree_broadcast
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
def test_ranks_and_messages(root):
    expect(root.locator(".pl-ring-rank")).to_have_count(3)
    expect(root.locator(".pl-ring-hop")).to_have_count(0)
    root.get_by_role("button", name="Step forward").click()
    expect(root.get_by_role("img", name="rank 2 sends 100 to rank 0")).to_be_visible()
    expect(root.locator(".pl-ring-held")).to_have_text(["101", "11", "110"])


def test_collectives_step_with_a_line_for_each_chunk(chromium_page):
    ring = bench.mount(chromium_page, show.RingPlayer(ring_all_reduce(3)))
    ring.get_by_role("button", name="Step forward").click()
    expect(ring.locator(".pl-ring-held")).to_have_text(["a0", "b0", "c01", "a12", "b1", "c1", "a2", "b02", "c2"])
    expect(ring.get_by_role("img", name="rank 2 sends a2 to rank 1")).to_be_visible()
    expect(ring.get_by_role("img", name="rank 0 holds a0 b0 c01")).to_be_visible()
    lines = [ring.locator(".pl-ring-held").nth(at).bounding_box() for at in range(3)]
    assert lines[0]["y"] + lines[0]["height"] <= lines[1]["y"] + 1 < lines[2]["y"]


def test_the_tree_of_eight_ranks_fits(chromium_page):
    tree = bench.mount(chromium_page, show.RingPlayer(tree_broadcast(8)))
    tree.locator(".pl-ring-picture").focus()
    chromium_page.keyboard.press("End")
    expect(tree.locator(".pl-ring-hop")).to_have_count(4)
    expect(tree.locator(".pl-ring-held")).to_have_text(["a0"] * 8)
    box, ranks = tree.locator("svg").bounding_box(), tree.locator(".pl-ring-name")
    for name in (ranks.nth(number).bounding_box() for number in range(8)):
        assert box["x"] <= name["x"] and name["x"] + name["width"] <= box["x"] + box["width"]


def test_keys_step_jump_and_stay_inside(chromium_page, root, player):
    start, first, last = sentences(player)
    live = root.locator(".pl-live")
    root.locator(".pl-ring-picture").focus()
    for key, sentence in [
        ("ArrowLeft", start),
        ("ArrowRight", first),
        ("End", last),
        ("ArrowRight", last),
        ("Home", start),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_have_text(sentence)
    chromium_page.keyboard.press("Control+ArrowRight")
    expect(live).to_have_text(start)


def test_space_plays_to_the_end_without_a_flood_of_announcements(own_page, player):
    own_page.clock.install()
    root = bench.mount(own_page, player)
    live = root.locator(".pl-live")
    root.locator(".pl-ring-picture").focus()
    own_page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "off")
    own_page.clock.run_for(1_300)
    expect(live).to_have_text(sentences(player)[1])
    own_page.clock.run_for(5_000)
    expect(live).to_have_text(sentences(player)[2])
    expect(root.get_by_role("button", name="Play")).to_be_visible()
    expect(live).to_have_attribute("aria-live", "polite")


@bench.both_schemes
def test_the_table_says_the_same(root):
    toggle = root.get_by_role("button", name="Show as table")
    toggle.click()
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
    button.click()
    assert rank.bounding_box()["height"] > 1.4 * small
    chromium_page.set_viewport_size({"width": 250, "height": 700})
    chromium_page.wait_for_function("document.querySelector('.pl-ring-picture svg').clientWidth < 230")
    box, inside = root.locator("svg").bounding_box(), root.locator(".pl-ring-name").nth(1).bounding_box()
    assert inside["x"] + inside["width"] <= box["x"] + box["width"]
