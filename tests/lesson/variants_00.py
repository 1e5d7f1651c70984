"""Right solutions of lesson 00 that look different."""


def deals_cards(items, rank, world_size):
    return items[rank::world_size]


def cuts_blocks(items, rank, world_size):
    return items[len(items) * rank // world_size : len(items) * (rank + 1) // world_size]


def counts_remainders(items, rank, world_size):
    size, rest = divmod(len(items), world_size)
    start = rank * size + min(rank, rest)
    return items[start : start + size + (rank < rest)]


def filters(items, rank, world_size):
    return tuple(item for index, item in enumerate(items) if index % world_size == rank)


# By somebody who read the lesson alone.


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


RIGHT = {
    "00.1": [deals_cards, cuts_blocks, counts_remainders, filters, r_enumerate, r_blocks],
}
