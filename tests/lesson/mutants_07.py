"""Wrong solutions of lesson 07, each with the hint that must refuse it."""

from itertools import combinations, groupby, pairwise

import numpy
import torch
from torch import nn

from pllab.pipeline import WithDevice

# 07.1 split_module(sequential)


def _device_of(module):
    return module.device if isinstance(module, WithDevice) else None


def _located(sequential, device_of=_device_of):
    devices = [device_of(module) for module in sequential]
    current = next((device for device in devices if device is not None), torch.device("cpu"))
    for device, module in zip(devices, sequential, strict=True):
        current = current if device is None else device
        yield current, module


def _grouped(pairs):
    groups = [(device, [module for _, module in group]) for device, group in groupby(pairs, key=lambda pair: pair[0])]
    return [nn.Sequential(*modules) for _, modules in groups], [device for device, _ in groups]


def groups_by_device(sequential):
    stages = {}
    for device, module in _located(sequential):
        stages.setdefault(device, []).append(module)
    return [nn.Sequential(*modules) for modules in stages.values()], list(stages)


def sorts_by_device(sequential):
    return _grouped(sorted(_located(sequential), key=lambda pair: str(pair[0])))


def forgets_the_last_stage(sequential):
    partitions, devices, current, last = [], [], [], None
    for device, module in _located(sequential):
        if current and device != last:
            partitions.append(nn.Sequential(*current))
            devices.append(last)
            current = []
        current.append(module)
        last = device
    return partitions, devices


def drops_silent_layers(sequential):
    return _grouped((device, module) for device, module in _located(sequential) if _device_of(module) is not None)


def silent_layers_on_the_cpu(sequential):
    return _grouped((_device_of(module) or torch.device("cpu"), module) for module in sequential)


def silent_layers_join_the_next(sequential):
    backwards = []
    current = next(device for device, _ in reversed(list(_located(sequential))))
    for module in reversed(sequential):
        current = _device_of(module) or current
        backwards.append((current, module))
    return _grouped(backwards[::-1])


def asks_the_parameters_only(sequential):
    def device_of(module):
        return next((parameter.device for parameter in module.parameters()), torch.device("cpu"))

    return _grouped((device_of(module), module) for module in sequential)


def bare_wrappers_are_silent(sequential):
    """A WithDevice around a ReLU is taken as without a device."""
    return _grouped(_located(sequential, lambda module: module.device if list(module.parameters()) else None))


def cuts_again_after_a_silent_layer(sequential):
    partitions, devices, last = [], [], None
    for module in sequential:
        device = _device_of(module)
        if device not in (None, last):
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(module)
        last = device
    return partitions, devices


def a_stage_per_layer(sequential):
    pairs = list(_located(sequential))
    return [nn.Sequential(module) for _, module in pairs], [device for device, _ in pairs]


def devices_of_layers(sequential):
    partitions, _ = _grouped(_located(sequential))
    return partitions, [device for device, _ in _located(sequential)]


# 07.2 balance(costs, num_stages)


def _cut_by(costs, num_stages, measure):
    """Of all cuts the first whose stages have the least measure."""
    _refuse(costs, num_stages)
    every_cut = ([0, *cut, len(costs)] for cut in combinations(range(1, len(costs)), num_stages - 1))
    ends = min(every_cut, key=lambda ends: measure([sum(costs[a:b]) for a, b in pairwise(ends)]))
    return [b - a for a, b in pairwise(ends)]


def _right_cut(costs, num_stages):
    return _cut_by(costs, num_stages, max)


def least_spread(costs, num_stages):
    return _cut_by(costs, num_stages, lambda sums: max(sums) - min(sums))


def nothing_above_a_million(costs, num_stages):
    return _right_cut(costs, num_stages) if max(costs) < 10**6 else None


def refuses_a_layer_for_each(costs, num_stages):
    if num_stages >= len(costs):
        raise ValueError
    return _right_cut(costs, num_stages)


def _refuse(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError("more stages than layers")


def equal_counts(costs, num_stages):
    _refuse(costs, num_stages)
    return [len(part) for part in numpy.array_split(costs, num_stages)]


def greedy_until_full(costs, num_stages):
    return _greedy(costs, num_stages, lambda filled, cost, share: filled >= share)


def _greedy(costs, num_stages, full):
    _refuse(costs, num_stages)
    sizes, filled, share = [0], 0, sum(costs) / num_stages
    for index, cost in enumerate(costs):
        more = len(sizes) < num_stages
        must = len(costs) - index == num_stages - len(sizes)
        if more and sizes[-1] and (must or full(filled, cost, share)):
            sizes.append(0)
            filled = 0
        sizes[-1] += 1
        filled += cost
    return sizes


def sum_instead_of_max(costs, num_stages):
    return _cut_by(costs, num_stages, lambda sums: round(sum(sums), 6))


def forgets_the_last_layer(costs, num_stages):
    sizes = _right_cut(costs, num_stages)
    return [*sizes[:-1], sizes[-1] - 1] if sizes[-1] > 1 else sizes


def whole_limits_only(costs, num_stages):
    """Searches the slowest stage among whole numbers, and forgets that costs are broken."""
    _refuse(costs, num_stages)
    for limit in range(int(max(costs)), int(sum(costs)) + 2):
        sizes = _greedy(costs, num_stages, lambda filled, cost, _, limit=limit: filled + cost > limit)
        ends = [sum(sizes[:k]) for k in range(num_stages + 1)]
        if max(sum(costs[a:b]) for a, b in pairwise(ends)) <= limit:
            return sizes
    return sizes


def more_stages_than_layers_crash(costs, num_stages):
    return _right_cut(costs, num_stages) if num_stages <= len(costs) else [][0]


def fails_for_one_stage(costs, num_stages):
    sizes = _right_cut(costs, num_stages)
    return sizes[:-1] if num_stages == 1 else sizes


# 07.3 tie_gradients(first, last)


def only_the_first_gradient(first, last):
    last.grad = first.grad.clone()


def zeros_of_float32(first, last):
    total = sum(torch.zeros(copy.shape) if copy.grad is None else copy.grad for copy in (first, last))
    first.grad, last.grad = total, total.clone()


def adds_in_float32(first, last):
    grads = [copy.grad.float() for copy in (first, last) if copy.grad is not None]
    if grads:
        total = sum(grads).to(first.dtype)
        first.grad, last.grad = total, total.clone()


def averages(first, last):
    total = (first.grad + last.grad) / 2
    first.grad, last.grad = total, total.clone()


def updates_the_first_only(first, last):
    first.grad = first.grad + last.grad


def one_after_the_other(first, last):
    first.grad += last.grad
    last.grad += first.grad


def averages_the_weights(first, last):
    mean = (first.detach() + last.detach() + first.grad) / 2
    first.data.copy_(mean)
    last.data.copy_(mean)


def shares_one_tensor(first, last):
    grads = [copy.grad for copy in (first, last) if copy.grad is not None]
    first.grad = last.grad = sum(grads) if grads else None


def needs_both(first, last):
    total = first.grad + last.grad
    first.grad, last.grad = total, total.clone()


def skips_when_one_is_missing(first, last):
    if first.grad is not None and last.grad is not None:
        needs_both(first, last)


def right_for_constant_gradients_only(first, last):
    total = torch.full_like(first, float(first.grad.mean() + last.grad.mean()))
    first.grad, last.grad = total, total.clone()


WRONG = [
    ("07.1", "merged_by_device", groups_by_device),
    ("07.1", "wrong", sorts_by_device),
    ("07.1", "lost_layer", forgets_the_last_stage),
    ("07.1", "lost_layer", drops_silent_layers),
    ("07.1", "wrong", silent_layers_on_the_cpu),
    ("07.1", "wrong_neighbour", silent_layers_join_the_next),
    ("07.1", "type_only", asks_the_parameters_only),
    ("07.1", "cut_too_often", a_stage_per_layer),
    ("07.1", "no_pair", devices_of_layers),
    ("07.1", "bare_wrapper", bare_wrappers_are_silent),
    ("07.1", "cut_too_often", cuts_again_after_a_silent_layer),
    ("07.2", "unit", nothing_above_a_million),
    ("07.2", "alike", least_spread),
    ("07.2", "refused", refuses_a_layer_for_each),
    ("07.2", "equal_counts", equal_counts),
    ("07.2", "greedy", greedy_until_full),
    ("07.2", "wrong", sum_instead_of_max),
    ("07.2", "no_cut", forgets_the_last_layer),
    ("07.2", "whole_costs", whole_limits_only),
    ("07.2", "too_many", more_stages_than_layers_crash),
    ("07.2", "no_cut", fails_for_one_stage),
    ("07.3", "wrong", only_the_first_gradient),
    ("07.3", "averaged", averages),
    ("07.3", "one_copy_only", updates_the_first_only),
    ("07.3", "counted_twice", one_after_the_other),
    ("07.3", "touched_weights", averages_the_weights),
    ("07.3", "one_tensor", shares_one_tensor),
    ("07.3", "raised", needs_both),
    ("07.3", "ignores_missing", skips_when_one_is_missing),
    ("07.3", "raised", zeros_of_float32),
    ("07.3", "lost_digits", adds_in_float32),
    ("07.3", "not_the_plain_model", right_for_constant_gradients_only),
]
