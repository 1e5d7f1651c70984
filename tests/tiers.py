"""The two tiers of the tests: `make test` is for every change, and `make exhaustive` adds what takes long."""

from typing import Any

import pytest


def exhaustive(*values: Any) -> list[Any]:
    """The values as parameters of a test that `make exhaustive` alone runs; a tuple is a row of several.

    >>> [each.values for each in exhaustive(1, (2, 3))]
    [(1,), (2, 3)]
    """
    rows = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*row, marks=pytest.mark.exhaustive) for row in rows]
