import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pllab.pipeline.split import gather, scatter, scatter_evenly


@given(rows=st.integers(1, 20), size=st.integers(1, 25))
def test_gather_undoes_scatter_and_no_slice_is_too_large(rows: int, size: int) -> None:
    batch = (torch.arange(rows), torch.randn(rows, 3))
    parts = scatter(batch, size)
    assert [len(part[0]) for part in parts[:-1]] == [size] * (len(parts) - 1) and 1 <= len(parts[-1][0]) <= size
    assert all(torch.equal(a, b) for a, b in zip(gather(parts), batch, strict=True))


def test_a_micro_batch_may_be_larger_than_any_batch() -> None:
    assert len(scatter((torch.zeros(3),), 10**30)) == len(scatter_evenly((torch.zeros(1),), 10**30)) == 1


@given(rows=st.integers(1, 50), count=st.integers(1, 60))
def test_as_many_micro_batches_as_asked_for_or_one_per_row_in_sizes_that_differ_by_one(rows: int, count: int) -> None:
    parts = scatter_evenly((torch.arange(rows),), count)
    sizes = [len(part[0]) for part in parts]
    assert len(parts) == min(rows, count) and max(sizes) - min(sizes) <= 1
    assert torch.equal(gather(parts)[0], torch.arange(rows))


@pytest.mark.parametrize("batch", [(torch.zeros(2), torch.zeros(3)), (torch.tensor(1.0),), (torch.zeros(0, 4),)])
def test_batches_that_cannot_be_cut_are_refused(batch: tuple[torch.Tensor, ...]) -> None:
    with pytest.raises(ValueError, match="rows"):
        scatter(batch, 1)
