"""The system's Chromium for tests, and pages that count what goes wrong in them.

Nothing is downloaded: Playwright drives the browser the machine has. Without one these tests are skipped, and
say so; on CI (CI=true) that is a failure, because a check that never runs is no check.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if os.environ.get("CI") == "true":
    import playwright  # noqa: F401 - the test files skip without it, which is wrong on CI

ARGUMENTS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZE = {"width": 1000, "height": 700}


def _without_browser(why: str):
    sentence = f"BROWSER TESTS DID NOT RUN: {why}; install Chromium (Debian: apt-get install chromium)"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def browser_program() -> str | None:
    """The path of the system's Chromium."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """A running browser, closed after each file: tests of other rooms count the processes that are left."""
    program = browser_program()
    if program is None:
        _without_browser("no chromium on the PATH")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without_browser("the playwright package is missing")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


def _open(chromium, scheme: str) -> tuple:
    """A page in a context of its own, and the list of what goes wrong in it."""
    context = chromium.new_context(color_scheme=scheme, viewport=SIZE)
    context.set_default_timeout(15_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    return page, problems


@pytest.fixture(scope="module")
def shared_pages(chromium) -> Iterator[Callable[[str], tuple]]:
    """One page for each colour scheme; opening one for each test would take longer than most tests."""
    pages: dict[str, tuple] = {}

    def page_of(scheme: str) -> tuple:
        if scheme not in pages:
            pages[scheme] = _open(chromium, scheme)
        return pages[scheme]

    yield page_of
    for page, _ in pages.values():
        page.context.close()


@pytest.fixture(params=["light"])
def chromium_page(shared_pages, request) -> Iterator:
    """An empty page in the asked-for colour scheme; fails the test if the page logged an error."""
    page, problems = shared_pages(request.param)
    page.mouse.move(0, 0)  # before the new document, in which the pointer could not be captured otherwise
    page.goto("about:blank")
    page.set_viewport_size(SIZE)
    page.emulate_media(color_scheme=request.param, reduced_motion="no-preference")
    problems.clear()
    yield page
    assert not problems, f"the browser's console has errors: {problems}"


def _page_of_its_own(chromium) -> Iterator:
    page, problems = _open(chromium, "light")
    yield page
    page.context.close()
    assert not problems, f"the browser's console has errors: {problems}"


@pytest.fixture
def own_page(chromium) -> Iterator:
    """A page that no other test has: for tests that stop its clock, or that visit a server."""
    yield from _page_of_its_own(chromium)


@pytest.fixture(scope="module")
def module_page(chromium) -> Iterator:
    """A page that the tests of one file share as it stands."""
    yield from _page_of_its_own(chromium)


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory) -> Iterator:
    """One JupyterLab with all lessons, as a student has it, and a notebook with a cell for each widget."""
    from tests.browser.jupyterlab import jupyterlab, write_notebook
    from tests.browser.scenes import SCENES

    folder = tmp_path_factory.mktemp("lab")
    write_notebook(folder / "widgets.ipynb", [f"{scene.cell}\nwidget" for scene in SCENES.values()])
    lessons = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
    with jupyterlab([*lessons, folder / "widgets.ipynb"], folder / "home") as server:
        yield server


@pytest.fixture
def visitor(own_page, lab_server) -> Iterator:
    """A page for that JupyterLab, which afterwards has no kernel and the notebooks as they are in the repository."""
    yield own_page
    own_page.goto("about:blank")  # close the sockets before the kernel goes
    lab_server.start_over()
