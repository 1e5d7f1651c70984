"""The rank cube's own JavaScript in a bare page: groups, keys, list, table."""

import pytest

from pllab import show
from tests.browser import bench

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect


@pytest.fixture
def root(chromium_page):
    return bench.mount(chromium_page, show.RankCube(pp=2, dp=2, tp=3, ranks_per_host=6))


@bench.both_schemes
def test_every_rank_has_a_box_with_the_letter_of_its_group(root):
    expect(root.get_by_role("gridcell")).to_have_count(12)
    expect(root.get_by_role("rowgroup")).to_have_count(2)
    expect(root.locator(".pl-letter")).to_have_text([*"AAABBBCCCDDD"])
    expect(root.locator(".pl-across")).to_have_count(0)
    fills = root.locator(".pl-rank").evaluate_all(
        "nodes => nodes.map((node) => getComputedStyle(node).backgroundColor)"
    )
    assert [len(set(fills[at : at + 3])) for at in (0, 3, 6, 9)] == [1] * 4
    assert len(set(fills)) == 4


def test_keys_choose_an_axis_and_a_rank_and_stay_inside(chromium_page, root):
    grid, live = root.get_by_role("grid"), root.locator(".pl-live")
    grid.focus()
    for key, sentence in [
        ("ArrowUp", "rank 0 is pp 0, dp 0, tp 0; its dp group A has ranks 0, 3, on host 0"),
        ("ArrowUp", "rank 0 is pp 0, dp 0, tp 0; its pp group A has ranks 0, 6, across hosts"),
        ("ArrowUp", "rank 0 is pp 0, dp 0, tp 0; its pp group A has ranks 0, 6, across hosts"),
        ("ArrowRight", "rank 1 is pp 0, dp 0, tp 1; its pp group B has ranks 1, 7, across hosts"),
        ("End", "rank 11 is pp 1, dp 1, tp 2; its pp group F has ranks 5, 11, across hosts"),
        ("ArrowRight", "rank 11 is pp 1, dp 1, tp 2; its pp group F has ranks 5, 11, across hosts"),
        ("Home", "rank 0 is pp 0, dp 0, tp 0; its pp group A has ranks 0, 6, across hosts"),
        ("ArrowDown", "rank 0 is pp 0, dp 0, tp 0; its dp group A has ranks 0, 3, on host 0"),
    ]:
        chromium_page.keyboard.press(key)
        expect(live).to_have_text(sentence)
    chromium_page.keyboard.press("Control+End")
    active = grid.get_attribute("aria-activedescendant")
    expect(root.locator(f"#{active}")).to_have_attribute("aria-label", live.text_content())
    expect(root.locator(".pl-mate strong")).to_have_text(["0", "3"])


def test_list_and_mouse(chromium_page, root):
    root.get_by_role("combobox", name="Axis").select_option("pp")
    expect(root.locator(".pl-verdict")).to_have_text("pp: 6 groups of 2 ranks, all of them across hosts")
    expect(root.locator(".pl-across")).to_have_count(12)
    root.get_by_role("gridcell").nth(4).click()
    expect(root.locator(".pl-live")).to_contain_text("rank 4 is pp 0, dp 1, tp 1")
    assert chromium_page.evaluate("[window.model.get('axis'), window.model.get('cell')]") == [0, 4]


@bench.both_schemes
def test_the_table_says_the_same(root):
    root.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-blocks")).to_be_hidden()
    headings = ["Rank", "Host", "pp", "dp", "tp", "pp group", "dp group", "tp group"]
    expect(root.locator("th")).to_have_text(headings)
    told = ["11", "1", "1", "1", "2", "F: 5, 11", "F: 8, 11", "D: 9, 10, 11"]
    expect(root.locator("tbody tr").last.locator("td")).to_have_text(told)
