"""Source on show: the package's own text, with a file name that means something on every machine."""

import inspect

import pytest

from pllab.lesson import show_source, solution
from pllab.pipeline import clock_cycles
from pllab.pipeline.worker import Workers


def test_source_is_the_packages_own_with_its_place_and_first_sentence():
    shown = show_source(clock_cycles)
    assert shown.code == inspect.getsource(clock_cycles)
    assert shown.title.startswith("pllab/pipeline/clock.py: clock_cycles. Yield, tick by tick")
    assert str(shown).startswith("# pllab/pipeline/clock.py")
    assert "<figcaption>pllab/pipeline/clock.py: clock_cycles." in shown._repr_html_()


def test_a_method_loses_its_indentation():
    assert show_source(Workers.close).code.startswith("def close(self")


def test_a_solution_lists_its_pieces():
    shown = solution(clock_cycles, Workers.close, note="Tick, then end.")
    assert shown.title == "Solution. Tick, then end."
    assert shown.code.count("# pllab/pipeline/") == 2


def test_what_has_no_source_is_refused():
    with pytest.raises(ValueError, match="has no Python source to show"):
        show_source(len)
