"""All ranks in step: held against counting and against one rank alone."""

import random
from itertools import chain, cycle, islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from pllab.data import DataPartitioner, partition_dataset


def loaders(num_samples, world_size, batch_size, **options):
    return [
        partition_dataset(rank, world_size, range(num_samples), batch_size, list, **options)
        for rank in range(world_size)
    ]


def epoch_of(world, epoch):
    """The batches of every rank: ranks x steps x samples."""
    for loader in world:
        loader.set_epoch(epoch)
    return [list(loader) for loader in world]


@settings(max_examples=150)
@given(
    num_samples=st.integers(0, 200),
    world_size=st.integers(1, 8),
    per_rank=st.integers(1, 9),
    remainder=st.sampled_from(["pad", "drop"]),
    epoch=st.integers(0, 5),
    shuffle=st.booleans(),
)
def test_many_ranks_make_the_steps_of_one_together(num_samples, world_size, per_rank, remainder, epoch, shuffle):
    batch_size, options = per_rank * world_size, {"remainder": remainder, "shuffle": shuffle}
    [alone] = epoch_of(loaders(num_samples, 1, batch_size, **options), epoch)
    order = list(chain.from_iterable(alone))
    assert sorted(order) == list(range(num_samples)) and (shuffle or order == sorted(order))
    if remainder == "pad":  # with the beginning of the epoch
        order += islice(cycle(list(order)), -num_samples % world_size if order else 0)
    else:
        order = order[: num_samples - num_samples % world_size]

    world = loaders(num_samples, world_size, batch_size, **options)
    steps = list(zip(*epoch_of(world, epoch), strict=True))
    assert {len(loader) for loader in world} == {len(steps)}
    assert all(len({*map(len, step)}) == 1 for step in steps), "as many samples on each rank"
    together = [list(chain.from_iterable(step)) for step in steps]
    assert together == [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def test_every_epoch_and_seed_has_its_own_order_and_all_ranks_know_it():
    world = loaders(40, 4, 8)
    epochs = [epoch_of(world, epoch) for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert set(chain(*epochs[0][0])) != set(chain(*epochs[1][0]))  # samples move between ranks
    assert epoch_of(loaders(40, 4, 8, seed=1), 0) != epochs[0]
    for ranks in epochs:
        assert sorted(chain.from_iterable(chain.from_iterable(ranks))) == list(range(40))
    assert epoch_of(world, 1) == epochs[1]  # going back gives the same order again
    assert epoch_of(loaders(40, 4, 8), 2) == epochs[2]  # and so does a fresh process


def test_without_set_epoch_the_order_is_that_of_epoch_0():
    loader = partition_dataset(0, 2, range(20), 4, list)
    assert list(loader) == list(loader) == epoch_of(loaders(20, 2, 4), 0)[0]


def test_the_batch_size_is_global_and_the_result_is_a_loader():
    loader = partition_dataset(1, 4, torch.arange(64))
    assert isinstance(loader, DataLoader)
    assert loader.batch_size == 32
    assert len(loader.dataset) == 16
    assert next(iter(loader)).shape == (16,)  # torch's own collate function where none is given


def test_cutting_and_loading_draw_from_no_global_generator():
    # Else dropout is equal or drifts. torch's DataLoader draws a seed at each iteration, unless given a generator.
    random.random(), torch.rand(1)  # so that the state is not by chance the one that seeding leaves behind
    python, pytorch = random.getstate(), torch.get_rng_state()
    DataPartitioner(range(50))
    loader = partition_dataset(0, 2, range(20), 4, list)
    loader.set_epoch(1)
    list(loader)
    assert random.getstate() == python
    assert torch.equal(torch.get_rng_state(), pytorch)


@pytest.mark.parametrize(
    ("rank", "world_size", "batch_size", "remainder", "message"),
    [
        (0, 0, 8, "pad", "rank 0 is out of range"),
        (-1, 2, 8, "pad", "rank -1 is out of range"),
        (2, 2, 8, "pad", "rank 2 is out of range; a world of 2 has ranks 0 to 1"),
        (0, 4, 0, "pad", "batch_size 0 .* cannot be divided by 4 ranks; give a multiple of 4"),
        (0, 4, 10, "pad", "batch_size 10 .* cannot be divided by 4 ranks"),
        (0, 2, 2, "keep", "remainder 'keep' is not a policy"),
    ],
)
def test_impossible_requests_are_refused(rank, world_size, batch_size, remainder, message):
    with pytest.raises(ValueError, match=message):
        partition_dataset(rank, world_size, range(100), batch_size, remainder=remainder)
