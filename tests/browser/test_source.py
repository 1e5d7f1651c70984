"""Source on show in a page that nbconvert makes: monospace, and no line is broken inside a word."""

import re

import nbformat
import pytest

from pllab.lesson import show_source
from pllab.pipeline import clock_cycles, run_emulated
from tests.browser import bench

pytestmark = [pytest.mark.browser, pytest.mark.exhaustive]

HEIGHTS = "all => all.map((node) => [node.textContent.trimEnd().split('\\n').length, node.scrollHeight])"


def _exported(*shown) -> str:
    """The page of a notebook with these outputs, without the scripts that it would load from elsewhere."""
    from nbconvert import HTMLExporter

    results = [nbformat.v4.new_output("execute_result", data={"text/html": one._repr_html_()}) for one in shown]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[one]) for one in results])
    page, _ = HTMLExporter().from_notebook_node(notebook)
    return re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)


def test_source_is_monospace_and_its_lines_are_whole(chromium_page):
    shown = (show_source(run_emulated), show_source(clock_cycles))
    assert "<span" in shown[0]._repr_html_()
    chromium_page.set_viewport_size({"width": 600, "height": 700})
    chromium_page.set_content(_exported(*shown))
    code = chromium_page.locator(".jp-OutputArea pre")
    assert code.count() == 2
    assert bench.style_of(code.first, "fontFamily").endswith("monospace")
    assert code.evaluate_all("all => all.every((node) => node.scrollWidth > node.clientWidth)")  # it scrolls
    assert chromium_page.evaluate("document.documentElement.scrollWidth") <= 600  # and the page does not
    line = float(bench.style_of(code.first, "lineHeight").removesuffix("px"))
    for num_lines, height in code.evaluate_all(HEIGHTS):
        assert height <= (num_lines + 1) * line + 12
