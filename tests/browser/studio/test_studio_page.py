"""The studio as one HTML file without a kernel or a network: it keeps its controls."""

import pytest

from pllab import show
from pllab.schedule import Schedule, one_f_one_b
from pllab.show.theme import write_percent
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.studio.studio_screen import PREPARE, Plot, is_near

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]


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
    studio.export_html(tmp_path / "studio.html")
    root, asked = open_page(chromium_page, tmp_path / "studio.html", studio)
    plot = Plot(root)
    assert is_near(plot.fill_at(0, 0.5)[0], bench.look_of(chromium_page).fill_of("F"), 8)
    plot.pic.focus()
    for key, family in ((4, "ZB-H2"), (3, "interleaved 1F1B"), (1, "GPipe"), (2, "1F1B")):
        chromium_page.keyboard.press(str(key))
        expect(root.locator(".pl-name").first).to_have_text(family)
        expect(plot.big).to_have_text(write_percent(show.BubbleStudio(family, 4, 8).timeline.bubble_fraction))
    steps = [("more ranks", "8 ranks, 8"), ("more micro-batches", "8 ranks, 16"), ("fewer ranks", "4 ranks, 16")]
    for name, sizes in steps:
        root.get_by_role("button", name=name).click()
        plot.has(sizes)
    root.get_by_role("combobox", name="Compare with").select_option("GPipe")
    expect(root.locator(".pl-big")).to_have_text(["15.8 %", "15.8 %"])  # 3 / 19, both
    box = root.get_by_role("spinbutton", name="Micro-batches", exact=True)
    bench.enter(box, "29")
    plot.has("4 ranks, 32 micro-batches")
    expect(box).to_have_value("32")
    menu = root.get_by_role("combobox", name="Schedule")
    menu.select_option("ZB-H2")
    root.get_by_role("button", name="steady state").click()
    expect(plot.big).to_have_text("0 %")
    assert all(url.startswith(("file:", "blob:")) for url in asked), asked


def test_a_schedule_with_any_name_is_drawn(chromium_page, tmp_path):
    name = "</title><!--<script>throw 1</script> a|\"b\" & 'so' {title} \\ 🚀 Zeitplan, ü"
    mine = Schedule(one_f_one_b(2, 2).rows, name)
    studio = show.BubbleStudio(mine, compare="GPipe")
    studio.export_html(tmp_path / "studio.html")
    root, _ = open_page(chromium_page, tmp_path / "studio.html", studio)
    names, alert = root.locator(".pl-name"), root.get_by_role("alert")
    menu = root.get_by_role("combobox", name="Schedule")
    expect(names).to_have_text([name, "GPipe"])
    assert chromium_page.title() == f"{name}, 2 ranks, 2 micro-batches"
    for family in ("1F1B", name):
        menu.select_option(family)
        expect(names).to_have_text([family, "GPipe"])
    root.get_by_role("button", name="more micro-batches").click()
    missing = f"the page has no {name} for 2 ranks and 4 micro-batches; choose another size"
    expect(alert).to_have_text(missing)
    menu.select_option("1F1B")
    expect(alert).to_have_count(0)
    dimmed = menu.locator("option:disabled").first
    expect(dimmed).to_have_text(name)
    expect(dimmed).to_have_attribute("title", missing)
