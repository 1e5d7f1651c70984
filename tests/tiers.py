"""The two tiers of the tests: `make test` is for every change, and `make exhaustive` adds what takes long."""

from typing import Any

import pytest


def exhaustive(*values: Any) -> list[Any]:
    """The values as parameters of a test that `make exhaustive` alone runs; a tuple is a row of several.

    A `pytest.param` keeps its own marks and its id.

    >>> [each.values for each in exhaustive(1, (2, 3))]
    [(1,), (2, 3)]
    """
    return [_exhaustive(value) for value in values]


def _exhaustive(value: Any) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.exhaustive], id=value.id)
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.exhaustive)
