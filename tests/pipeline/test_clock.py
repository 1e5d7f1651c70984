import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.pipeline import clock_cycles

# the staircase of the docstring
DRAWN = [
    [(0, 0)],
    [(1, 0), (0, 1)],
    [(2, 0), (1, 1)],
    [(2, 1)],
]


def test_three_micro_batches_on_two_partitions_are_the_drawn_staircase() -> None:
    assert [sorted(tick) for tick in clock_cycles(3, 2)] == [sorted(tick) for tick in DRAWN]


@given(m=st.integers(1, 20), p=st.integers(1, 20))
def test_every_cell_once_one_tick_after_its_predecessor_and_no_tick_too_many(m: int, p: int) -> None:
    ticks = list(clock_cycles(m, p))
    at = {cell: number for number, tick in enumerate(ticks) for cell in tick}
    assert len(ticks) == m + p - 1
    assert sum(map(len, ticks)) == len(at) == m * p
    assert all(at[i, j] == i + j for i in range(m) for j in range(p))


@pytest.mark.parametrize(("m", "p"), [(0, 2), (2, 0), (-1, 1)])
def test_nothing_to_clock_is_refused_with_the_numbers(m: int, p: int) -> None:
    with pytest.raises(ValueError, match=f"not {m} and {p}"):
        list(clock_cycles(m, p))
