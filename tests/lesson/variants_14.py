"""Right solutions of lesson 14 that look different."""

import math
from itertools import product

import torch
import torch.distributed as dist

from pllab import comm

# 14.1


def by_combinations(sizes):
    places = [dict(zip(sizes, place, strict=True)) for place in product(*map(range, sizes.values()))]
    groups = {}
    for axis in sizes:
        members = {}
        for rank, place in enumerate(places):
            members.setdefault(tuple(place[other] for other in sizes if other != axis), []).append(rank)
        groups[axis] = list(members.values())
    return places, groups


def by_strides(sizes):
    world, stride, places, groups = math.prod(sizes.values()), 1, [], {}
    strides = {}
    for axis in reversed(sizes):
        strides[axis] = stride
        stride *= sizes[axis]
    for rank in range(world):
        places.append({axis: rank // strides[axis] % size for axis, size in sizes.items()})
    for axis, size in sizes.items():
        firsts = [rank for rank in range(world) if places[rank][axis] == 0]
        groups[axis] = [tuple(first + strides[axis] * at for at in range(size)) for first in firsts]
    return tuple(places), groups


def with_a_tensor(sizes):
    box = torch.arange(math.prod(sizes.values())).reshape(*sizes.values())
    places = [dict(zip(sizes, map(int, torch.nonzero(box == rank)[0]), strict=True)) for rank in range(box.numel())]
    groups = {axis: box.transpose(at, -1).reshape(-1, size).tolist() for at, (axis, size) in enumerate(sizes.items())}
    return places, groups


# 14.2


def ends_first(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    share = buffer.chunk(comm.world_size(dp))[comm.rank(dp)]
    comm.reduce_scatter_async(share, buffer, dp).wait()


def with_torch(buffer, tied, ends, dp):
    dist.all_reduce(buffer[tied], group=ends)
    parts = list(buffer.chunk(dist.get_world_size(dp)))
    share = torch.empty_like(parts[0])
    dist.reduce_scatter(share, parts, group=dp)
    parts[dist.get_rank(dp)].copy_(share)


def with_a_copy_that_travels(buffer, tied, ends, dp):
    copy = buffer[tied].clone()
    pending = comm.all_reduce_async(copy, ends)
    pending.wait()
    buffer[tied] = copy
    size = len(buffer) // comm.world_size(dp)
    begin = comm.rank(dp) * size
    comm.reduce_scatter_async(buffer[begin : begin + size], buffer.clone(), dp).wait()
    return buffer


# 14.3


def divides_by_copies(gradients, sizes, all_reduce):
    total = torch.zeros(1, dtype=torch.float64)
    for gradient, split, stages in gradients:
        if gradient is not None:
            copies = stages * math.prod(sizes[axis] for axis in ("dp", "tp") if axis not in split)
            total += gradient.double().pow(2).sum() / copies
    all_reduce(total)
    return total.sqrt().item()


def with_norms(gradients, sizes, all_reduce):
    world = sizes["dp"] * sizes["tp"]
    square = 0.0
    for gradient, split, stages in gradients:
        if gradient is None:
            continue
        copies = world * stages
        for axis in split:
            copies //= sizes[axis]
        square += torch.linalg.vector_norm(gradient, dtype=torch.float32).item() ** 2 / copies
    message = torch.tensor(square)
    all_reduce(message)
    return message.item() ** 0.5


def sends_a_view_by_its_name(gradients, sizes, all_reduce):
    return divides_by_copies(gradients, sizes, lambda total: all_reduce(tensor=total.view(1)))


def returns_a_tensor(gradients, sizes, all_reduce):
    squares = [
        (gradient.float() ** 2).sum()
        / stages
        / (1 if "dp" in split else sizes["dp"])
        / (1 if "tp" in split else sizes["tp"])
        for gradient, split, stages in gradients
        if gradient is not None
    ]
    total = torch.stack([torch.zeros(()), *squares]).sum()
    all_reduce(total)
    return total**0.5


# 14.4


def everything_in_a_list(num_ranks, price, most_bytes):
    found = []
    for dp in range(1, num_ranks + 1):
        for tp in range(1, num_ranks // dp + 1):
            if num_ranks % (dp * tp):
                continue
            try:
                seconds, num_bytes = price(dp, tp, num_ranks // (dp * tp))
            except ValueError:
                continue
            if num_bytes <= most_bytes:
                found.append((seconds, (dp, tp, num_ranks // (dp * tp))))
    return min(found)[1] if found else None


def asks_for_every_product(num_ranks, price, most_bytes):
    """Lets the price refuse what does not multiply to the number of ranks."""
    best, chosen = math.inf, None
    for layout in product(range(1, num_ranks + 1), repeat=3):
        if math.prod(layout) != num_ranks:
            continue
        try:
            seconds, num_bytes = price(*layout)
        except ValueError:
            continue
        if num_bytes <= most_bytes and seconds < best:
            best, chosen = seconds, list(layout)
    return chosen


def near_enough(num_ranks, price, most_bytes):
    """Of all that are within 5 % of the best the one with the least memory."""
    prices = {}
    for tp in range(1, num_ranks + 1):
        for pp in range(1, num_ranks + 1):
            if num_ranks % (tp * pp) == 0:
                layout = (num_ranks // (tp * pp), tp, pp)
                try:
                    prices[layout] = price(*layout)
                except ValueError:
                    pass
    fitting = {layout: one for layout, one in prices.items() if one[1] <= most_bytes}
    if not fitting:
        return None
    best = min(seconds for seconds, _ in fitting.values())
    return min((one[1], layout) for layout, one in fitting.items() if one[0] <= 1.05 * best)[1]


RIGHT = {
    "14.1": [by_combinations, by_strides, with_a_tensor],
    "14.2": [ends_first, with_torch, with_a_copy_that_travels],
    "14.3": [divides_by_copies, with_norms, sends_a_view_by_its_name, returns_a_tensor],
    "14.4": [everything_in_a_list, asks_for_every_product, near_enough],
}
