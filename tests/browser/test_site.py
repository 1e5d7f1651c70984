"""The site: its pages open from a file, ask for nothing outside the folder, show every picture, lead to each other."""

import base64
import re
import zlib
from pathlib import Path

import pytest

from pllab.lesson.site import HAND_OUT, write_site
from pllab.show.theme import IN_THE_DARK
from tests.browser.bench import style_of

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
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
    assert _unpacked(committed) == _unpacked(written)


def _unpacked(page):
    """The page without its packed runs, which two releases of zlib pack in two ways, and the runs themselves."""
    start, packed, end = re.split(r'(?<=id="state">)([^<]*)', page)
    return start, zlib.decompress(base64.b64decode(packed)), end


def test_a_lesson_says_its_title_and_shows_its_outputs(chromium_page, site):
    chromium_page.goto((site / "08_clock_cycles.html").as_uri())
    assert chromium_page.title() == "08 The clock: bubbles and GPipe"
    assert chromium_page.get_by_role("img", name=re.compile("63.6 %")).count() > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_follows_the_scheme_of_the_browser(chromium_page, site, scheme):
    chromium_page.emulate_media(color_scheme=scheme)
    chromium_page.goto((site / "08_clock_cycles.html").as_uri())
    page = site / "one_figure.html"  # the committed outputs may be older than the rule
    rules = "".join(re.findall(r"<style.*?</style>", chromium_page.content(), re.DOTALL))
    page.write_text(f'<body data-jp-theme-light="true">{rules}<figure class="pl-figure"></figure>', encoding="utf-8")
    try:
        chromium_page.goto(page.as_uri())
        seen = style_of(chromium_page.locator(".pl-figure"), "filter")
    finally:
        page.unlink()
    assert seen == {"light": "none", "dark": IN_THE_DARK}[scheme]
