"""Right solutions of lesson 07 that look different."""

import itertools
import math
from functools import cache, lru_cache
from itertools import combinations, pairwise

import torch
from torch import nn

from pllab.pipeline import WithDevice

# 07.1


def fills_a_stage(sequential):
    partitions, devices, pending = [], [], []
    for number, module in enumerate(sequential):
        if isinstance(module, WithDevice):
            device = module.device
        else:
            found = {parameter.device for parameter in module.parameters()}
            if len(found) > 1:
                raise ValueError(f"layer {number} lives on {found}")
            device = found.pop() if found else None
        if device is None and not devices:
            pending.append(module)
        elif device is None or (devices and device == devices[-1]):
            partitions[-1].append(module)
        else:
            partitions.append(nn.Sequential(*pending, module))
            devices.append(device)
            pending = []
    return partitions, devices


def as_in_the_course(modules):
    """Takes the layers out of WithDevice, as the course does, and returns a ModuleList."""

    def device_of(module):
        device = None
        for parameter in module.parameters():
            if device is None:
                device = parameter.device
            elif device != parameter.device:
                raise ValueError(f"{module} should have all parameters on a single device")
        return device

    partitions, devices, current, current_device = [], [], [], None
    for module in modules:
        if isinstance(module, WithDevice):
            device, module = module.device, module.module
        else:
            device = device_of(module) or current_device
        if current_device is not None and device != current_device:
            partitions.append(nn.Sequential(*current))
            devices.append(current_device)
            current = []
        current.append(module)
        current_device = device
    partitions.append(nn.Sequential(*current))
    devices.append(current_device)
    return nn.ModuleList(partitions), devices


def cuts_by_slices(sequential):
    devices = []
    for module in sequential:
        found = [module.device] if isinstance(module, WithDevice) else [p.device for p in module.parameters()]
        if len(set(found)) > 1:
            raise ValueError("two devices")
        devices.append(found[0] if found else None)
    first = next(device for device in devices if device is not None)
    for number, device in enumerate(devices):
        if device is None:
            devices[number] = devices[number - 1] if number else first
    starts = [k for k in range(len(devices)) if k == 0 or devices[k] != devices[k - 1]]
    ends = [*starts[1:], len(devices)]
    return tuple(sequential[a:b] for a, b in zip(starts, ends, strict=True)), tuple(str(devices[a]) for a in starts)


# 07.2


def tries_every_cut(costs, num_stages):
    if not 1 <= num_stages <= len(costs):
        raise ValueError(f"{num_stages} stages for {len(costs)} layers")
    cuts = ([0, *cut, len(costs)] for cut in combinations(range(1, len(costs)), num_stages - 1))
    best = min(cuts, key=lambda ends: max(sum(costs[a:b]) for a, b in pairwise(ends)))
    return [b - a for a, b in pairwise(best)]


def recursive(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError("too many stages")

    @cache
    def best(start, stages):
        if stages == 1:
            return sum(costs[start:]), (len(costs) - start,)
        found = []
        for end in range(start + 1, len(costs) - stages + 2):
            rest, sizes = best(end, stages - 1)
            found.append((max(sum(costs[start:end]), rest), (end - start, *sizes)))
        return min(found)

    return best(0, num_stages)[1]


def searches_the_answer(costs, num_stages):
    """For each possible slowest stage, from small to large, fill as far as it allows."""
    if num_stages > len(costs):
        raise ValueError("too many stages")
    limits = sorted({sum(costs[a:b]) for a in range(len(costs)) for b in range(a + 1, len(costs) + 1)})
    for limit in limits:
        sizes, filled = [0], 0.0
        for number, cost in enumerate(costs):
            must = len(costs) - number == num_stages - len(sizes)
            if sizes[-1] and (must or filled + cost > limit):
                sizes.append(0)
                filled = 0.0
            sizes[-1] += 1
            filled += cost
        ends = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
        if len(sizes) == num_stages and max(sum(costs[a:b]) for a, b in pairwise(ends)) <= limit:
            return sizes
    raise AssertionError("the sum of all costs is always a possible limit")


# 07.3


def by_zeros(first, last):
    if first.grad is None and last.grad is None:
        return
    for copy in (first, last):
        if copy.grad is None:
            copy.grad = torch.zeros_like(copy)
    total = first.grad + last.grad
    first.grad, last.grad = total, total.clone()


def in_place(first, last):
    if first.grad is None:
        first.grad = None if last.grad is None else last.grad.clone()
    elif last.grad is None:
        last.grad = first.grad.clone()
    else:
        with torch.no_grad():
            first.grad += last.grad
            last.grad.copy_(first.grad)


def stacked(first, last):
    grads = [copy.grad for copy in (first, last) if copy.grad is not None]
    if grads:
        total = torch.stack(grads).sum(0)
        for copy in (first, last):
            copy.grad = total.to(copy.device, copy=True)
    return first, last


# By somebody who read the lesson alone.


# 07.1
def split_loop(sequential):
    partitions, devices = [], []
    for layer in sequential:
        if isinstance(layer, WithDevice) and (not devices or layer.device != devices[-1]):
            partitions.append(nn.Sequential())
            devices.append(layer.device)
        partitions[-1].append(layer)
    return partitions, devices


def split_slices(sequential):
    where = []
    for layer in sequential:
        where.append(getattr(layer, "device", where[-1] if where else None))
    cuts = [0] + [k for k in range(1, len(where)) if where[k] != where[k - 1]] + [len(where)]
    return [sequential[a:b] for a, b in itertools.pairwise(cuts)], [where[a] for a in cuts[:-1]]


def split_groupby(sequential):
    labelled, last = [], None
    for layer in sequential:
        last = layer.device if hasattr(layer, "device") else last
        labelled.append((last, layer))
    groups = [(d, [layer for _, layer in g]) for d, g in itertools.groupby(labelled, key=lambda pair: pair[0])]
    return [nn.Sequential(*g) for _, g in groups], [d for d, _ in groups]


def split_flush(sequential):
    partitions, devices, current, here = [], [], [], None
    for layer in sequential:
        device = getattr(layer, "device", here)
        if here is not None and device != here:
            partitions.append(nn.Sequential(*current))
            devices.append(here)
            current = []
        current.append(layer)
        here = device
    partitions.append(nn.Sequential(*current))
    devices.append(here)
    return partitions, devices


# 07.2
def balance_all(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError("more stages than layers")
    best, best_sizes = math.inf, None
    for places in itertools.combinations(range(1, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        slowest = max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))
        if slowest < best:
            best, best_sizes = slowest, [b - a for a, b in itertools.pairwise(ends)]
    return best_sizes


def balance_recursive(costs, num_stages):
    n = len(costs)
    if num_stages > n:
        raise ValueError

    @lru_cache(None)
    def solve(begin, stages):
        if stages == 1:
            return sum(costs[begin:]), (n - begin,)
        options = []
        for size in range(1, n - begin - stages + 2):
            rest, sizes = solve(begin + size, stages - 1)
            options.append((max(sum(costs[begin : begin + size]), rest), (size, *sizes)))
        return min(options)

    return list(solve(0, num_stages)[1])


def balance_min_key(costs, num_stages):
    if len(costs) < num_stages:
        raise ValueError(f"{num_stages} stages for {len(costs)} layers")

    def slowest(sizes):
        layers = iter(costs)
        return max(sum(itertools.islice(layers, size)) for size in sizes)

    every = (
        itertools.product(range(1, len(costs) + 1), repeat=num_stages)
        if num_stages < 5
        else (
            [b - a for a, b in itertools.pairwise((0, *c, len(costs)))]
            for c in itertools.combinations(range(1, len(costs)), num_stages - 1)
        )
    )
    return list(min((s for s in every if sum(s) == len(costs)), key=slowest))


# 07.3
def tie_clear(first, last):
    grads = [w.grad for w in (first, last) if w.grad is not None]
    if not grads:
        return
    total = sum(g.to(first.device) for g in grads)
    first.grad = total.clone()
    last.grad = total.to(last.device, copy=True)


def tie_zeros(first, last):
    one = torch.zeros_like(first) if first.grad is None else first.grad
    other = torch.zeros_like(last) if last.grad is None else last.grad
    total = one.detach() + other.detach().to(one.device)
    first.grad = total
    last.grad = total.to(last.device).clone()


def tie_in_place(first, last):
    with torch.no_grad():
        for weight in (first, last):
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        first.grad += last.grad.to(first.device)
        last.grad.copy_(first.grad)


RIGHT = {
    "07.1": [fills_a_stage, as_in_the_course, cuts_by_slices, split_loop, split_slices, split_groupby, split_flush],
    "07.2": [tries_every_cut, recursive, searches_the_answer, balance_all, balance_recursive, balance_min_key],
    "07.3": [by_zeros, in_place, stacked, tie_clear, tie_zeros, tie_in_place],
}
