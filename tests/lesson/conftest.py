"""Every test of this room may start ranks, and starts them quickly."""

import pytest


@pytest.fixture(autouse=True)
def _quick(quick_ranks: None) -> None:
    """See `tests/conftest.py`."""
