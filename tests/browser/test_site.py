"""The site and the hand-out: pages open from a file, ask for nothing outside the folder, show pictures, have links.

Figures wear the colours of the page, there and in JupyterLab.
"""

import io
import re
from pathlib import Path

import pytest

from pllab import show
from pllab.lesson.site import HAND_OUT, write_site
from pllab.schedule import Schedule, gpipe, one_f_one_b
from pllab.show.theme import DARK, LIGHT, write_percent
from pllab.simulate import Costs, simulate
from tests.browser import bench
from tests.browser.bench import expect
from tests.browser.studio.studio_screen import PREPARE, Plot, is_near
from tests.show.pages import unpacked

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PACKED = re.compile(r'(?<=id="state">)[^<]*')  # the runs
HIDDEN = "[...document.images].filter((one) => !one.naturalWidth).map((one) => one.alt)"
LINKS = "[...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory stick") / "site"
    write_site(folder, NOTEBOOKS)
    return folder


def test_every_page_opens_from_a_file_with_its_pictures_and_links(chromium_page, site):
    page, asked, said = chromium_page, [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    linked = set()
    for path in sorted(site.iterdir()):
        page.goto(path.as_uri())
        assert page.evaluate(HIDDEN) == [], path.name
        linked |= {link.partition("#")[0] for link in page.evaluate(LINKS) if not re.match(r"\w+:|#", link)}
    names = {path.name for path in site.iterdir()}
    assert linked == names - {"index.html"} == {HAND_OUT, *(f"{path.stem}.html" for path in NOTEBOOKS.glob("*.ipynb"))}
    assert said == [] and [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def test_the_page_beside_the_lessons_is_what_the_studio_writes(site):
    """`python -m tests.browser.pictures assets` writes it anew."""
    committed, written = ((folder / HAND_OUT).read_text(encoding="utf-8") for folder in (NOTEBOOKS, site))
    assert unpacked(committed) == unpacked(written), "two releases of zlib pack the same in two ways"
    assert PACKED.sub("", committed) == PACKED.sub("", written)


def test_a_lesson_says_its_title_and_shows_its_outputs(chromium_page, site):
    chromium_page.goto((site / "08_clock_cycles.html").as_uri())
    assert chromium_page.title() == "08 The clock: bubbles and GPipe"
    assert chromium_page.get_by_role("img", name=re.compile("63.6 %")).count() > 0


def test_source_on_show_is_monospace_and_its_lines_are_whole(chromium_page, site):
    chromium_page.set_viewport_size({"width": 600, "height": 700})
    chromium_page.goto((site / "09_workers_and_pipe.html").as_uri())
    code = chromium_page.locator("figure:has(figcaption) pre")
    assert code.count() > 1
    for shown in code.all():
        assert bench.style_of(shown, "fontFamily").endswith("monospace")
        line = float(bench.style_of(shown, "lineHeight").removesuffix("px"))
        num_lines = len(shown.text_content().rstrip().split("\n"))
        assert shown.evaluate("node => node.scrollHeight") <= (num_lines + 1) * line + 12
    assert chromium_page.evaluate("document.documentElement.scrollWidth") <= 600  # the source scrolls, and not the page


@pytest.mark.parametrize(
    ("is_light", "scheme", "has_rules", "look"),
    [
        ("true", "dark", False, LIGHT),
        ("false", "light", False, DARK),
        ("true", "light", True, LIGHT),
        ("true", "dark", True, DARK),
    ],
    ids=["light theme", "dark theme", "site by day", "site by night"],
)
def test_a_figure_wears_the_colours_that_the_widgets_wear(chromium_page, site, is_light, scheme, has_rules, look):
    """The light card or the same turned over: by JupyterLab's theme, and on the site by the scheme of the browser."""
    from PIL import Image

    rules = re.findall(r"<style.*?</style>", (site / "index.html").read_text(encoding="utf-8"), re.DOTALL)
    body = show.draw_timeline(simulate(gpipe(2, 3), Costs())).to_html()
    chromium_page.emulate_media(color_scheme=scheme)
    chromium_page.set_content(
        f'<body data-jp-theme-light="{is_light}">{"".join(rules) if has_rules else ""}{body}</body>'
    )
    with Image.open(io.BytesIO(chromium_page.locator("figure").screenshot())) as image:
        counts = {colour: count for count, colour in image.convert("RGB").getcolors(100_000)}
    for colour in (look.ground, look.idle, look.fill_of("F")):
        wanted = bytes.fromhex(colour[1:])
        near = sum(n for one, n in counts.items() if max(abs(a - b) for a, b in zip(wanted, one, strict=True)) <= 3)
        assert near > 2000, colour
    assert chromium_page.get_by_role("img", name="makespan 12 s").count() == 1


# The hand-out keeps its controls


def open_page(page, path, studio):
    page.goto(path.as_uri())
    root = page.locator('.pl-studio[data-pl-state="ready"]')
    root.wait_for()
    page.evaluate(PREPARE, str(studio._esm))
    return root


@bench.both_schemes
def test_the_page_keeps_its_controls_without_kernel_or_network(chromium_page, tmp_path):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="GPipe")
    studio.export_html(tmp_path / "studio.html")
    root = open_page(chromium_page, tmp_path / "studio.html", studio)
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


def test_a_schedule_with_any_name_is_drawn(chromium_page, tmp_path):
    name = "</title><!--<script>throw 1</script> a|\"b\" & 'so' {title} \\ 🚀 Zeitplan, ü"
    mine = Schedule(one_f_one_b(2, 2).rows, name)
    studio = show.BubbleStudio(mine, compare="GPipe")
    studio.export_html(tmp_path / "studio.html")
    root = open_page(chromium_page, tmp_path / "studio.html", studio)
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
