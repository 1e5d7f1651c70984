"""The system's Chromium for tests, and a page that counts what goes wrong in it.

Nothing is downloaded: Playwright drives the browser the machine has. Without one these tests are skipped, and
say so; on CI (CI=true) that is a failure, because a check that never runs is no check.
"""

import os
import shutil
from collections.abc import Iterator

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


def _without_browser(why: str):
    sentence = f"BROWSER TESTS DID NOT RUN: {why}; install Chromium (Debian: apt-get install chromium)"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """A running browser, closed at the end of the session."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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


@pytest.fixture(params=["light"])
def chromium_page(chromium, request) -> Iterator:
    """A fresh page in the asked-for colour scheme; fails the test if the page logged an error."""
    context = chromium.new_context(color_scheme=request.param, viewport={"width": 1000, "height": 700})
    context.set_default_timeout(15_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert not problems, f"the browser's console has errors: {problems}"
