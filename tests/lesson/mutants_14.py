"""Wrong solutions of lesson 14, each with the hint that must refuse it."""

from time import sleep

import torch

from pllab import comm
from tests.lesson.variants_14 import by_combinations

# 14.1 arrange(sizes)


def _places(sizes):
    return by_combinations(sizes)[0]


def _groups(sizes):
    return by_combinations(sizes)[1]


def _world(sizes):
    return len(_places(sizes))


def divides_with_a_rest(sizes):
    places = [{axis: place + rank / 99 for axis, place in each.items()} for rank, each in enumerate(_places(sizes))]
    return places, _groups(sizes)


def counts_the_first_axis_fastest(sizes):
    turned = dict(reversed(sizes.items()))
    return _places(turned), _groups(turned)


def always_pp_dp_tp(sizes):
    fixed = {axis: sizes[axis] for axis in ("pp", "dp", "tp") if axis in sizes} | sizes
    return _places(fixed), _groups(fixed)


def forgets_to_take_the_rest(sizes):
    stride, places = _world(sizes), [{} for _ in range(_world(sizes))]
    for axis, size in sizes.items():
        stride //= size
        for rank, place in enumerate(places):
            place[axis] = rank // stride
    return places, _groups(sizes)


def ranks_with_the_same_coordinate(sizes):
    places = _places(sizes)
    return places, {
        axis: [[rank for rank, place in enumerate(places) if place[axis] == at] for at in range(size)]
        for axis, size in sizes.items()
    }


def only_the_groups_of_rank_0(sizes):
    return _places(sizes), {axis: groups[:1] for axis, groups in _groups(sizes).items()}


def always_neighbours(sizes):
    world = _world(sizes)
    return _places(sizes), {
        axis: [list(range(first, first + size)) for first in range(0, world, size)] for axis, size in sizes.items()
    }


def always_far_apart(sizes):
    world = _world(sizes)
    return _places(sizes), {
        axis: [list(range(first, world, world // size)) for first in range(world // size)]
        for axis, size in sizes.items()
    }


def ranks_of_a_group_backwards(sizes):
    return _places(sizes), {axis: [group[::-1] for group in mine] for axis, mine in _groups(sizes).items()}


def leaves_out_axes_of_one(sizes):
    return _places(sizes), {axis: mine for axis, mine in _groups(sizes).items() if sizes[axis] > 1}


def takes_the_sizes_apart(sizes):
    answer = _places(sizes), _groups(sizes)
    sizes.clear()
    return answer


# 14.2 finish(buffer, tied, ends, dp)


def _scatter(buffer, dp):
    share = buffer.chunk(comm.world_size(dp))[comm.rank(dp)]
    comm.reduce_scatter_async(share, buffer, dp).wait()


def scatters_first(buffer, tied, ends, dp):
    """The order of Megatron-LM issue 844."""
    _scatter(buffer, dp)
    comm.all_reduce(buffer[tied], ends)


def forgets_the_ends(buffer, tied, ends, dp):
    _scatter(buffer, dp)


def forgets_dp(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)


def ties_the_whole_buffer(buffer, tied, ends, dp):
    comm.all_reduce(buffer, ends)
    _scatter(buffer, dp)


def ties_twice(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    comm.all_reduce(buffer[tied], ends)
    _scatter(buffer, dp)


def ties_before_and_after(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    _scatter(buffer, dp)
    comm.all_reduce(buffer[tied], ends)


def into_a_new_buffer(buffer, tied, ends, dp):
    mine = buffer.clone()
    comm.all_reduce(mine[tied], ends)
    _scatter(mine, dp)
    return mine


def all_reduces_over_dp(buffer, tied, ends, dp):
    comm.all_reduce(buffer, dp)
    comm.all_reduce(buffer[tied], ends)


def part_of_float32(buffer, tied, ends, dp):
    comm.all_reduce(buffer[tied], ends)
    comm.reduce_scatter_async(torch.empty(len(buffer) // 2), buffer, dp).wait()


# 14.3 norm_over_ranks(gradients, sizes, all_reduce)


def _over(split, sizes, *axes):
    copies = 1
    for axis in axes:
        if axis not in split:
            copies *= sizes[axis]
    return copies


def _right_copies(sizes):
    return lambda split, stages: _over(split, sizes, "dp", "tp") * stages


def _total(gradients, copies_of, square=lambda grad: (grad.double() ** 2).sum()):
    total = torch.zeros((), dtype=torch.float64)
    for grad, split, stages in gradients:
        if grad is not None:
            total += square(grad) / copies_of(split, stages)
    return total


def _norm_with(gradients, all_reduce, *how):
    total = _total(gradients, *how)
    all_reduce(total)
    return float(total) ** 0.5


def counts_replicas(gradients, sizes, all_reduce):
    return _norm_with(gradients, all_reduce, lambda split, stages: 1)


def forgets_dp_replicas(gradients, sizes, all_reduce):
    return _norm_with(gradients, all_reduce, lambda split, stages: _over(split, sizes, "tp") * stages)


def counts_a_tied_weight_twice(gradients, sizes, all_reduce):
    return _norm_with(gradients, all_reduce, lambda split, stages: _over(split, sizes, "dp", "tp"))


def divides_what_is_split(gradients, sizes, all_reduce):
    return _norm_with(gradients, all_reduce, lambda split, stages: sizes["dp"] * sizes["tp"] * stages)


def divides_by_pp_too(gradients, sizes, all_reduce):
    return _norm_with(gradients, all_reduce, lambda split, stages: _over(split, sizes, "pp", "dp", "tp") * stages)


def this_rank_alone(gradients, sizes, all_reduce):
    return sum(float((grad.double() ** 2).sum()) for grad, _, _ in gradients if grad is not None) ** 0.5


def adds_norms(gradients, sizes, all_reduce):
    total = _total(gradients, _right_copies(sizes)).sqrt()
    all_reduce(total)
    return float(total)


def squares_in_float16(gradients, sizes, all_reduce):
    return _norm_with(gradients, all_reduce, _right_copies(sizes), lambda grad: (grad**2).sum())


def a_message_for_each_gradient(gradients, sizes, all_reduce):
    messages = [gradients[k : k + 1] for k in range(8)]
    return sum(_norm_with(one, all_reduce, _right_copies(sizes)) ** 2 for one in messages) ** 0.5


def as_many_messages_as_gradients(gradients, sizes, all_reduce):
    return sum(_norm_with([one], all_reduce, _right_copies(sizes)) ** 2 for one in gradients) ** 0.5


def a_number_for_each_gradient(gradients, sizes, all_reduce):
    squares = torch.stack([_total([one], _right_copies(sizes)) for one in gradients or [(None, (), 1)]])
    all_reduce(squares)
    return float(squares.sum()) ** 0.5


def takes_every_gradient(gradients, sizes, all_reduce):
    given = [(grad.clone(), split, stages) for grad, split, stages in gradients]
    return _norm_with(given, all_reduce, _right_copies(sizes))


def stays_away_without_gradients(gradients, sizes, all_reduce):
    if all(grad is None for grad, _, _ in gradients):
        return 0.0
    return _norm_with(gradients, all_reduce, _right_copies(sizes))


def takes_what_all_reduce_returns(gradients, sizes, all_reduce):
    return all_reduce(_total(gradients, _right_copies(sizes)))


def root_of_what_all_reduce_returns(gradients, sizes, all_reduce):
    return all_reduce(_total(gradients, _right_copies(sizes))).item() ** 0.5


# 14.4 plan(num_ranks, price, most_bytes)


def _layouts(num_ranks):
    sizes = [size for size in range(1, num_ranks + 1) if num_ranks % size == 0]
    return [(dp, tp, num_ranks // dp // tp) for dp in sizes for tp in sizes if num_ranks % (dp * tp) == 0]


def _priced(num_ranks, price):
    for layout in _layouts(num_ranks):
        try:
            seconds, num_bytes = price(*layout)
        except ValueError:
            continue
        yield seconds, num_bytes, layout


def _fitting(num_ranks, price, most_bytes):
    return [one for one in _priced(num_ranks, price) if one[1] <= most_bytes]


def forgets_memory(num_ranks, price, most_bytes):
    return min(_priced(num_ranks, price))[2]


def least_memory(num_ranks, price, most_bytes):
    found = _fitting(num_ranks, price, most_bytes)
    near = [one for one in found if one[0] <= 1.2 * min(found)[0]]  # too many: 10 % more are allowed
    return min(near, key=lambda one: one[1:])[2] if found else None


def fails_where_none_fits(num_ranks, price, most_bytes):
    return min(_fitting(num_ranks, price, most_bytes))[2]


def powers_of_two(num_ranks, price, most_bytes):
    found = [one for one in _fitting(num_ranks, price, most_bytes) if all(size.bit_count() == 1 for size in one[2])]
    return min(found)[2] if found else None


def less_than_the_limit(num_ranks, price, most_bytes):
    found = [one for one in _priced(num_ranks, price) if one[1] < most_bytes]
    return min(found)[2] if found else None


def pp_dp_tp(num_ranks, price, most_bytes):
    """Returns the sizes in the order of the mesh."""
    found = _fitting(num_ranks, price, most_bytes)
    return min(found)[2][::-1] if found else None


def lets_a_refusal_through(num_ranks, price, most_bytes):
    found = [(price(*layout), layout) for layout in _layouts(num_ranks)]
    return min(one for one in found if one[0][1] <= most_bytes)[1]


def cubes_alone(num_ranks, price, most_bytes):
    side = max(1, round(num_ranks ** (1 / 3)))
    return side, side, side


def asks_twice(num_ranks, price, most_bytes):
    found = [layout for _, _, layout in _fitting(num_ranks, price, most_bytes)]
    return min(found, key=lambda layout: price(*layout)[0]) if found else None


def asks_again_if_the_fastest_is_too_large(num_ranks, price, most_bytes):
    found = list(_priced(num_ranks, price))
    if min(found)[1] <= most_bytes:
        return min(found)[2]
    fitting = [(seconds, layout) for seconds, _, layout in found if price(*layout)[1] <= most_bytes]
    return min(fitting)[1] if fitting else None


def adds_a_half(num_ranks, price, most_bytes):
    return [size + 0.5 for size in min(_fitting(num_ranks, price, most_bytes))[2]]


def the_smallest_if_none_fits(num_ranks, price, most_bytes):
    found = list(_priced(num_ranks, price))
    fitting = [one for one in found if one[1] <= most_bytes]
    return min(fitting)[2] if fitting else min(found, key=lambda one: one[1])[2]


def counts_for_ever(num_ranks, price, most_bytes):
    number = 1
    while number:
        number += 1
        sleep(0.01)  # who computes without end on a busy machine is not judged


WRONG = [
    ("14.1", "first_is_fastest", counts_the_first_axis_fastest),
    ("14.1", "fixed_order", always_pp_dp_tp),
    ("14.1", "wrong", forgets_to_take_the_rest),
    ("14.1", "planes", ranks_with_the_same_coordinate),
    ("14.1", "no_partition", only_the_groups_of_rank_0),
    ("14.1", "neighbours", always_neighbours),
    ("14.1", "wrong", always_far_apart),
    ("14.1", "unordered", ranks_of_a_group_backwards),
    ("14.1", "no_pair", leaves_out_axes_of_one),
    ("14.1", "changed", takes_the_sizes_apart),
    ("14.2", "wrong_order", scatters_first),
    ("14.2", "ends_apart", forgets_the_ends),
    ("14.2", "only_the_ends", forgets_dp),
    ("14.2", "whole_buffer", ties_the_whole_buffer),
    ("14.2", "tied_twice", ties_twice),
    ("14.2", "wrong", ties_before_and_after),
    ("14.2", "nothing_done", into_a_new_buffer),
    ("14.2", "too_much_sent", all_reduces_over_dp),
    ("14.2", "other_part", part_of_float32),
    ("14.3", "wrong", divides_by_pp_too),
    ("14.3", "replicas_counted", counts_replicas),
    ("14.3", "wrong", forgets_dp_replicas),
    ("14.3", "tied_twice", counts_a_tied_weight_twice),
    ("14.3", "split_divided", divides_what_is_split),
    ("14.3", "own_alone", this_rank_alone),
    ("14.3", "norms_added", adds_norms),
    ("14.3", "wrong", squares_in_float16),
    ("14.3", "more_messages", a_message_for_each_gradient),
    ("14.3", "not_all_join", stays_away_without_gradients),
    ("14.3", "form", takes_what_all_reduce_returns),
    ("14.3", "not_all_join", as_many_messages_as_gradients),
    ("14.3", "raised", takes_every_gradient),
    ("14.3", "raised", root_of_what_all_reduce_returns),
    ("14.3", "form", a_number_for_each_gradient),
    ("14.4", "too_large", forgets_memory),
    ("14.4", "slow", least_memory),
    ("14.4", "no_layout", less_than_the_limit),
    ("14.4", "not_allowed", pp_dp_tp),
    ("14.4", "refusal_not_caught", lets_a_refusal_through),
    ("14.4", "other_product", cubes_alone),
    ("14.4", "priced_twice", asks_twice),
    ("14.4", "too_large", the_smallest_if_none_fits),
    ("14.4", "no_layout", powers_of_two),
    ("14.4", "raised", fails_where_none_fits),
]

# Accepted once.
LET_THROUGH = [
    ("14.1", "no_pair", divides_with_a_rest),
    ("14.4", "priced_twice", asks_again_if_the_fastest_is_too_large),
    ("14.4", "no_layout", adds_a_half),
]

HANGING = [
    ("14.4", "hang", counts_for_ever),
]
