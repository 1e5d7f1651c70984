"""Every test of this room may start ranks, and starts them quickly; `quick_checks` does the same for checks."""

from functools import partial
from multiprocessing.context import BaseContext

import pytest

from pllab.lesson import checking
from tests.lesson.judge import start_prepared


@pytest.fixture(autouse=True)
def _quick(quick_ranks: None) -> None:
    """See `tests/conftest.py`."""


@pytest.fixture
def quick_checks(prepared_server: BaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` takes its process from the server, which saves the second of importing torch; all else is as it is."""
    monkeypatch.setattr(checking, "_start", partial(start_prepared, prepared_server))
