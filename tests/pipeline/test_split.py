"""A model cut into stages, a batch into micro-batches, and the loss of the batch from theirs."""

import math
from collections.abc import Callable
from itertools import accumulate, combinations, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from pllab.pipeline import WithDevice, balance, split_module
from pllab.pipeline.batches import Score, gather, scatter, scatter_evenly
from pllab.train.trainers import mean_loss


@pytest.mark.parametrize(
    ("lanes", "sizes", "devices"),
    [
        ([0, 0, 1, 1], [2, 2], [0, 1]),
        ([0, 1, 0], [1, 1, 1], [0, 1, 0]),  # a lane that comes back is a new stage
        ([0, None, 1, None], [2, 2], [0, 1]),  # a layer without parameters stays with the layer before it
        ([None, 1], [2], [1]),  # or joins the first device
    ],
)
def test_a_cut_is_wherever_the_lane_changes_and_layers_keep_their_order(
    lanes: list[int | None], sizes: list[int], devices: list[int]
) -> None:
    layers = [nn.ReLU() if lane is None else WithDevice(nn.Linear(2, 2), f"cpu:{lane}") for lane in lanes]
    partitions, found = split_module(nn.Sequential(*layers))
    assert [len(part) for part in partitions] == sizes and found == [torch.device("cpu", lane) for lane in devices]
    assert [layer for part in partitions for layer in part] == layers


@given(costs=st.lists(st.integers(0, 9), min_size=1, max_size=8), p=st.integers(1, 8))
def test_no_other_cut_has_a_faster_slowest_stage(costs: list[int], p: int) -> None:
    if p > len(costs):
        return
    sizes = balance(costs, p)
    assert len(sizes) == p and sum(sizes) == len(costs) and min(sizes) >= 1
    every_cut = [[0, *cut, len(costs)] for cut in combinations(range(1, len(costs)), p - 1)]
    slowest = {tuple(ends): max(sum(costs[a:b]) for a, b in pairwise(ends)) for ends in every_cut}
    assert slowest[0, *accumulate(sizes)] == min(slowest.values())


def torn() -> nn.Linear:
    layer = nn.Linear(1, 1)
    layer.other = nn.Parameter(torch.zeros(1, device="meta"))
    return layer


@pytest.mark.parametrize(
    ("use", "given_", "sentence"),
    [
        (split_module, (nn.Sequential(nn.ReLU(), torn()),), "layer 1 .* lives on cpu and meta"),
        (WithDevice, (nn.ReLU(), "cuda:97"), "'cuda:97' is not on this"),
        (WithDevice, (nn.ReLU(), "meta"), "neither a CPU lane"),
        (balance, ([1, 1], 3), "3 stages are more than the 2 layers"),
        (balance, ([1, 1], 1.5), "num_stages is 1.5; give a whole number of at least 1"),
        *(
            (balance, ([1.0, cost, 2.0], 2), f"layer 1 costs {cost}; give a number of at least 0")
            for cost in (math.nan, math.inf, -1.0, None)
        ),
        (scatter, ((torch.zeros(2), torch.zeros(3)), 1), "rows"),
        (scatter, ((torch.tensor(1.0),), 1), "rows"),
        (scatter, ((torch.zeros(0, 4),), 1), "rows"),
    ],
)
def test_what_does_not_fit_is_refused(use: Callable[..., Any], given_: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        use(*given_)


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


class Reads(TorchDispatchMode):
    """Counts the numbers that the host reads from tensors."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_the_loss_of_a_batch_is_read_once() -> None:
    targets = [(torch.zeros(rows, 2),) for rows in (3, 1)]
    score = Score(torch.nn.functional.mse_loss, targets, None, torch.device("cpu"))
    with Reads() as reads:
        total = score.total([torch.tensor(1.0), torch.tensor(5.0)])
    assert total == 2.0 and reads.count == 1


def test_targets_are_counted_before_they_are_moved() -> None:
    counted = []

    def count(labels: torch.Tensor) -> int:
        counted.append(labels.device.type)
        return len(labels)

    Score(torch.nn.functional.mse_loss, [(torch.zeros(2, 2),)], count, torch.device("meta"))
    assert counted == ["cpu"]


def test_the_mean_over_targets_is_divided_where_it_is() -> None:
    labels = torch.tensor([[1, 2, -100], [1, -100, -100]])
    with Reads() as reads:
        loss = mean_loss(torch.tensor([2.0, 4.0]), labels)
    assert reads.count == 0
    assert loss == 6.0  # one target: the first of a row is predicted by nothing
    assert mean_loss(torch.zeros(1), torch.full((1, 3), -100)) == 0.0
