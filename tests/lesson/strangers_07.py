"""Solutions of lesson 07 by somebody who read the lesson alone."""

import copy
import itertools
import math
from functools import lru_cache
from itertools import combinations, pairwise

import torch
from torch import nn

from pllab.pipeline import WithDevice


# ---------- 07.1 right
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


# ---------- 07.1 wrong
def split_children(sequential):  # children() names a layer that stands there twice only once
    partitions, devices = [], []
    for layer in sequential.children():
        if isinstance(layer, WithDevice) and (not devices or layer.device != devices[-1]):
            partitions.append(nn.Sequential())
            devices.append(layer.device)
        partitions[-1].append(layer)
    return partitions, devices


def split_dict(sequential):
    found, last = {}, None
    for layer in sequential:
        last = getattr(layer, "device", last)
        found.setdefault(last, nn.Sequential()).append(layer)
    return list(found.values()), list(found)


def split_is(sequential):
    partitions, devices = [], []
    for layer in sequential:
        device = getattr(layer, "device", devices[-1] if devices else None)
        if not devices or device is not devices[-1]:
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(layer)
    return partitions, devices


def split_type(sequential):
    partitions, devices = [], []
    for layer in sequential:
        device = getattr(layer, "device", devices[-1] if devices else None)
        if not devices or device.type != devices[-1].type:
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(layer)
    return partitions, devices


def split_forgets_after_none(sequential):
    partitions, devices, last = [], [], None
    for layer in sequential:
        device = getattr(layer, "device", None)
        if device is not None and device != last:
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(layer)
        last = device  # None after a layer without one
    return partitions, devices


def split_next(sequential):  # a layer without a device goes to the layer behind it
    layers = list(sequential)
    where, later = [], None
    for layer in reversed(layers):
        later = getattr(layer, "device", later)
        where.append(later)
    where.reverse()
    last = where[0]
    where = [last := (w if w is not None else last) for w in where]
    groups = [list(g) for _, g in itertools.groupby(range(len(layers)), key=lambda k: where[k])]
    return [nn.Sequential(*(layers[k] for k in g)) for g in groups], [where[g[0]] for g in groups]


def split_parameters(sequential):
    partitions, devices = [], []
    for layer in sequential:
        first = next(layer.parameters(), None)
        device = devices[-1] if first is None else first.device
        if not devices or device != devices[-1]:
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(layer)
    return partitions, devices


def split_no_flush(sequential):
    partitions, devices, current, here = [], [], [], None
    for layer in sequential:
        device = getattr(layer, "device", here)
        if here is not None and device != here:
            partitions.append(nn.Sequential(*current))
            devices.append(here)
            current = []
        current.append(layer)
        here = device
    return partitions, devices


def split_copies(sequential):
    partitions, devices = split_loop(sequential)
    return [copy.deepcopy(part) for part in partitions], devices


def split_relu_only(sequential):
    partitions, devices = [], []
    for layer in sequential:
        if isinstance(layer, (nn.ReLU, nn.Dropout)):
            partitions[-1].append(layer)
            continue
        device = getattr(layer, "device", None)
        if not devices or device != devices[-1]:
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(layer)
    return partitions, devices


def split_numbered(sequential):  # trusts names 0, 1, 2 of add_module: duplicates in one stage get lost
    partitions, devices = [], []
    for layer in sequential:
        if isinstance(layer, WithDevice) and (not devices or layer.device != devices[-1]):
            partitions.append(nn.Sequential())
            devices.append(layer.device)
        partitions[-1].add_module(type(layer).__name__, layer)
    return partitions, devices


def split_parametered(sequential):  # a WithDevice around a ReLU is taken as without a device
    partitions, devices = [], []
    for layer in sequential:
        device = layer.device if list(layer.parameters()) else (devices[-1] if devices else layer.device)
        if not devices or device != devices[-1]:
            partitions.append(nn.Sequential())
            devices.append(device)
        partitions[-1].append(layer)
    return partitions, devices


def split_devices_of_all(sequential):  # one device for each layer, not for each stage
    partitions, _ = split_loop(sequential)
    return partitions, [layer.device for layer in sequential if isinstance(layer, WithDevice)]


# ---------- 07.2 right
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


# ---------- 07.2 wrong
def _best(costs, num_stages, measure, start=1):
    if num_stages > len(costs):
        raise ValueError
    best, found = math.inf, None
    for places in itertools.combinations(range(start, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        value = measure([sum(costs[a:b]) for a, b in itertools.pairwise(ends)])
        if value < best:
            best, found = value, [b - a for a, b in itertools.pairwise(ends)]
    return found


def balance_spread(costs, num_stages):
    return _best(costs, num_stages, lambda sums: max(sums) - min(sums))


def balance_squares(costs, num_stages):
    return _best(costs, num_stages, lambda sums: sum(s * s for s in sums))


def balance_empty(costs, num_stages):
    return _best(costs, num_stages, max, start=0)


def balance_strict_start(costs, num_stages):  # begins with the total: one stage is never better
    if num_stages > len(costs):
        raise ValueError
    best, found = sum(costs), None
    for places in itertools.combinations(range(1, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        slowest = max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))
        if slowest < best:
            best, found = slowest, [b - a for a, b in itertools.pairwise(ends)]
    return found


def balance_million(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError
    best, found = 10**6, None
    for places in itertools.combinations(range(1, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        slowest = max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))
        if slowest < best:
            best, found = slowest, [b - a for a, b in itertools.pairwise(ends)]
    return found


def balance_tolerant(costs, num_stages):  # a gain below a thousandth is no gain: wrong for costs in seconds
    if num_stages > len(costs):
        raise ValueError
    best, found = math.inf, None
    for places in itertools.combinations(range(1, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        slowest = max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))
        if slowest < best - 1e-3:
            best, found = slowest, [b - a for a, b in itertools.pairwise(ends)]
    return found


def balance_greedy(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError
    target, sizes, size, total = sum(costs) / num_stages, [], 0, 0
    for k, cost in enumerate(costs):
        left = len(costs) - k
        if size and len(sizes) < num_stages - 1 and (total + cost > target or left <= num_stages - 1 - len(sizes)):
            sizes.append(size)
            size, total = 0, 0
        size += 1
        total += cost
    return sizes + [size]


def balance_capacity_int(costs, num_stages):  # bisects whole numbers: right where costs are whole
    if num_stages > len(costs):
        raise ValueError
    low, high = int(max(costs)), int(sum(costs)) + 1

    def fill(cap):
        sizes, total = [0], 0
        for k, cost in enumerate(costs):
            must = len(costs) - k == num_stages - len(sizes)
            if sizes[-1] and (total + cost > cap or must):
                sizes.append(0)
                total = 0
            sizes[-1] += 1
            total += cost
        return sizes

    while low < high:
        middle = (low + high) // 2
        if len(fill(middle)) <= num_stages:
            high = middle
        else:
            low = middle + 1
    return fill(low)


def balance_fewer(costs, num_stages):  # the smallest capacity, but perhaps fewer stages than asked for
    if num_stages > len(costs):
        raise ValueError
    caps = sorted({sum(costs[a:b]) for a in range(len(costs)) for b in range(a + 1, len(costs) + 1)})
    for cap in caps:
        if cap < max(costs):
            continue
        sizes, total = [0], 0
        for cost in costs:
            if sizes[-1] and total + cost > cap:
                sizes.append(0)
                total = 0
            sizes[-1] += 1
            total += cost
        if len(sizes) <= num_stages:
            return sizes


def balance_raise_equal(costs, num_stages):
    if num_stages >= len(costs):
        raise ValueError
    return _best(costs, num_stages, max)


def balance_last_place(costs, num_stages):  # never cuts before the last layer
    if num_stages > len(costs):
        raise ValueError
    choices = itertools.combinations(range(1, max(2, len(costs) - 1)), num_stages - 1)
    cuts = [[0, *c, len(costs)] for c in choices] or [list(range(num_stages)) + [len(costs)]]
    best = min(cuts, key=lambda e: max(sum(costs[a:b]) for a, b in itertools.pairwise(e)))
    return [b - a for a, b in itertools.pairwise(best)]


def balance_no_error(costs, num_stages):
    num_stages = min(num_stages, len(costs))
    return _best(costs, num_stages, max)


def balance_assert(costs, num_stages):
    assert num_stages <= len(costs), "more stages than layers"
    return _best(costs, num_stages, max)


def balance_halves(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError
    if num_stages == 1:
        return [len(costs)]
    left = num_stages // 2
    right = num_stages - left
    cuts = range(left, len(costs) - right + 1)
    cut = min(cuts, key=lambda c: max(sum(costs[:c]) / left, sum(costs[c:]) / right))
    return balance_halves(costs[:cut], left) + balance_halves(costs[cut:], right)


def balance_zero_skips(costs, num_stages):  # 'if not best' takes a slowest stage of 0 as nothing found
    if num_stages > len(costs):
        raise ValueError
    best, found = None, None
    for places in itertools.combinations(range(1, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        slowest = max(sum(costs[a:b]) for a, b in itertools.pairwise(ends))
        if slowest and (best is None or slowest < best):
            best, found = slowest, [b - a for a, b in itertools.pairwise(ends)]
    return found


def balance_int_costs(costs, num_stages):
    return _best([int(cost) for cost in costs], num_stages, max)


# ---------- 07.3 right
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


# ---------- 07.3 wrong
def tie_same(first, last):
    one = torch.zeros_like(first) if first.grad is None else first.grad
    other = torch.zeros_like(last) if last.grad is None else last.grad
    first.grad = last.grad = (one + other).detach()


def tie_view(first, last):
    one = torch.zeros_like(first) if first.grad is None else first.grad
    other = torch.zeros_like(last) if last.grad is None else last.grad
    total = (one + other).detach()
    first.grad = total
    last.grad = total.detach().view_as(total)  # another object, the same numbers in memory


def tie_order(first, last):
    for weight in (first, last):
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    first.grad += last.grad
    last.grad += first.grad


def tie_mean(first, last):
    one = torch.zeros_like(first) if first.grad is None else first.grad
    other = torch.zeros_like(last) if last.grad is None else last.grad
    total = (one + other).detach() / 2
    first.grad, last.grad = total, total.clone()


def tie_none_alias(first, last):
    if first.grad is None and last.grad is None:
        return
    if first.grad is None:
        first.grad = last.grad
    elif last.grad is None:
        last.grad = first.grad
    else:
        total = first.grad + last.grad
        first.grad, last.grad = total, total.clone()


def tie_none_return(first, last):
    if first.grad is None or last.grad is None:
        return
    total = first.grad + last.grad
    first.grad, last.grad = total, total.clone()


def tie_only_first_none(first, last):  # asks about the first only
    if first.grad is None:
        if last.grad is not None:
            first.grad = last.grad.clone()
        return
    if last.grad is None:
        return
    total = first.grad + last.grad
    first.grad, last.grad = total, total.clone()


def tie_both_none_fails(first, last):
    grads = [w.grad for w in (first, last) if w.grad is not None]
    total = torch.stack(grads).sum(0)
    first.grad, last.grad = total, total.clone()


def tie_float32_zero(first, last):
    one = torch.zeros(first.shape) if first.grad is None else first.grad
    other = torch.zeros(last.shape) if last.grad is None else last.grad
    total = one + other
    first.grad, last.grad = total, total.clone()


def tie_float(first, last):
    grads = [w.grad for w in (first, last) if w.grad is not None]
    if not grads:
        return
    total = sum(g.float() for g in grads)
    first.grad, last.grad = total, total.clone()


def tie_float_back(first, last):  # float64 loses its digits on the way
    grads = [w.grad for w in (first, last) if w.grad is not None]
    if not grads:
        return
    total = sum(g.float() for g in grads).to(first.dtype)
    first.grad, last.grad = total, total.clone()


def tie_weights_shared(first, last):
    grads = [w.grad for w in (first, last) if w.grad is not None]
    if not grads:
        return
    total = sum(grads)
    first.grad, last.grad = total, total.clone()
    last.data = first.data  # 'so that they cannot part': the optimizer steps twice


def tie_step_itself(first, last):
    one = torch.zeros_like(first) if first.grad is None else first.grad
    other = torch.zeros_like(last) if last.grad is None else last.grad
    first.grad, last.grad = (one + other).detach(), (one + other).detach()
    with torch.no_grad():
        first -= 0.1 * first.grad
        last -= 0.1 * last.grad


def tie_one_none_zero(first, last):  # the missing one becomes zero and stays zero
    if first.grad is None or last.grad is None:
        for weight in (first, last):
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        return
    total = first.grad + last.grad
    first.grad, last.grad = total, total.clone()


def tie_first_only(first, last):
    one = torch.zeros_like(first) if first.grad is None else first.grad
    other = torch.zeros_like(last) if last.grad is None else last.grad
    first.grad = (one + other).detach()


def tie_swap(first, last):
    first.grad, last.grad = last.grad, first.grad


def tie_in_place_alias(first, last):  # in place where both exist, a shared one where last has none
    if first.grad is None:
        first.grad = torch.zeros_like(first)
    if last.grad is None:
        last.grad = first.grad
        return
    first.grad += last.grad
    last.grad.copy_(first.grad)


def tie_accumulating_list(first, last, seen=[]):  # noqa: B006  # a mutable default that remembers
    seen += [w.grad for w in (first, last) if w.grad is not None]
    if not seen:
        return
    total = sum(g.detach().clone() for g in seen)
    first.grad, last.grad = total, total.clone()


def balance_tolerance(costs, num_stages):
    if num_stages > len(costs):
        raise ValueError("more stages than layers")
    best, best_sizes = float("inf"), None
    for places in combinations(range(1, len(costs)), num_stages - 1):
        ends = [0, *places, len(costs)]
        largest = max(sum(costs[a:b]) for a, b in pairwise(ends))
        if largest < best - 1e-9:  # against rounding
            best, best_sizes = largest, [b - a for a, b in pairwise(ends)]
    return best_sizes


RIGHT = [
    *(("07.1", f) for f in (split_loop, split_slices, split_groupby, split_flush)),
    *(("07.2", f) for f in (balance_all, balance_recursive, balance_min_key)),
    *(("07.3", f) for f in (tie_clear, tie_zeros, tie_in_place)),
]
WRONG = [
    ("07.1", split_children, "children drops a shared layer"),
    ("07.1", split_dict, "a device coming back merges"),
    ("07.1", split_is, "compares devices by identity"),
    ("07.1", split_type, "compares only the device type"),
    ("07.1", split_forgets_after_none, "cuts again after a ReLU"),
    ("07.1", split_next, "deviceless layer joins next stage"),
    ("07.1", split_parameters, "asks parameters, not .device"),
    ("07.1", split_no_flush, "last stage is forgotten"),
    ("07.1", split_copies, "stages hold copies of layers"),
    ("07.1", split_relu_only, "only ReLU and Dropout deviceless"),
    ("07.1", split_numbered, "same class overwrites by name"),
    ("07.1", split_parametered, "WithDevice around ReLU overlooked"),
    ("07.1", split_devices_of_all, "a device per layer"),
    ("07.2", balance_spread, "minimizes largest minus smallest"),
    ("07.2", balance_squares, "minimizes sum of squares"),
    ("07.2", balance_empty, "first stage may be empty"),
    ("07.2", balance_strict_start, "one stage returns None"),
    ("07.2", balance_million, "costs above a million fail"),
    ("07.2", balance_tolerant, "small costs count as ties"),
    ("07.2", balance_greedy, "greedy towards the mean"),
    ("07.2", balance_capacity_int, "only whole capacities"),
    ("07.2", balance_fewer, "fewer stages than asked"),
    ("07.2", balance_raise_equal, "stages equal layers raises"),
    ("07.2", balance_last_place, "never cuts before last layer"),
    ("07.2", balance_no_error, "too many stages silently fewer"),
    ("07.2", balance_assert, "AssertionError, not ValueError"),
    ("07.2", balance_halves, "halves recursively by mean"),
    ("07.2", balance_zero_skips, "all zeros gives None"),
    ("07.2", balance_int_costs, "fractions of costs cut off"),
    ("07.3", tie_same, "both share one gradient"),
    ("07.3", tie_view, "a view, the same memory"),
    ("07.3", tie_order, "second sum uses changed first"),
    ("07.3", tie_mean, "mean instead of sum"),
    ("07.3", tie_none_alias, "shared only where one None"),
    ("07.3", tie_none_return, "one None: does nothing"),
    ("07.3", tie_only_first_none, "only first None is handled"),
    ("07.3", tie_both_none_fails, "both None raises"),
    ("07.3", tie_float32_zero, "zeros in float32 for None"),
    ("07.3", tie_float, "gradient becomes float32"),
    ("07.3", tie_float_back, "float64 rounded through float32"),
    ("07.3", tie_weights_shared, "weights share one storage"),
    ("07.3", tie_step_itself, "steps the weights itself"),
    ("07.3", tie_one_none_zero, "missing one stays zero"),
    ("07.3", tie_first_only, "last keeps its own"),
    ("07.3", tie_swap, "swaps instead of adding"),
    ("07.3", tie_in_place_alias, "shared where last is None"),
    ("07.3", tie_accumulating_list, "remembers gradients between calls"),
    ("07.2", balance_tolerance, "an absolute tolerance of 1e-9 hides small costs"),
]
