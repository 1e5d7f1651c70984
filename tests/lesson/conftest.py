"""Every test of this room may start ranks, and starts them quickly; tests of solutions note what they see."""

from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def _quick(quick_ranks: None) -> None:
    """See `tests/conftest.py`."""


@pytest.fixture
def sees(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Note how many solutions of an exercise a test sees `refused` or `accepted`, before it does: if it fails, none.

    `pytest --junitxml` writes it down and `python -m pllab course` reads it.
    """

    def note(exercise_id: str, **counts: int) -> None:
        for name, value in {"exercise": exercise_id, **counts}.items():
            record_property(name, value)

    return note
