"""The bubble's formulas against a count of the clock's cells and against a timeline."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.pipeline import bubble_fraction, bubble_overhead, clock_cycles, fewest_batches
from pllab.schedule import Action, Kind
from pllab.timeline import Span, Timeline


@given(m=st.integers(1, 20), p=st.integers(1, 20))
def test_both_numbers_count_the_empty_cells_of_the_clock(m: int, p: int) -> None:
    ticks = list(clock_cycles(m, p))
    busy = sum(map(len, ticks))
    idle = len(ticks) * p - busy
    assert bubble_fraction(m, p) == pytest.approx(idle / (idle + busy))
    assert bubble_overhead(m, p) == pytest.approx(idle / busy)


def test_a_timeline_of_the_clock_says_the_same() -> None:
    spans = [
        Span(j, Action(j, Kind.F, i), float(tick), tick + 1.0)
        for tick, pairs in enumerate(clock_cycles(8, 4))
        for i, j in pairs
    ]
    drawn = Timeline.of(spans, "simulated")
    assert bubble_fraction(8, 4) == pytest.approx(drawn.bubble_fraction) == pytest.approx(3 / 11)
    assert bubble_overhead(8, 4) == pytest.approx(drawn.bubble_overhead) == pytest.approx(3 / 8)


@given(p=st.integers(1, 12), percent=st.integers(1, 100))
def test_the_fewest_is_enough_and_one_less_is_not(p: int, percent: int) -> None:
    m = fewest_batches(p, percent / 100)
    assert 100 * (p - 1) <= percent * (m + p - 1)  # in whole numbers, so that no rounding can hide
    assert m == 1 or 100 * (p - 1) > percent * (m - 1 + p - 1)


@pytest.mark.parametrize(("m", "p"), [(0, 2), (2, 0), (-1, 1)])
def test_nothing_to_clock_is_refused_with_the_numbers(m: int, p: int) -> None:
    for number in (bubble_fraction, bubble_overhead):
        with pytest.raises(ValueError, match=f"not {m} and {p}"):
            number(m, p)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 10.0])
def test_a_fraction_that_cannot_be_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="write 10 % as 0.1"):
        fewest_batches(4, fraction)
