"""The studio as one HTML file without a kernel or a network: it keeps its controls."""

import pytest

from pllab import show
from pllab.schedule import Schedule, one_f_one_b
from pllab.show.studio.settings import FAMILIES
from pllab.show.theme import DARK, LIGHT, write_percent
from tests.browser import bench
from tests.browser.studio.studio_screen import (
    PREPARE,
    Plot,
    is_near,
    live_of,
    open_drawer,
)

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]
playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
expect = playwright.expect


def open_page(page, path, studio):
    """The exported page, and the list of what it asks for."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    root = page.locator('.pl-studio[data-pl-state="ready"]')
    root.wait_for()
    page.evaluate(PREPARE, str(studio._esm))
    return root, asked


@bench.both_schemes
def test_the_page_keeps_its_controls_without_kernel_or_network(chromium_page, tmp_path):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe")
    path = tmp_path / "studio.html"
    studio.export_html(path)
    assert path.stat().st_size <= 1_000_000
    root, asked = open_page(chromium_page, path, studio)
    look = DARK if chromium_page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else LIGHT
    plot = Plot(root)
    strong = plot.fill_at(0, 0.5)[0]
    assert is_near(strong, look.fill_of("F"), 8)
    plot.point(2, 7.0)
    expect(live_of(root)).to_contain_text("2B0, rank 2: backward of micro-batch 0")
    chromium_page.mouse.move(2, 2)
    plot.pic.focus()
    for key, family in ((4, "ZB-H2"), (3, "interleaved 1F1B"), (1, "GPipe"), (2, "1F1B")):
        chromium_page.keyboard.press(str(key))
        expect(root.locator(".pl-name").first).to_have_text(family)
        expect(plot.big).to_have_text(write_percent(show.BubbleStudio(family, 4, 8).timeline.bubble_fraction))
    for name, sizes in (
        ("more ranks", "8 ranks, 8"),
        ("more micro-batches", "8 ranks, 16"),
        ("fewer ranks", "4 ranks, 16"),
    ):
        root.get_by_role("button", name=name).click()
        plot.has(sizes)
    root.get_by_role("combobox", name="Compare with").select_option("GPipe")
    expect(root.locator(".pl-big")).to_have_text(["15.8 %", "15.8 %"])  # 3 / 19, both
    box = root.get_by_role("spinbutton", name="Micro-batches", exact=True)
    box.fill("29")
    box.press("Enter")
    plot.has("4 ranks, 32 micro-batches")
    expect(box).to_have_value("32")
    root.get_by_role("combobox", name="Compare with").select_option("ZB-V")
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "ZB-V"])
    root.get_by_role("combobox", name="Schedule").select_option("ZB-H2")
    root.get_by_role("button", name="steady state").click()
    expect(plot.big).to_have_text("0 %")
    menu = root.get_by_role("combobox", name="Schedule")
    expect(menu.locator("option")).to_have_text(list(FAMILIES))
    expect(menu.locator("option:disabled")).to_have_count(0)
    menu.select_option("ZB-V")
    root.get_by_role("button", name="one step").click()
    drawer = open_drawer(root)
    with chromium_page.expect_download() as download:
        drawer.get_by_role("button", name="CSV", exact=True).click()
    assert download.value.suggested_filename == "zb-v-4-ranks-32-micro-batches.csv"
    saved = Schedule.from_csv(download.value.path().read_text())
    assert saved.rows == show.BubbleStudio("ZB-V", 4, 32).schedule.rows
    drawer.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-table tbody tr")).to_have_count(500)
    drawer.get_by_role("button", name="Show as table").click()
    chromium_page.keyboard.press("Escape")
    root.get_by_role("button", name="Play").click()
    expect(live_of(root)).to_contain_text("t = ")
    assert all(url.startswith(("file:", "blob:")) for url in asked), asked


@pytest.mark.parametrize(
    "name",
    [
        "</title><!--<script>throw 1</script>",
        "a|\"b\" & 'so' {title} \\ 🚀 Zeitplan, ü",
    ],
    ids=["script", "signs"],
)
def test_the_page_of_a_schedule_with_any_name_is_drawn(chromium_page, tmp_path, name):
    studio = show.BubbleStudio(Schedule(one_f_one_b(2, 2).rows, name), compare="GPipe")
    studio.export_html(tmp_path / "studio.html", ranks=(2,), microbatches=(2,))
    root, _ = open_page(chromium_page, tmp_path / "studio.html", studio)
    expect(root.locator(".pl-name")).to_have_text([name, "GPipe"])
    assert chromium_page.title() == f"{name}, 2 ranks, 2 micro-batches"
    root.get_by_role("combobox", name="Schedule").select_option("1F1B")
    expect(root.locator(".pl-name")).to_have_text(["1F1B", "GPipe"])
    root.get_by_role("combobox", name="Schedule").select_option(name)
    expect(root.locator(".pl-name")).to_have_text([name, "GPipe"])
    with chromium_page.expect_download() as download:
        open_drawer(root).get_by_role("button", name="CSV").click()
    assert Schedule.from_csv(download.value.path().read_text()).rows == one_f_one_b(2, 2).rows


def test_the_csv_of_a_size_that_the_page_has_not_is_that_of_the_picture(chromium_page, tmp_path):
    mine = Schedule(one_f_one_b(2, 2).rows, "mine")
    studio = show.BubbleStudio(mine)
    studio.export_html(tmp_path / "studio.html", ranks=(2,), microbatches=(2, 4))
    root, _ = open_page(chromium_page, tmp_path / "studio.html", studio)
    root.get_by_role("button", name="more micro-batches").click()
    missing = "the page has no mine for 2 ranks and 4 micro-batches; choose another size"
    expect(root.get_by_role("alert")).to_have_text(missing)
    with chromium_page.expect_download() as download:
        open_drawer(root).get_by_role("button", name="CSV").click()
    assert Schedule.from_csv(download.value.path().read_text()).rows == mine.rows
    chromium_page.keyboard.press("Escape")
    root.get_by_role("combobox", name="Schedule").select_option("GPipe")
    expect(root.get_by_role("alert")).to_have_count(0)
    dimmed = root.get_by_role("combobox", name="Schedule").locator("option:disabled").first
    expect(dimmed).to_have_text("mine")
    expect(dimmed).to_have_attribute("title", missing)
