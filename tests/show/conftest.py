"""Timelines small enough to check by hand."""

from importlib.util import find_spec

import pytest

from pllab.schedule import Action, Kind
from pllab.timeline import Span, Timeline
from tests.show.recorded import run_forward_only

# A GPU node has neither, and has other tests to run.
collect_ignore_glob = [] if find_spec("matplotlib") and find_spec("anywidget") else ["test_*.py"]


@pytest.fixture
def forward_only():
    return run_forward_only()


@pytest.fixture
def every_kind():
    """One device that does one second of everything, communication beside the backward."""
    spans = [Span(0, Action(0, kind, 0), float(second), second + 1.0) for second, kind in enumerate("FRBIWU")]
    return Timeline.of([*spans, Span(0, Action(0, Kind.C, 0), 2.0, 3.0)], "emulated", 1)
