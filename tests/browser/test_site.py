"""The site: its pages open from a file, ask for nothing outside the folder, show every picture, lead to each other.

Figures wear the colours of the page, there and in JupyterLab.
"""

import io
import re
from pathlib import Path

import pytest

from pllab import show
from pllab.lesson.site import HAND_OUT, write_site
from pllab.schedule import gpipe
from pllab.show.theme import DARK, LIGHT
from pllab.simulate import Costs, simulate
from tests.browser import bench
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
