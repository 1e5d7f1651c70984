"""Solutions of lesson 00 by somebody who read the lesson alone."""

import numpy as np


# ---- right
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


def w_numpy(items, rank, world_size):
    return np.array_split(items, world_size)[rank].tolist()


def w_sorted(items, rank, world_size):
    return sorted(items)[rank::world_size]


def w_first_item_assumed(items, rank, world_size):
    mine = [items[rank]]
    for i in range(rank + world_size, len(items), world_size):
        mine.append(items[i])
    return mine


X = "00.1"
RIGHT = {
    "00.1": [r_enumerate, r_blocks],
}
WRONG = [
    (X, w_sorted, "items need an order"),
    (X, w_first_item_assumed, "fewer items than ranks"),
]
