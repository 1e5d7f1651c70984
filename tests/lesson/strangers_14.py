"""Solutions of lesson 14 by somebody who read the lesson alone."""

# ruff: noqa

import itertools
import math

import torch
import torch.distributed as dist

from pllab import comm


# ---------------------------------------------------------------- 14.1
def r1_strides(sizes):
    total = math.prod(sizes.values())
    stride, left = {}, total
    for axis, size in sizes.items():
        left //= size
        stride[axis] = left
    places = [{axis: rank // stride[axis] % sizes[axis] for axis in sizes} for rank in range(total)]
    groups = {}
    for axis, size in sizes.items():
        starts = [rank for rank in range(total) if places[rank][axis] == 0]
        groups[axis] = [[start + k * stride[axis] for k in range(size)] for start in starts]
    return places, groups


def r1_tensor(sizes):
    shape = list(sizes.values())
    box = torch.arange(math.prod(shape)).reshape(shape)
    places = []
    for rank in range(math.prod(shape)):
        place = {}
        for axis in reversed(list(sizes)):
            rank, place[axis] = divmod(rank, sizes[axis])
        places.append(place)
    groups = {axis: box.movedim(k, -1).reshape(-1, sizes[axis]).tolist() for k, axis in enumerate(sizes)}
    return places, groups


def r1_recursive(sizes):
    def build(names):
        if not names:
            return [{}]
        inner = build(names[1:])
        return [{names[0]: digit} | rest for digit in range(sizes[names[0]]) for rest in inner]

    places = build(list(sizes))

    def groups_along(axis):
        done, found = set(), []
        for rank, place in enumerate(places):
            if rank in done:
                continue
            mates = [
                other
                for other, there in enumerate(places)
                if all(there[name] == place[name] for name in sizes if name != axis)
            ]
            done.update(mates)
            found.append(mates)
        return found[::-1]

    return places, {axis: groups_along(axis) for axis in sizes}


# ---------------------------------------------------------------- 14.2
def r2_room_of_its_own(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    size = len(buffer) // comm.world_size(dp)
    start = size * comm.rank(dp)
    part = torch.empty(size, dtype=buffer.dtype)
    comm.reduce_scatter_async(part, buffer, dp).wait()
    buffer[start : start + size] = part


def r2_copies(buffer, tied, ends, dp):
    shared = buffer[tied].clone()
    comm.all_reduce_async(shared, ends).wait()
    whole = buffer.clone()
    whole[tied] = shared
    mine = buffer.view(comm.world_size(dp), -1)[comm.rank(dp)]
    pending = comm.reduce_scatter_async(mine, whole, dp)
    pending.wait()


def r2_torch_distributed(buffer, tied, ends, dp):
    dist.all_reduce(buffer[tied], group=ends)
    part = torch.empty_like(buffer[: len(buffer) // dist.get_world_size(dp)])
    dist.reduce_scatter_tensor(part, buffer.clone(), group=dp)
    buffer.chunk(dist.get_world_size(dp))[dist.get_rank(dp)].copy_(part)


def r2_gathered(buffer, tied, ends, dp):
    """The ends show each other what they have of the tied weight, and each adds up."""
    own = buffer[tied].clone()
    both = own.new_empty(2 * own.numel())
    comm.all_gather_async(both, own, ends).wait()
    buffer[tied] = both.view(2, -1).sum(0)
    first, second = buffer.chunk(2)
    comm.reduce_scatter_async(first if comm.rank(dp) == 0 else second, buffer, dp).wait()


# ---------------------------------------------------------------- 14.3
def r3_vector_norm(gradients, sizes, all_reduce):
    squares = torch.zeros(1)
    for grad, split, stages in gradients:
        if grad is None:
            continue
        copies = stages
        if "dp" not in split:
            copies *= sizes["dp"]
        if "tp" not in split:
            copies *= sizes["tp"]
        squares += torch.linalg.vector_norm(grad, dtype=torch.float32) ** 2 / copies
    all_reduce(squares)
    return squares.sqrt().item()


def r3_one_line(gradients, sizes, all_reduce):
    total = torch.tensor(
        sum(
            grad.double().square().sum().item()
            / math.prod([stages, *(sizes[a] for a in ("dp", "tp") if a not in split)])
            for grad, split, stages in gradients
            if grad is not None
        ),
        dtype=torch.float64,
    )
    all_reduce(total)
    return math.sqrt(total.item())


def r3_share_of_the_world(gradients, sizes, all_reduce):
    """Of a stage's dp x tp ranks as many have other numbers as the axes that split it; the norm is a tensor."""
    ranks = sizes["dp"] * sizes["tp"]
    flat = [torch.zeros(0)]
    for grad, split, stages in gradients:
        if grad is not None:
            pieces = math.prod(sizes[axis] for axis in split)
            flat.append(grad.float().flatten() * math.sqrt(pieces / (ranks * stages)))
    whole = torch.cat(flat)
    total = torch.dot(whole, whole)
    all_reduce(total)
    return total.sqrt()


# ---------------------------------------------------------------- 14.4
def r4_product(num_ranks, price, most_bytes):
    best, best_s = None, math.inf
    numbers = range(1, num_ranks + 1)
    for layout in itertools.product(numbers, repeat=3):
        if math.prod(layout) != num_ranks:
            continue
        try:
            seconds, needed = price(*layout)
        except ValueError:
            continue
        if needed <= most_bytes and seconds < best_s:
            best, best_s = layout, seconds
    return best


def r4_priced_dict(num_ranks, price, most_bytes):
    divisors = [d for d in range(1, num_ranks + 1) if num_ranks % d == 0]
    priced = {}
    for pp in divisors:
        for tp in divisors:
            if num_ranks // pp % tp == 0:
                dp = num_ranks // pp // tp
                try:
                    priced[dp, tp, pp] = price(dp=dp, tp=tp, pp=pp)
                except ValueError:
                    pass
    fitting = {layout: seconds for layout, (seconds, size) in priced.items() if size <= most_bytes}
    return min(fitting, key=fitting.get, default=None)


def r4_recursive(num_ranks, price, most_bytes):
    def splits(number, axes):
        if axes == 1:
            yield (number,)
            return
        for first in range(number, 0, -1):
            if number % first == 0:
                for rest in splits(number // first, axes - 1):
                    yield (first, *rest)

    def cost(layout):
        try:
            seconds, needed = price(*layout)
        except ValueError:
            return math.inf
        return seconds if needed <= most_bytes else math.inf

    ranked = sorted((cost(layout), layout) for layout in splits(num_ranks, 3))
    seconds, layout = ranked[0]
    return None if seconds == math.inf else layout


RIGHT = {
    "14.1": [r1_strides, r1_tensor, r1_recursive],
    "14.2": [r2_room_of_its_own, r2_copies, r2_torch_distributed, r2_gathered],
    "14.3": [r3_vector_norm, r3_one_line, r3_share_of_the_world],
    "14.4": [r4_product, r4_priced_dict, r4_recursive],
}
