"""Wrong solutions of lesson 00, each with the hint that must refuse it."""


def drops_the_remainder(items, rank, world_size):
    size = len(items) // world_size
    return items[rank * size : (rank + 1) * size]


def everything_to_everyone(items, rank, world_size):
    return items


def last_rank_takes_the_rest(items, rank, world_size):
    size = len(items) // world_size
    end = len(items) if rank == world_size - 1 else (rank + 1) * size
    return items[rank * size : end]


def ranks_overlap_by_one(items, rank, world_size):
    size = -(-len(items) // world_size)
    return items[rank * size : (rank + 1) * size + 1]


def ranks_count_from_one(items, rank, world_size):
    return items[rank + 1 :: world_size]


def returns_a_generator(items, rank, world_size):
    return (item for item in items[rank::world_size])


WRONG = [
    ("00.1", "lost", drops_the_remainder),
    ("00.1", "lost", ranks_count_from_one),
    ("00.1", "twice", everything_to_everyone),
    ("00.1", "twice", ranks_overlap_by_one),
    ("00.1", "unbalanced", last_rank_takes_the_rest),
    ("00.1", "no_list", returns_a_generator),
]
