"""Studios in a page."""

import pytest

from pllab import show
from tests.browser.studio.studio_screen import mount


@pytest.fixture
def studio():
    return show.BubbleStudio("1F1B", 4, 8)


@pytest.fixture
def root(chromium_page, studio):
    return mount(chromium_page, studio)


@pytest.fixture
def pair(chromium_page):
    studio = show.BubbleStudio("1F1B", 4, 8, compare="ZB-H1")
    return studio, mount(chromium_page, studio)
