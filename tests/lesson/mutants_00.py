"""Wrong solutions of lesson 00, each with the hint that must refuse it."""

from tests.lesson import strangers_00 as strangers


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


def equal_ones_once(items, rank, world_size):
    return list(dict.fromkeys(items))[rank::world_size]


def place_of_the_first_equal(items, rank, world_size):
    return [item for item in items if items.index(item) % world_size == rank]


def by_hash(items, rank, world_size):
    places = {item: place for place, item in enumerate(items)}
    return [item for item in items if places[item] % world_size == rank]


def sorts_in_place(items, rank, world_size):
    items.sort(key=repr)
    return items[rank::world_size]


def takes_away(items, rank, world_size):
    return [items.pop() for _ in range(len(items[rank::world_size]))]


def takes_its_share_out_of_the_list(items, rank, world_size):
    mine = items[rank::world_size]
    del items[rank::world_size]
    return mine


def a_set_of_mine(items, rank, world_size):
    return set(items[rank::world_size])


WRONG = [
    ("00.1", "lost", drops_the_remainder),
    ("00.1", "lost", ranks_count_from_one),
    ("00.1", "twice", everything_to_everyone),
    ("00.1", "twice", ranks_overlap_by_one),
    ("00.1", "unbalanced", last_rank_takes_the_rest),
    ("00.1", "no_list", returns_a_generator),
    ("00.1", "no_list", a_set_of_mine),
    ("00.1", "equal_items", equal_ones_once),
    ("00.1", "equal_items", place_of_the_first_equal),
    ("00.1", "equal_items", by_hash),
    ("00.1", "changed", sorts_in_place),
    ("00.1", "lost", takes_away),
    ("00.1", "changed", takes_its_share_out_of_the_list),
    ("00.1", "unbalanced", strangers.w_round_of_float),
    ("00.1", "item_lost", strangers.w_none_filler),
    ("00.1", "item_lost", strangers.w_copies),
    ("00.1", "no_item", strangers.w_numpy),
]
