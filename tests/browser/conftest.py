"""The system's Chromium for tests, and pages that count what goes wrong in them.

Nothing is downloaded: Playwright drives the browser the machine has. Without one these tests are skipped, and
say so; on CI (CI=true) that is a failure, because a check that never runs is no check.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

IS_CI = os.environ.get("CI") == "true"
if IS_CI:
    import playwright  # noqa: F401 - the test files skip without it, which is wrong on CI

ARGUMENTS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZE = {"width": 1000, "height": 900}


def browser_program() -> str | None:
    """The path of the system's Chromium."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """A running browser, closed after each file: tests of other rooms count the processes that are left."""
    playwright_api = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS DID NOT RUN: no playwright")
    program = browser_program()
    if program is None:
        why = "BROWSER TESTS DID NOT RUN: no chromium on the PATH; install it (Debian: apt-get install chromium)"
        if IS_CI:
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


def _opened(chromium) -> Iterator:
    """A page in a context of its own; whoever has it fails if the page logged an error."""
    context = chromium.new_context(viewport=SIZE)
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    yield page
    context.close()
    _expect_no_problems(page)


def _expect_no_problems(page) -> None:
    problems, page.problems = page.problems, []
    assert not problems, f"the browser's console has errors: {problems}"


@pytest.fixture
def own_page(chromium) -> Iterator:
    """A page that no other test has: for tests that stop its clock, or that visit a server."""
    yield from _opened(chromium)


@pytest.fixture(scope="module")
def module_page(chromium) -> Iterator:
    """A page that the tests of one file share as it stands; opening one takes longer than most tests."""
    yield from _opened(chromium)


@pytest.fixture(params=["light"])
def chromium_page(module_page, request) -> Iterator:
    """That page, empty and in the asked-for colour scheme."""
    page = module_page
    page.mouse.move(0, 0)  # before the new document, in which the pointer could not be captured otherwise
    page.goto("about:blank")
    page.set_viewport_size(SIZE)
    page.emulate_media(color_scheme=request.param, reduced_motion="no-preference")
    yield page
    _expect_no_problems(page)


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
