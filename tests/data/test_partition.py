"""Nothing lost, nothing doubled: held against counting and against exact fractions."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pllab.data import DataPartitioner, Partition
from pllab.data.loader import share_counts


def all_shares(num_samples, sizes, seed=1234):
    partitioner = DataPartitioner(range(num_samples), sizes, seed)
    return [list(partitioner.use(i)) for i in range(len(sizes))]


equal = st.integers(1, 8).map(lambda count: [1] * count)
different = st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any)


@given(num_samples=st.integers(0, 200), weights=equal | different)
def test_any_sizes_cover_everything_once_and_miss_their_due_by_less_than_one(num_samples, weights):
    # Catches the dropped remainder, rounding, the double cumulative sum and cumulative floats (6 x 1/6).
    total = sum(weights)
    shares = all_shares(num_samples, [weight / total for weight in weights])
    assert sorted(sum(shares, [])) == list(range(num_samples))
    for share, weight in zip(shares, weights, strict=True):
        assert abs(len(share) - Fraction(num_samples * weight, total)) < 1 + 1e-9
        assert weight or not share  # a share of nothing stays empty
    lengths = [len(share) for share in shares]
    assert len({*weights}) > 1 or max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    ("num_samples", "sizes", "counts"),
    [
        (10, (0.7, 0.2, 0.1), [7, 2, 1]),
        (10, [1 / 3] * 3, [4, 3, 3]),
        (100, (0.29, 0.71), [29, 71]),  # 0.29 * 100 is 28.999999999999996
        (10**18 + 1, [1 / 3] * 3, [10**18 // 3 + 1, 10**18 // 3 + 1, 10**18 // 3]),  # more digits than a float
    ],
)
def test_share_counts_by_hand(num_samples, sizes, counts):
    assert share_counts(num_samples, sizes) == counts


def test_shares_are_shuffled_by_their_seed_or_not_at_all():
    assert all_shares(50, [0.5, 0.5], 7) == all_shares(50, [0.5, 0.5], 7) != all_shares(50, [0.5, 0.5])
    assert all_shares(50, [0.5, 0.5])[0] != list(range(25))
    assert all_shares(50, [0.5, 0.5], None) == [list(range(25)), list(range(25, 50))]


def test_partition_reads_through_its_index_and_copies_nothing():
    data = [object() for _ in range(6)]
    part = Partition(data, torch.tensor([5, 0, 2]).tolist())
    assert len(part) == 3
    assert part[0] is data[5] and part[-1] is data[2]
    assert [sample is data[i] for sample, i in zip(part, [5, 0, 2], strict=True)] == [True] * 3
    with pytest.raises(IndexError):
        part[3]
    assert list(Partition(part, [2, 0])) == [data[2], data[5]]
    with pytest.raises(IndexError):  # which would look like the end
        list(Partition(data, [0, 6]))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0.5, 0.4), "sum to 0.9"),
        ((0.7, 0.7), "sum to 1.4"),
        ((1.5, -0.5), "negative"),
        ((), "sum to 0"),
        ((float("nan"), 1.0), "sum to nan"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        DataPartitioner(range(10), sizes)


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_does_not_exist_is_refused(partition):
    with pytest.raises(ValueError, match=f"partition {partition} does not exist"):
        DataPartitioner(range(10)).use(partition)
