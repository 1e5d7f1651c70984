"""Wrong solutions of lesson 00, each with the hint that must refuse it."""

import numpy as np


def drops_the_remainder(items, rank, world_size):
    size = len(items) // world_size
    return items[rank * size : (rank + 1) * size]


def everything_to_everyone(items, rank, world_size):
    return items


def last_rank_takes_the_rest(items, rank, world_size):
    size = len(items) // world_size
    end = len(items) if rank == world_size - 1 else (rank + 1) * size
    return items[rank * size : end]


def returns_a_generator(items, rank, world_size):
    return (item for item in items[rank::world_size])


def equal_ones_once(items, rank, world_size):
    return list(dict.fromkeys(items))[rank::world_size]


def place_of_the_first_equal(items, rank, world_size):
    return [item for item in items if items.index(item) % world_size == rank]


def sorts_in_place(items, rank, world_size):
    items.sort(key=repr)
    return items[rank::world_size]


def cuts_arrays(items, rank, world_size):
    return np.array_split(items, world_size)[rank].tolist()


def sorts_first(items, rank, world_size):
    return sorted(items)[rank::world_size]


def takes_one_at_least(items, rank, world_size):
    return [items[rank], *items[rank + world_size :: world_size]]


WRONG = [
    ("00.1", "lost", drops_the_remainder),
    ("00.1", "twice", everything_to_everyone),
    ("00.1", "unbalanced", last_rank_takes_the_rest),
    ("00.1", "no_list", returns_a_generator),
    ("00.1", "lost", equal_ones_once),
    ("00.1", "unbalanced", place_of_the_first_equal),
    ("00.1", "changed", sorts_in_place),
    ("00.1", "no_item", cuts_arrays),
    ("00.1", "raised", sorts_first),
    ("00.1", "raised", takes_one_at_least),
]
