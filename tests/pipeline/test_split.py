from itertools import combinations, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pllab.pipeline import WithDevice, balance, split_module


def at(module: nn.Module, lane: int) -> WithDevice:
    return WithDevice(module, f"cpu:{lane}")


def test_neighbours_on_one_lane_stay_together_in_order() -> None:
    layers = [nn.Linear(2, 2) for _ in range(4)]
    partitions, devices = split_module(
        nn.Sequential(at(layers[0], 0), at(layers[1], 0), at(layers[2], 1), at(layers[3], 1))
    )
    assert [[layer.module for layer in part] for part in partitions] == [layers[:2], layers[2:]]
    assert devices == [torch.device("cpu", 0), torch.device("cpu", 1)]


def test_a_lane_that_comes_back_is_a_new_stage() -> None:
    partitions, devices = split_module(nn.Sequential(*(at(nn.Linear(2, 2), lane) for lane in (0, 1, 0))))
    assert [str(device) for device in devices] == ["cpu:0", "cpu:1", "cpu:0"]
    assert [len(part) for part in partitions] == [1, 1, 1]


def test_a_layer_without_parameters_stays_with_the_layer_before_it() -> None:
    partitions, _ = split_module(nn.Sequential(at(nn.Linear(2, 2), 0), nn.ReLU(), at(nn.Linear(2, 2), 1), nn.ReLU()))
    assert [len(part) for part in partitions] == [2, 2]


def test_a_leading_layer_without_parameters_joins_the_first_device() -> None:
    partitions, devices = split_module(nn.Sequential(nn.Flatten(), at(nn.Linear(2, 2), 1)))
    assert len(partitions) == 1 and devices == [torch.device("cpu", 1)]


def test_a_layer_on_two_devices_is_refused_by_name() -> None:
    torn = nn.Module()
    torn.a = nn.Parameter(torch.zeros(1))
    torn.b = nn.Parameter(torch.zeros(1, device="meta"))
    with pytest.raises(ValueError, match="layer 1 .* lives on cpu and meta"):
        split_module(nn.Sequential(nn.ReLU(), torn))


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("gpu:0", "'gpu:0' is no device"),
        ("cuda:97", "'cuda:97' is not on this"),
        ("meta", "neither a CPU lane"),
    ],
)
def test_an_unknown_device_is_refused_with_its_name(device: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WithDevice(nn.ReLU(), device)


def test_nothing_to_split_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        split_module(nn.Sequential())
    with pytest.raises(ValueError, match="not a Linear"):
        split_module(nn.Linear(2, 2))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("num_stages", [0, 1.5, "2", None])
def test_a_number_of_stages_that_is_none_is_refused(num_stages: Any) -> None:
    with pytest.raises(ValueError, match=f"num_stages is {num_stages!r}; give a whole number of at least 1"):
        balance([1, 1], num_stages)


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0, None])
def test_a_cost_that_is_none_is_refused_with_its_layer(cost: Any) -> None:
    with pytest.raises(ValueError, match=f"layer 1 costs {cost}; give a number of at least 0"):
        balance([1.0, cost, 2.0], 2)
