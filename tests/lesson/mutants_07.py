"""Wrong solutions of lesson 07, each with the hint that must refuse it."""

from copy import deepcopy
from itertools import combinations, groupby, pairwise

import numpy
import torch
from torch import nn

from pllab.pipeline import WithDevice
from tests.lesson import strangers_07 as strangers

# 07.1 split_module(sequential)


def _device_of(module):
    return module.device if isinstance(module, WithDevice) else None


def _located(sequential):
    devices = [_device_of(module) for module in sequential]
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


def begins_with_an_empty_stage(sequential):
    partitions, devices, current = [], [], []
    last = None
    for device, module in _located(sequential):
        if device != last:
            partitions.append(nn.Sequential(*current))
            devices.append(device)
            current = []
        current.append(module)
        last = device
    return [*partitions, nn.Sequential(*current)], [*devices, last]


def stage_for_every_lane(sequential):
    partitions, devices = _grouped(_located(sequential))
    return [*partitions, nn.Sequential()], [*devices, torch.device("cpu", 7)]


def reverses(sequential):
    return _grouped(list(_located(sequential))[::-1])


def reverses_within_a_stage(sequential):
    partitions, devices = _grouped(_located(sequential))
    return [nn.Sequential(*list(partition)[::-1]) for partition in partitions], devices


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


def a_stage_per_layer(sequential):
    pairs = list(_located(sequential))
    return [nn.Sequential(module) for _, module in pairs], [device for device, _ in pairs]


def wrong_devices(sequential):
    partitions, devices = _grouped(_located(sequential))
    return partitions, devices[::-1]


def devices_of_layers(sequential):
    partitions, _ = _grouped(_located(sequential))
    return partitions, [device for device, _ in _located(sequential)]


def lists_for_modules(sequential):
    partitions, devices = _grouped(_located(sequential))
    return [list(partition) for partition in partitions], devices


def copies_the_layers(sequential):
    return _grouped((device, deepcopy(module)) for device, module in _located(sequential))


def partitions_only(sequential):
    return _grouped(_located(sequential))[0]


def last_layer_twice(sequential):
    partitions, devices = _grouped(_located(sequential))
    partitions[-1].append(sequential[-1])
    return partitions, devices


# 07.2 balance(costs, num_stages)


def dynamic_program(costs, num_stages):
    """Right, and no call of the package: what is handed back from there is refused for that alone."""
    ends = min(_every_cut(costs, num_stages), key=lambda ends: max(sum(costs[a:b]) for a, b in pairwise(ends)))
    return _sizes(ends)


def _refuse(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError("more stages than layers")


def equal_counts(costs, num_stages):
    _refuse(costs, num_stages)
    return [len(part) for part in numpy.array_split(costs, num_stages)]


def equal_counts_rest_last(costs, num_stages):
    _refuse(costs, num_stages)
    share = len(costs) // num_stages
    return [share] * (num_stages - 1) + [len(costs) - share * (num_stages - 1)]


def greedy_until_full(costs, num_stages):
    return _greedy(costs, num_stages, lambda filled, cost, share: filled >= share)


def greedy_while_it_fits(costs, num_stages):
    return _greedy(costs, num_stages, lambda filled, cost, share: filled + cost > share)


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


def _every_cut(costs, num_stages):
    _refuse(costs, num_stages)
    return [[0, *cut, len(costs)] for cut in combinations(range(1, len(costs)), num_stages - 1)]


def _sizes(ends):
    return [b - a for a, b in pairwise(ends)]


def sum_instead_of_max(costs, num_stages):
    ends = min(
        _every_cut(costs, num_stages), key=lambda ends: round(sum(sum(costs[a:b]) for a, b in pairwise(ends)), 6)
    )
    return _sizes(ends)


def sum_of_squares(costs, num_stages):
    return _sizes(min(_every_cut(costs, num_stages), key=lambda e: sum(sum(costs[a:b]) ** 2 for a, b in pairwise(e))))


def fastest_slowest_the_wrong_way(costs, num_stages):
    return _sizes(max(_every_cut(costs, num_stages), key=lambda e: max(sum(costs[a:b]) for a, b in pairwise(e))))


def ranges_end_too_early(costs, num_stages):
    cuts = _every_cut(costs, num_stages)
    best = min(cuts, key=lambda ends: max(sum(costs[a : b - 1]) for a, b in pairwise(ends)))
    return _sizes(best)


def forgets_the_last_layer(costs, num_stages):
    sizes = dynamic_program(costs, num_stages)
    return [*sizes[:-1], sizes[-1] - 1] if sizes[-1] > 1 else sizes


def counts_a_layer_twice(costs, num_stages):
    sizes = dynamic_program(costs, num_stages)
    return [*sizes[:-1], sizes[-1] + 1]


def cut_one_layer_late(costs, num_stages):
    sizes = dynamic_program(costs, num_stages)
    return [sizes[0] + 1, sizes[1] - 1, *sizes[2:]] if num_stages > 1 and sizes[1] > 1 else sizes


def empty_stages(costs, num_stages):
    _refuse(costs, num_stages)
    return [len(costs)] + [0] * (num_stages - 1)


def one_stage_less(costs, num_stages):
    return dynamic_program(costs, num_stages)[:-1]


def ends_of_stages(costs, num_stages):
    return list(numpy.cumsum(dynamic_program(costs, num_stages)))


def costs_of_stages(costs, num_stages):
    ends = [0, *ends_of_stages(costs, num_stages)]
    return [sum(costs[a:b]) for a, b in pairwise(ends)]


def places_between_stages(costs, num_stages):
    return ends_of_stages(costs, num_stages)[:-1]


def whole_limits_only(costs, num_stages):
    """Searches the slowest stage among whole numbers, and forgets that costs are broken."""
    _refuse(costs, num_stages)
    for limit in range(int(max(costs)), int(sum(costs)) + 2):
        sizes = _greedy(costs, num_stages, lambda filled, cost, _, limit=limit: filled + cost > limit)
        ends = [sum(sizes[:k]) for k in range(num_stages + 1)]
        if max(sum(costs[a:b]) for a, b in pairwise(ends)) <= limit:
            return sizes
    return sizes


def sorts_the_costs(costs, num_stages):
    return dynamic_program(sorted(costs), num_stages)


def prints_only(costs, num_stages):
    dynamic_program(costs, num_stages)


def the_slowest_cost(costs, num_stages):
    return max(costs) * num_stages


def more_stages_than_layers_crash(costs, num_stages):
    ends = min(
        ([0, *cut, len(costs)] for cut in list(combinations(range(1, len(costs)), num_stages - 1)) or [][0]),
        key=lambda ends: max(sum(costs[a:b]) for a, b in pairwise(ends)),
    )
    return _sizes(ends)


def more_stages_than_layers_taken(costs, num_stages):
    if num_stages > len(costs):
        return [1] * len(costs) + [0] * (num_stages - len(costs))
    return dynamic_program(costs, num_stages)


def fails_for_one_stage(costs, num_stages):
    sizes = dynamic_program(costs, num_stages)
    return sizes[:-1] if num_stages == 1 else sizes


# 07.3 tie_gradients(first, last)


def _sum(first, last):
    grads = [copy.grad for copy in (first, last) if copy.grad is not None]
    return sum(grads) if grads else None


def only_the_first_gradient(first, last):
    last.grad = first.grad.clone()


def only_the_last_gradient(first, last):
    first.grad = last.grad.clone()


def averages(first, last):
    total = (first.grad + last.grad) / 2
    first.grad, last.grad = total, total.clone()


def updates_the_first_only(first, last):
    first.grad = first.grad + last.grad


def updates_the_last_only(first, last):
    last.grad = last.grad + first.grad


def one_after_the_other(first, last):
    first.grad += last.grad
    last.grad += first.grad


def doubles(first, last):
    total = 2 * (first.grad + last.grad)
    first.grad, last.grad = total, total.clone()


def returns_the_sum(first, last):
    return first.grad + last.grad


def swaps(first, last):
    first.grad, last.grad = last.grad, first.grad


def adds_once_and_forgets(first, last):
    first.grad = first.grad + last.grad
    last.grad = None


def averages_the_weights(first, last):
    mean = (first.detach() + last.detach() + first.grad) / 2
    first.data.copy_(mean)
    last.data.copy_(mean)


def shares_one_tensor(first, last):
    total = _sum(first, last)
    first.grad = last.grad = total


def needs_both(first, last):
    total = first.grad + last.grad
    first.grad, last.grad = total, total.clone()


def skips_when_one_is_missing(first, last):
    if first.grad is not None and last.grad is not None:
        needs_both(first, last)


def right_for_constant_gradients_only(first, last):
    total = torch.full_like(first, float(first.grad.mean() + last.grad.mean()))
    first.grad, last.grad = total, total.clone()


_calls = []


def adds_on_every_second_call(first, last):
    _calls.append(1)
    if len(_calls) % 2 or float(first.grad.mean()) == 1.0:
        needs_both(first, last)


WRONG = [
    ("07.1", "merged_by_device", groups_by_device),
    ("07.1", "order_changed", sorts_by_device),
    ("07.1", "empty_stage", begins_with_an_empty_stage),
    ("07.1", "empty_stage", stage_for_every_lane),
    ("07.1", "order_changed", reverses),
    ("07.1", "order_changed", reverses_within_a_stage),
    ("07.1", "lost_layer", forgets_the_last_stage),
    ("07.1", "lost_layer", drops_silent_layers),
    ("07.1", "stray_stage", silent_layers_on_the_cpu),
    ("07.1", "wrong_neighbour", silent_layers_join_the_next),
    ("07.1", "ignores_with_device", asks_the_parameters_only),
    ("07.1", "cut_too_often", a_stage_per_layer),
    ("07.1", "wrong_device", wrong_devices),
    ("07.1", "devices_per_stage", devices_of_layers),
    ("07.1", "not_modules", lists_for_modules),
    ("07.1", "copied", copies_the_layers),
    ("07.1", "no_pair", partitions_only),
    ("07.1", "doubled_layer", last_layer_twice),
    ("07.1", "type_only", strangers.split_type),
    ("07.1", "bare_wrapper", strangers.split_parametered),
    ("07.1", "lost_repeat", strangers.split_children),
    ("07.1", "no_device", strangers.split_relu_only),
    ("07.2", "unit", strangers.balance_million),
    ("07.2", "unit", strangers.balance_tolerant),
    ("07.2", "spread_not_max", strangers.balance_spread),
    ("07.2", "refused", strangers.balance_raise_equal),
    ("07.2", "equal_counts", equal_counts),
    ("07.2", "equal_counts", equal_counts_rest_last),
    ("07.2", "greedy", greedy_until_full),
    ("07.2", "greedy", greedy_while_it_fits),
    ("07.2", "sum_not_max", sum_instead_of_max),
    ("07.2", "sum_not_max", sum_of_squares),
    ("07.2", "not_optimal", fastest_slowest_the_wrong_way),
    ("07.2", "not_optimal", ranges_end_too_early),
    ("07.2", "off_by_one", forgets_the_last_layer),
    ("07.2", "off_by_one", counts_a_layer_twice),
    ("07.2", "off_by_one", cut_one_layer_late),
    ("07.2", "empty_stage", empty_stages),
    ("07.2", "wrong_number", one_stage_less),
    ("07.2", "places_for_sizes", ends_of_stages),
    ("07.2", "wrong_number", places_between_stages),
    ("07.2", "costs_for_sizes", costs_of_stages),
    ("07.2", "whole_costs", whole_limits_only),
    ("07.2", "not_optimal", sorts_the_costs),
    ("07.2", "no_list", prints_only),
    ("07.2", "no_list", the_slowest_cost),
    ("07.2", "too_many_crash", more_stages_than_layers_crash),
    ("07.2", "too_many_accepted", more_stages_than_layers_taken),
    ("07.2", "wrong_number", fails_for_one_stage),
    ("07.3", "one_gradient", only_the_first_gradient),
    ("07.3", "one_gradient", only_the_last_gradient),
    ("07.3", "averaged", averages),
    ("07.3", "one_copy_only", updates_the_first_only),
    ("07.3", "one_copy_only", updates_the_last_only),
    ("07.3", "counted_twice", one_after_the_other),
    ("07.3", "counted_twice", doubles),
    ("07.3", "unchanged", returns_the_sum),
    ("07.3", "wrong_gradient", swaps),
    ("07.3", "lost_gradient", adds_once_and_forgets),
    ("07.3", "touched_weights", averages_the_weights),
    ("07.3", "one_tensor", shares_one_tensor),
    ("07.3", "crash_without_gradient", needs_both),
    ("07.3", "ignores_missing", skips_when_one_is_missing),
    ("07.3", "one_tensor", strangers.tie_none_alias),
    ("07.3", "one_tensor", strangers.tie_in_place_alias),
    ("07.3", "other_type", strangers.tie_float32_zero),
    ("07.3", "lost_digits", strangers.tie_float_back),
    ("07.3", "not_the_plain_model", right_for_constant_gradients_only),
    ("07.3", "drifted", adds_on_every_second_call),
]
