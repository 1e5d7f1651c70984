"""The shard viewer's own JavaScript in a bare page: matrices, keys, words, table."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect

FIRST = "start: every rank has all of x"
TERMS = "no rank has y"
LAST = "every rank has all of dx"


@pytest.fixture
def root(chromium_page):
    viewer = show.ShardViewer([[1, 2]], [[1, 0, 2, -1], [0, 1, -1, 1]], [[1, 0], [0, 1], [2, 1], [1, 3]])
    return bench.mount(chromium_page, viewer)


@bench.both_schemes
def test_what_a_rank_has_is_filled_and_can_be_read(root):
    expect(root.get_by_role("img", name="rank 0, A: a slice, 1 0 – –; 0 1 – –")).to_be_visible()
    expect(root.get_by_role("img", name="rank 1, A: a slice, – – 2 -1; – – -1 1")).to_be_visible()
    expect(root.locator(".pl-shards-matrix")).to_have_count(12)
    expect(root.get_by_role("img", name="rank 1, y: not made yet")).to_have_count(1)
    cell, number = root.locator(".pl-shards-cell").first, root.locator(".pl-shards-number").first
    fill = cell.evaluate("node => getComputedStyle(node).fill")
    ink = number.evaluate("node => getComputedStyle(node).fill")
    assert abs(bench.brightness(ink) - bench.brightness(fill)) > 90


def test_keys_step_jump_and_stay_inside(chromium_page, root):
    live = root.locator(".pl-live")
    root.locator(".pl-shards-picture").focus()
    for key, words in [
        ("ArrowLeft", FIRST),
        ("ArrowRight", "alone"),
        ("ArrowRight", TERMS),
        ("End", LAST),
        ("ArrowRight", LAST),
        ("Home", FIRST),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_contain_text(words)


def test_terms_become_the_sum_and_the_new_matrix_is_framed(chromium_page, root):
    root.locator(".pl-shards-picture").focus()
    for _ in range(2):
        chromium_page.keyboard.press("ArrowRight")
    expect(root.get_by_role("img", name="rank 0, y: a term, 1 2")).to_be_visible()
    expect(root.locator(".pl-shards-term")).to_have_count(3)  # of two ranks, and in the key
    chromium_page.keyboard.press("ArrowRight")
    expect(root.get_by_role("img", name="rank 0, y: the sum, 2 5")).to_be_visible()
    expect(root.get_by_role("img", name="rank 1, y: the sum, 2 5")).to_be_visible()
    expect(root.locator(".pl-shards-new")).to_have_count(2)


def test_space_plays_to_the_end(own_page):
    own_page.clock.install()
    viewer = show.ShardViewer([[1]], [[1, 2]], [[3], [4]])
    root = bench.mount(own_page, viewer)
    root.locator(".pl-shards-picture").focus()
    own_page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause")).to_be_visible()
    own_page.clock.run_for(12_000)
    expect(root.locator(".pl-live")).to_contain_text(LAST)
    expect(root.get_by_role("button", name="Play")).to_be_visible()


@bench.both_schemes
def test_the_table_says_the_same_and_follows_the_steps(root):
    root.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-shards-picture")).to_be_hidden()
    expect(root.locator("th")).to_have_text(["Matrix", "Rank 0 has", "Rank 1 has"])
    expect(root.locator("tbody tr").nth(4).locator("td")).to_have_text(["y", "not made yet", "not made yet"])
    for _ in range(3):
        root.get_by_role("button", name="Step forward").click()
    expect(root.locator("tbody tr").nth(4).locator("td")).to_have_text(["y", "sum: 2 5", "sum: 2 5"])
    expect(root.locator(".pl-live")).to_contain_text("every rank has all of y")
