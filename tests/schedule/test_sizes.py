"""Sizes of other libraries: as an array's length times a count, they are whole numbers and no ints."""

from collections.abc import Callable

import numpy as np
import pytest

from pllab.schedule import Schedule, gpipe, interleaved, zbv
from pllab.schedule.sizes import check_sizes


@pytest.mark.parametrize("make", [gpipe, interleaved, zbv])
@pytest.mark.parametrize(("first", "second", "name"), [(np.int64(2), 4, "num_"), (2, np.int32(4), "num_microbatches")])
def test_a_size_of_numpy_is_refused_as_what_it_is(
    make: Callable[[int, int], Schedule], first: int, second: int, name: str
) -> None:
    with pytest.raises(ValueError, match=rf"{name}\w* is np.int\d\d\([24]\), a whole number but no int of Python"):
        make(first, second)
    assert make(int(first), int(second)) == make(2, 4)


@pytest.mark.parametrize("value", [np.int64(0), np.float64(2.0), 0, -1, 1.0, True, "2", None])
def test_what_is_no_size_is_refused_as_ever(value: object) -> None:
    with pytest.raises(ValueError, match=r"^n is .*; it is a whole number from 1$"):
        check_sizes(n=value)  # type: ignore[arg-type]
