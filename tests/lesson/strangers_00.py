"""Solutions of lesson 00 by somebody who read the lesson alone."""

import math
import random
from itertools import zip_longest

import numpy as np


# ---- right
def r_slice(items, rank, world_size):
    return items[rank::world_size]


def r_enumerate(items, rank, world_size):
    mine = []
    for position, item in enumerate(items):
        if position % world_size == rank:
            mine.append(item)
    return mine


def r_blocks(items, rank, world_size):
    base, extra = divmod(len(items), world_size)
    start = rank * base + min(rank, extra)
    return list(items[start : start + base + (rank < extra)])


# ---- wrong
def w_floor_block(items, rank, world_size):
    n = len(items) // world_size
    return items[rank * n : (rank + 1) * n]


def w_ceil_block(items, rank, world_size):
    n = math.ceil(len(items) / world_size)
    return items[rank * n : (rank + 1) * n]


def w_last_takes_rest(items, rank, world_size):
    n = len(items) // world_size
    return items[rank * n :] if rank == world_size - 1 else items[rank * n : (rank + 1) * n]


def w_index(items, rank, world_size):
    return [item for item in items if items.index(item) % world_size == rank]


def w_pop(items, rank, world_size):
    hands = [[] for _ in range(world_size)]
    turn = 0
    while items:
        hands[turn % world_size].append(items.pop(0))
        turn += 1
    return hands[rank]


def w_none_filler(items, rank, world_size):
    rounds = zip_longest(*[iter(items)] * world_size)
    return [r[rank] for r in rounds if r[rank] is not None]


def w_numpy(items, rank, world_size):
    return np.array_split(items, world_size)[rank].tolist()


def w_generator(items, rank, world_size):
    return (item for i, item in enumerate(items) if i % world_size == rank)


def w_own_shuffle(items, rank, world_size):
    mixed = random.sample(items, len(items))
    return mixed[rank::world_size]


def w_sorted(items, rank, world_size):
    return sorted(items)[rank::world_size]


def w_round_of_float(items, rank, world_size):
    n = max(1, round(len(items) / world_size))
    end = len(items) if rank == world_size - 1 else (rank + 1) * n
    return items[rank * n : end]


def w_first_item_assumed(items, rank, world_size):
    mine = [items[rank]]
    for i in range(rank + world_size, len(items), world_size):
        mine.append(items[i])
    return mine


def w_unique(items, rank, world_size):
    mine = []
    for item in items[rank::world_size]:
        if item not in mine:
            mine.append(item)
    return mine


def w_copies(items, rank, world_size):
    return [
        type(item)(item) if isinstance(item, (int, float, str)) else item
        for item in items[rank::world_size]
        if item == item
    ]


def w_sort_in_place(items, rank, world_size):
    items.reverse()
    return items[rank::world_size]


def wx_up_to_three(items, rank, world_size):
    n = len(items)
    a = round(n / world_size)
    if rank == world_size - 1:
        return items[a * rank :]
    return items[a * rank : a * rank + a]


X = "00.1"
RIGHT = [(X, r_slice), (X, r_enumerate), (X, r_blocks)]
WRONG = [
    (X, w_floor_block, "remainder is lost"),
    (X, w_ceil_block, "late ranks too few items"),
    (X, w_last_takes_rest, "last rank takes whole remainder"),
    (X, w_index, "equal items all go together"),
    (X, w_pop, "empties the list it got"),
    (X, w_none_filler, "items that are None vanish"),
    (X, w_numpy, "numpy changes the items' types"),
    (X, w_generator, "a generator, not a list"),
    (X, w_own_shuffle, "each rank shuffles differently"),
    (X, w_sorted, "items need an order"),
    (X, w_round_of_float, "rounded block, uneven last"),
    (X, w_first_item_assumed, "fewer items than ranks"),
    (X, w_unique, "equal items dropped in share"),
    (X, w_copies, "drops nan (item unequal to itself)"),
    (X, w_sort_in_place, "reverses the given list"),
    ("00.1", wx_up_to_three, "4 ranks unbalanced"),
]
