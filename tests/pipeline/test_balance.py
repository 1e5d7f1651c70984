from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pllab.pipeline import balance


def slowest(costs: list[float], sizes: list[int]) -> float:
    ends = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    return max(sum(costs[a:b]) for a, b in pairwise(ends))


@given(costs=st.lists(st.integers(0, 9), min_size=1, max_size=8), p=st.integers(1, 8))
def test_no_other_cut_has_a_faster_slowest_stage(costs: list[int], p: int) -> None:
    if p > len(costs):
        return
    sizes = balance(costs, p)
    assert len(sizes) == p and sum(sizes) == len(costs) and min(sizes) >= 1
    every_cut = [[0, *cut, len(costs)] for cut in combinations(range(1, len(costs)), p - 1)]
    best = min(max(sum(costs[a:b]) for a, b in pairwise(ends)) for ends in every_cut)
    assert slowest(costs, sizes) == best


def test_more_stages_than_layers_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="3 stages are more than the 2 layers"):
        balance([1, 1], 3)
