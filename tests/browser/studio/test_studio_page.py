"""The studio as one HTML file without a kernel or a network: it keeps its controls."""

import io

import pytest
from PIL import Image

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

pytestmark = pytest.mark.browser
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
    for key, family in ((5, "ZB-H2"), (4, "ZB-H1"), (3, "interleaved 1F1B"), (2, "1F1B")):
        chromium_page.keyboard.press(str(key))
        expect(root.locator(".pl-name").first).to_have_text(family)
        (one,) = show.BubbleStudio(family, 4, 8).state()["runs"]
        expect(plot.big).to_have_text(write_percent(one["bubble_fraction"]))
    for name, sizes in (
        ("more ranks", "8 ranks, 8"),
        ("more micro-batches", "8 ranks, 16"),
        ("fewer ranks", "4 ranks, 16"),
    ):
        root.get_by_role("button", name=name).click()
        plot.has(sizes)
    expect(root.locator(".pl-big").nth(1)).to_have_text("15.8 %")  # 3 / 19, both
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
    expect(root.locator(".pl-point")).to_have_count(len(FAMILIES) - 1)
    root.locator("[data-family='V-min'] .pl-hit").click()
    expect(root.locator(".pl-name").first).to_have_text("V-min")
    root.get_by_role("combobox", name="Schedule").select_option("zero bubble search")
    expect(root.get_by_role("alert")).to_have_text(
        "the page has no zero bubble search for 4 ranks and 32 micro-batches; choose another size"
    )
    root.get_by_role("combobox", name="Schedule").select_option("ZB-V")
    expect(root.get_by_role("alert")).to_have_count(0)
    root.get_by_role("button", name="one step").click()
    drawer = open_drawer(root)
    files = {}
    for kind in ("PNG", "CSV"):
        with chromium_page.expect_download() as download:
            drawer.get_by_role("button", name=kind, exact=True).click()
        files[kind] = download.value.path().read_bytes()
    assert download.value.suggested_filename == "zb-v-4-ranks-32-micro-batches.csv"
    assert Schedule.from_csv(files["CSV"].decode()).rows == show.BubbleStudio("ZB-V", 4, 32).schedule.rows
    image = Image.open(io.BytesIO(files["PNG"])).convert("RGB")
    colours = {f"#{red:02X}{green:02X}{blue:02X}" for _, (red, green, blue) in image.getcolors(1 << 20)}
    assert image.width > 500 and look.idle in colours
    drawer.get_by_role("button", name="Show as table").click()
    expect(root.locator(".pl-table tbody tr")).to_have_count(500)
    drawer.get_by_role("button", name="Show as table").click()
    drawer.get_by_role("button", name="Play").click()
    expect(live_of(root)).to_contain_text("t = ")
    assert all(url.startswith(("file:", "blob:")) for url in asked), asked


@pytest.mark.parametrize(
    "name",
    [
        "<!--<script>",
        "</title></script><script>throw 1</script>",
        "\"quoted\" & 'so' {title} \\",
        "🚀 Zeitplan, ü",
        "a|b",
    ],
    ids=["comment", "script", "quotes", "emoji", "separator"],
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
