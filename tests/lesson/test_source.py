"""Source on show: the package's own text, with a file name that means something on every machine."""

import html
import inspect
import re

import pytest

from pllab.lesson import show_source
from pllab.pipeline import clock_cycles
from pllab.pipeline.workers import Workers


def test_source_is_the_packages_own_with_its_place_and_first_sentence():
    shown = show_source(clock_cycles)
    assert shown.code == inspect.getsource(clock_cycles)
    assert shown.title.startswith("pllab/pipeline/workers.py: clock_cycles. Yield, tick by tick")
    assert str(shown).startswith("# pllab/pipeline/workers.py")
    assert "<figcaption>pllab/pipeline/workers.py: clock_cycles." in shown._repr_html_()


def test_a_method_loses_its_indentation():
    assert show_source(Workers.close).code.startswith("def close(self")


def test_the_page_holds_the_code_unchanged_and_follows_the_theme():
    page = show_source(clock_cycles)._repr_html_()
    body = page.partition("<pre")[2].partition(">")[2].partition("</pre>")[0]
    assert html.unescape(re.sub(r"<[^>]+>", "", body)) == inspect.getsource(clock_cycles)
    colours = re.findall(r"color:([^;\"]+)", page)
    assert colours
    assert all(colour.startswith("var(--jp-") for colour in colours)


def test_what_has_no_source_is_refused():
    with pytest.raises(ValueError, match="has no Python source to show"):
        show_source(len)
