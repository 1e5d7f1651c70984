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


def collected(places, sizes, key_of):
    groups = {}
    for axis in sizes:
        members = {}
        for rank, place in enumerate(places):
            members.setdefault(key_of(place, axis), []).append(rank)
        groups[axis] = list(members.values())
    return groups


def places_of(sizes):
    return [dict(zip(sizes, digits)) for digits in itertools.product(*(range(size) for size in sizes.values()))]


def others(place, axis):
    return tuple(digit for name, digit in place.items() if name != axis)


def w1_first_fastest(sizes):
    turned = dict(reversed(list(sizes.items())))
    places = [{axis: place[axis] for axis in sizes} for place in places_of(turned)]
    return places, collected(places, sizes, others)


def w1_same_coordinate(sizes):
    places = places_of(sizes)
    return places, collected(places, sizes, lambda place, axis: place[axis])


def w1_chunks(sizes):
    places = places_of(sizes)
    groups = {
        axis: [list(range(start, start + size)) for start in range(0, len(places), size)]
        for axis, size in sizes.items()
    }
    return places, groups


def w1_no_ones(sizes):
    places = places_of(sizes)
    large = {axis: size for axis, size in sizes.items() if size > 1}
    return places, collected(places, large, others)


def w1_pp_dp_tp(sizes):
    full = {axis: sizes.get(axis, 1) for axis in ("pp", "dp", "tp")}
    places = places_of(full)
    groups = collected(places, full, others)
    return [{axis: place[axis] for axis in sizes} for place in places], {axis: groups[axis] for axis in sizes}


def w1_sorted_names(sizes):
    ordered = {axis: sizes[axis] for axis in sorted(sizes)}
    places = places_of(ordered)
    return places, collected(places, ordered, others)


def w1_eats_sizes(sizes):
    names, places = dict(sizes), [{}]
    while sizes:
        axis, size = sizes.popitem()
        places = [{axis: digit} | rest for digit in range(size) for rest in places]
    return places, collected(places, names, others)


def w1_from_one(sizes):
    places = places_of(sizes)
    groups = collected(places, sizes, others)
    return [{axis: digit + 1 for axis, digit in place.items()} for place in places], groups


def w1_one_group(sizes):
    places = places_of(sizes)
    return places, {axis: groups[:1] for axis, groups in collected(places, sizes, others).items()}


def w1_own_group(sizes):
    """A group for each rank, as make_mesh hands it out: every group comes as often as it has ranks."""
    places = places_of(sizes)
    groups = {
        axis: [
            [other for other, there in enumerate(places) if others(there, axis) == others(place, axis)]
            for place in places
        ]
        for axis in sizes
    }
    return places, groups


def w1_sum_of_others(sizes):
    places = places_of(sizes)
    return places, collected(places, sizes, lambda place, axis: sum(others(place, axis)))


def w1_backwards(sizes):
    places = places_of(sizes)
    found = collected(places, sizes, others)
    return places, {axis: [group[::-1] for group in groups] for axis, groups in found.items()}


def w1_equal_strides(sizes):
    """Divides by the size of the axis itself instead of the sizes of those further in."""
    names, total = list(sizes), math.prod(sizes.values())
    places = []
    for rank in range(total):
        place = {}
        for k, axis in enumerate(names):
            place[axis] = rank // sizes[axis] ** (len(names) - 1 - k) % sizes[axis]
        places.append(place)
    return places, collected(places, sizes, others)


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


def scattered(buffer, dp):
    share = buffer.chunk(comm.world_size(dp))[comm.rank(dp)]
    comm.reduce_scatter_async(share, buffer, dp).wait()
    return share


def w2_dp_first(buffer, tied, ends, dp):
    scattered(buffer, dp)
    comm.all_reduce(buffer[tied], ends)


def w2_means(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    share = scattered(buffer, dp)
    share /= comm.world_size(dp)


def w2_mean_of_ends(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    buffer[tied] /= comm.world_size(ends)
    scattered(buffer, dp)


def w2_whole_to_the_end(buffer, tied, ends, dp):
    whole = buffer.clone()
    comm.all_reduce(whole, ends)
    buffer[tied] = whole[tied]
    scattered(buffer, dp)


def w2_whole_summed(buffer, tied, ends, dp):
    comm.all_reduce(buffer, ends)
    scattered(buffer, dp)


def w2_all_reduce_over_dp(buffer, tied, ends, dp):
    comm.all_reduce(buffer, dp)
    comm.all_reduce(buffer[tied], ends)


def w2_groups_swapped(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], dp)
    scattered(buffer, ends)


def w2_copy_lost(buffer, tied, ends, dp):
    shared = buffer[tied].clone()
    comm.all_reduce(shared, ends)
    scattered(buffer, dp)


def w2_share_lost(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    part = torch.empty_like(buffer.chunk(2)[0])
    comm.reduce_scatter_async(part, buffer, dp).wait()
    buffer = part


def w2_first_half(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    comm.reduce_scatter_async(buffer[: len(buffer) // 2], buffer, dp).wait()


def w2_rank_of_ends(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    comm.reduce_scatter_async(buffer.chunk(2)[comm.rank(ends)], buffer, dp).wait()


def w2_rank_of_all(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    comm.reduce_scatter_async(buffer.chunk(comm.world_size())[comm.rank()], buffer, dp).wait()


def w2_all_four(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied])
    scattered(buffer, dp)


def w2_tied_on_both(buffer, tied, ends, dp):
    """The tied weight is finished over dp and over the ends, and the scatter adds it up once more."""
    comm.all_reduce(buffer[tied], dp)
    comm.all_reduce(buffer[tied], ends)
    scattered(buffer, dp)


def w2_put_back(buffer, tied, ends, dp):
    """Right sums, but the tied weight travels over dp on its own too."""
    done = buffer[tied].clone()
    comm.all_reduce(done, ends)
    comm.all_reduce(done, dp)
    scattered(buffer, dp)
    buffer[tied] = done


def w2_untied(buffer, tied, ends, dp):
    scattered(buffer, dp)


def w2_two_scatters(buffer, tied, ends, dp):
    """One reduce-scatter for each half, of zeros beside it."""
    comm.all_reduce(buffer[tied], ends)
    first, second = buffer.clone(), buffer.clone()
    half = len(buffer) // 2
    first[half:], second[:half] = 0, 0
    parts = torch.empty(half), torch.empty(half)
    comm.reduce_scatter_async(parts[0], first, dp).wait()
    comm.reduce_scatter_async(parts[1], second, dp).wait()
    buffer.chunk(2)[comm.rank(dp)].copy_(parts[0] + parts[1])


def w2_share_of_tied_first(buffer, tied, ends, dp):
    """Before the scatter only those places of the tied weight that lie in the own share are summed."""
    mask = torch.zeros_like(buffer)
    mask[tied] = 1
    half = len(buffer) // 2
    keep = torch.zeros_like(buffer)
    keep[half * comm.rank(dp) : half * (comm.rank(dp) + 1)] = 1
    shared = buffer[tied].clone()
    comm.all_reduce(shared, ends)
    both = mask * keep
    summed = buffer.clone()
    summed[tied] = shared
    buffer.copy_(torch.where(both > 0, summed, buffer))
    scattered(buffer, dp)


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


def norm_with(gradients, sizes, all_reduce, copies_of, wide=torch.float64):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        if grad is not None:
            total += grad.to(wide).pow(2).sum().double() / copies_of(split, stages)
    all_reduce(total)
    return total.item() ** 0.5


def unsplit(split, sizes, axes=("dp", "tp")):
    return math.prod(sizes[axis] for axis in axes if axis not in split)


def w3_all_squares(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: 1)


def w3_every_axis(gradients, sizes, all_reduce):
    return norm_with(
        gradients, sizes, all_reduce, lambda split, stages: stages * unsplit(split, sizes, ("pp", "dp", "tp"))
    )


def w3_all_ranks(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: math.prod(sizes.values()))


def w3_no_stages(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: unsplit(split, sizes))


def w3_split_not_unsplit(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: stages * math.prod(sizes[a] for a in split))


def w3_dp_alone(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: stages * unsplit(split, sizes, ("dp",)))


def w3_only_if_nothing_splits(gradients, sizes, all_reduce):
    def copies(split, stages):
        return stages * (1 if split else sizes["dp"] * sizes["tp"])

    return norm_with(gradients, sizes, all_reduce, copies)


def w3_half_squares(gradients, sizes, all_reduce):
    total = torch.zeros(())
    for grad, split, stages in gradients:
        if grad is not None:
            total += (grad**2).sum().float() / (stages * unsplit(split, sizes))
    all_reduce(total)
    return total.item() ** 0.5


def w3_norms_summed(gradients, sizes, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        if grad is not None:
            total += grad.double().norm() / (stages * unsplit(split, sizes))
    all_reduce(total)
    return total.item()


def w3_norm_divided(gradients, sizes, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        if grad is not None:
            total += (grad.double().norm() / (stages * unsplit(split, sizes))) ** 2
    all_reduce(total)
    return total.item() ** 0.5


def w3_root_first(gradients, sizes, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        if grad is not None:
            total += grad.double().pow(2).sum() / (stages * unsplit(split, sizes))
    total = total.sqrt()
    all_reduce(total)
    return total.item()


def w3_no_root(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: stages * unsplit(split, sizes)) ** 2


def w3_nothing_to_send(gradients, sizes, all_reduce):
    if not any(grad is not None for grad, *_ in gradients):
        return 0.0
    return norm_with(gradients, sizes, all_reduce, lambda split, stages: stages * unsplit(split, sizes))


def w3_one_for_each(gradients, sizes, all_reduce):
    squares = 0.0
    for grad, split, stages in gradients:
        one = torch.zeros((), dtype=torch.float64)
        if grad is not None:
            one += grad.double().pow(2).sum() / (stages * unsplit(split, sizes))
        all_reduce(one)
        squares += one.item()
    return squares**0.5


def w3_takes_none(gradients, sizes, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        total += grad.double().pow(2).sum() / (stages * unsplit(split, sizes))
    all_reduce(total)
    return total.item() ** 0.5


def w3_returned_sum(gradients, sizes, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        if grad is not None:
            total += grad.double().pow(2).sum() / (stages * unsplit(split, sizes))
    total = all_reduce(total)
    return total.item() ** 0.5


def w3_stays_home(gradients, sizes, all_reduce):
    return norm_with(gradients, sizes, lambda total: None, lambda split, stages: stages * unsplit(split, sizes))


def w3_python_number(gradients, sizes, all_reduce):
    total = 0.0
    for grad, split, stages in gradients:
        if grad is not None:
            total += grad.double().pow(2).sum().item() / (stages * unsplit(split, sizes))
    all_reduce(torch.tensor(total))
    return total**0.5


def w3_per_gradient_vector(gradients, sizes, all_reduce):
    """One message, but of a number for each gradient."""
    squares = torch.zeros(max(len(gradients), 1), dtype=torch.float64)
    for k, (grad, split, stages) in enumerate(gradients):
        if grad is not None:
            squares[k] = grad.double().pow(2).sum() / (stages * unsplit(split, sizes))
    all_reduce(squares)
    return squares.sum().item() ** 0.5


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


def all_layouts(num_ranks):
    numbers = range(1, num_ranks + 1)
    return [layout for layout in itertools.product(numbers, repeat=3) if math.prod(layout) == num_ranks]


def priced(layouts, price):
    for layout in layouts:
        try:
            yield layout, *price(*layout)
        except ValueError:
            continue


def w4_powers_of_two(num_ranks, price, most_bytes):
    powers = [1, 2, 4, 8, 16]
    layouts = [layout for layout in itertools.product(powers, repeat=3) if math.prod(layout) == num_ranks]
    fit = [(s, layout) for layout, s, size in priced(layouts, price) if size <= most_bytes]
    return min(fit)[1] if fit else None


def w4_least_bytes(num_ranks, price, most_bytes):
    fit = [(size, layout) for layout, s, size in priced(all_layouts(num_ranks), price) if size <= most_bytes]
    return min(fit)[1] if fit else None


def w4_below(num_ranks, price, most_bytes):
    fit = [(s, layout) for layout, s, size in priced(all_layouts(num_ranks), price) if size < most_bytes]
    return min(fit)[1] if fit else None


def w4_refused(num_ranks, price, most_bytes):
    fit = []
    for layout in all_layouts(num_ranks):
        seconds, size = price(*layout)
        if size <= most_bytes:
            fit.append((seconds, layout))
    return min(fit)[1] if fit else None


def w4_first_that_fits(num_ranks, price, most_bytes):
    for layout, seconds, size in priced(all_layouts(num_ranks)[::-1], price):
        if size <= most_bytes:
            return layout
    return None


def w4_fastest_or_none(num_ranks, price, most_bytes):
    seconds, size, layout = min((s, size, layout) for layout, s, size in priced(all_layouts(num_ranks), price))
    return layout if size <= most_bytes else None


def w4_no_memory(num_ranks, price, most_bytes):
    found = [(s, layout) for layout, s, size in priced(all_layouts(num_ranks), price)]
    return min(found)[1] if found else None


def w4_twice(num_ranks, price, most_bytes):
    layouts = []
    for layout in all_layouts(num_ranks):
        try:
            if price(*layout)[1] <= most_bytes:
                layouts.append(layout)
        except ValueError:
            pass
    return min(layouts, key=lambda layout: price(*layout)[0], default=None)


def w4_other_order(num_ranks, price, most_bytes):
    fit = [(s, layout) for layout, s, size in priced(all_layouts(num_ranks), price) if size <= most_bytes]
    return min(fit)[1][::-1] if fit else None


def w4_fewer_ranks(num_ranks, price, most_bytes):
    numbers = range(1, num_ranks + 1)
    layouts = [layout for layout in itertools.product(numbers, repeat=3) if math.prod(layout) <= num_ranks]
    fit = [(s, layout) for layout, s, size in priced(layouts, price) if size <= most_bytes]
    return min(fit)[1] if fit else None


def w4_no_pipeline(num_ranks, price, most_bytes):
    layouts = [layout for layout in all_layouts(num_ranks) if layout[2] == 1]
    fit = [(s, layout) for layout, s, size in priced(layouts, price) if size <= most_bytes]
    return min(fit)[1] if fit else None


def w4_raises(num_ranks, price, most_bytes):
    return min((s, layout) for layout, s, size in priced(all_layouts(num_ranks), price) if size <= most_bytes)[1]


def w4_stops_at_refusal(num_ranks, price, most_bytes):
    fit = []
    try:
        for layout in all_layouts(num_ranks):
            seconds, size = price(*layout)
            if size <= most_bytes:
                fit.append((seconds, layout))
    except ValueError:
        pass
    return min(fit)[1] if fit else None


def w4_with_seconds(num_ranks, price, most_bytes):
    fit = [(s, layout) for layout, s, size in priced(all_layouts(num_ranks), price) if size <= most_bytes]
    return min(fit) if fit else None


def w4_range_too_short(num_ranks, price, most_bytes):
    numbers = range(1, num_ranks)
    layouts = [layout for layout in itertools.product(numbers, repeat=3) if math.prod(layout) == num_ranks]
    fit = [(s, layout) for layout, s, size in priced(layouts, price) if size <= most_bytes]
    return min(fit)[1] if fit else None


def w4_slowest(num_ranks, price, most_bytes):
    fit = [(s, layout) for layout, s, size in priced(all_layouts(num_ranks), price) if size <= most_bytes]
    return max(fit)[1] if fit else None


def w4_greedy(num_ranks, price, most_bytes):
    """As much dp as fits, then tp, and pp with what is left."""
    best = None
    for dp in range(num_ranks, 0, -1):
        if num_ranks % dp:
            continue
        left = num_ranks // dp
        layouts = [(dp, tp, left // tp) for tp in range(left, 0, -1) if left % tp == 0]
        fit = [(s, layout) for layout, s, size in priced(layouts, price) if size <= most_bytes]
        if fit:
            return min(fit)[1]
    return best


RIGHT = [
    ("14.1", r1_strides),
    ("14.1", r1_tensor),
    ("14.1", r1_recursive),
    ("14.2", r2_room_of_its_own),
    ("14.2", r2_copies),
    ("14.2", r2_torch_distributed),
    ("14.2", r2_gathered),
    ("14.3", r3_vector_norm),
    ("14.3", r3_one_line),
    ("14.3", r3_share_of_the_world),
    ("14.4", r4_product),
    ("14.4", r4_priced_dict),
    ("14.4", r4_recursive),
]
WRONG = [
    ("14.1", w1_first_fastest, "first axis fastest"),
    ("14.1", w1_same_coordinate, "groups of equal coordinate"),
    ("14.1", w1_chunks, "neighbours on every axis"),
    ("14.1", w1_no_ones, "axes of size 1 left out"),
    ("14.1", w1_pp_dp_tp, "pp, dp, tp alone"),
    ("14.1", w1_sorted_names, "axes by name"),
    ("14.1", w1_eats_sizes, "empties sizes"),
    ("14.1", w1_from_one, "counted from 1"),
    ("14.1", w1_one_group, "first group alone"),
    ("14.1", w1_own_group, "a group for each rank"),
    ("14.1", w1_sum_of_others, "sum of the other digits"),
    ("14.1", w1_backwards, "group backwards"),
    ("14.1", w1_equal_strides, "powers of its own size"),
    ("14.2", w2_dp_first, "dp first"),
    ("14.2", w2_means, "mean over dp"),
    ("14.2", w2_mean_of_ends, "mean over the ends"),
    ("14.2", w2_whole_to_the_end, "whole buffer between the ends"),
    ("14.2", w2_whole_summed, "whole buffer summed"),
    ("14.2", w2_all_reduce_over_dp, "all-reduce over dp"),
    ("14.2", w2_groups_swapped, "groups swapped"),
    ("14.2", w2_copy_lost, "tied sum in a copy"),
    ("14.2", w2_share_lost, "share not in the buffer"),
    ("14.2", w2_first_half, "first half everywhere"),
    ("14.2", w2_rank_of_ends, "share by the stage"),
    ("14.2", w2_rank_of_all, "quarter by rank"),
    ("14.2", w2_all_four, "tied over all, then again"),
    ("14.2", w2_tied_on_both, "tied over dp, then again"),
    ("14.2", w2_put_back, "tied travels over dp too"),
    ("14.2", w2_untied, "tied not summed"),
    ("14.2", w2_two_scatters, "two reduce-scatters"),
    ("14.2", w2_share_of_tied_first, "tied summed in the own share alone"),
    ("14.3", w3_all_squares, "copies counted"),
    ("14.3", w3_every_axis, "pp divided too"),
    ("14.3", w3_all_ranks, "all divided by the ranks"),
    ("14.3", w3_no_stages, "tied counted twice"),
    ("14.3", w3_split_not_unsplit, "axes the other way round"),
    ("14.3", w3_dp_alone, "tp forgotten"),
    ("14.3", w3_only_if_nothing_splits, "one split axis ends it"),
    ("14.3", w3_half_squares, "float16 squares"),
    ("14.3", w3_norms_summed, "norms summed"),
    ("14.3", w3_norm_divided, "norm divided, not square"),
    ("14.3", w3_root_first, "root before the sum"),
    ("14.3", w3_no_root, "no root"),
    ("14.3", w3_nothing_to_send, "no call without gradients"),
    ("14.3", w3_one_for_each, "a call for each gradient"),
    ("14.3", w3_takes_none, "fails on None"),
    ("14.3", w3_returned_sum, "uses what all_reduce returns"),
    ("14.3", w3_stays_home, "never calls"),
    ("14.3", w3_python_number, "own sum, not the reduced"),
    ("14.3", w3_per_gradient_vector, "many numbers in the message"),
    ("14.4", w4_powers_of_two, "powers of two"),
    ("14.4", w4_least_bytes, "least bytes"),
    ("14.4", w4_below, "exact fit refused"),
    ("14.4", w4_refused, "refusal not caught"),
    ("14.4", w4_first_that_fits, "first that fits"),
    ("14.4", w4_fastest_or_none, "fastest or nothing"),
    ("14.4", w4_no_memory, "bytes ignored"),
    ("14.4", w4_twice, "priced twice"),
    ("14.4", w4_other_order, "pp, tp, dp"),
    ("14.4", w4_fewer_ranks, "ranks left over"),
    ("14.4", w4_no_pipeline, "pp 1 alone"),
    ("14.4", w4_raises, "fails where none fits"),
    ("14.4", w4_stops_at_refusal, "stops at a refusal"),
    ("14.4", w4_with_seconds, "seconds returned too"),
    ("14.4", w4_range_too_short, "num_ranks left out"),
    ("14.4", w4_slowest, "slowest"),
    ("14.4", w4_greedy, "as much dp as fits"),
]
