"""The plan of the buckets, against its definition, for any sizes."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pllab.parallel import plan_buckets

TYPES = (torch.float32, torch.float64, torch.bfloat16)


def parameters(sizes: list[tuple[int, int]]) -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(size, dtype=TYPES[kind])) for size, kind in sizes]


def test_the_example_of_the_docstring() -> None:
    given_ = parameters([(1, 0), (1, 0), (1, 0), (2, 0)])
    plan = plan_buckets(given_, bucket_bytes=8)
    assert [[p.numel() * 4 for p in bucket.parameters] for bucket in plan] == [[8], [4, 4], [4]]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=12),
    st.one_of(st.integers(1, 80), st.just(float("inf"))),
)
def test_each_parameter_once_one_type_per_bucket_in_reverse(sizes: list[tuple[int, int]], limit: float) -> None:
    ours = parameters(sizes)
    plan = plan_buckets(ours, limit)
    planned = [parameter for bucket in plan for parameter in bucket.parameters]
    assert sorted(map(id, planned)) == sorted(map(id, ours))
    order = {id(parameter): number for number, parameter in enumerate(reversed(ours))}
    for bucket in plan:
        positions = [order[id(parameter)] for parameter in bucket.parameters]
        assert positions == sorted(positions)
        assert len({parameter.dtype for parameter in bucket.parameters}) == 1
        assert len(positions) == 1 or sum(p.numel() * p.element_size() for p in bucket.parameters) <= limit
        assert all(v.shape == p.shape for v, p in zip(bucket.views, bucket.parameters, strict=True))
    assert [len(bucket.used) for bucket in plan] == [0] * (len(plan) - 1) + [len(ours)]
    if limit == float("inf"):
        assert len(plan) == len({kind for _, kind in sizes})
