"""Solutions of lesson 00 by somebody who read the lesson alone."""


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
    "00.1": [r_enumerate, r_blocks],
}
