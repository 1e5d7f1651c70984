"""All ranks in step: held against counting and against one rank alone."""

import pickle
import random
from collections import Counter
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
def test_ranks_are_in_step_and_nothing_is_lost(num_samples, world_size, per_rank, remainder, epoch, shuffle):
    world = loaders(num_samples, world_size, per_rank * world_size, remainder=remainder, shuffle=shuffle)
    ranks = epoch_of(world, epoch)

    # The same number of steps, the same number of samples in each, and as many as the loader announced.
    sizes = [[len(batch) for batch in batches] for batches in ranks]
    assert all(one == sizes[0] for one in sizes)
    assert all(len(loader) == len(sizes[0]) for loader in world)
    assert all(size == per_rank for size in sizes[0][:-1])
    assert all(0 < size <= per_rank for size in sizes[0][-1:])

    seen = Counter(chain.from_iterable(chain.from_iterable(ranks)))
    assert all(0 <= sample < num_samples for sample in seen)
    left_over = num_samples % world_size
    if remainder == "drop":
        assert seen.total() == len(seen) == num_samples - left_over
    else:
        assert len(seen) == num_samples
        assert seen.total() == num_samples + (-num_samples % world_size if num_samples else 0)
        if num_samples >= world_size:
            assert max(seen.values(), default=1) <= 2


@given(num_samples=st.integers(0, 200), world_size=st.sampled_from([2, 4, 8]), epoch=st.integers(0, 3))
def test_global_batches_do_not_depend_on_the_world(num_samples, world_size, epoch):
    # One process and many train on the same samples in the same steps; what fills up is the beginning of the epoch.
    [alone] = epoch_of(loaders(num_samples, 1, 16), epoch)
    ranks = epoch_of(loaders(num_samples, world_size, 16), epoch)
    order = list(chain.from_iterable(alone))
    filled = [*order, *islice(cycle(order), -num_samples % world_size if order else 0)]
    together = [list(chain.from_iterable(step)) for step in zip(*ranks, strict=True)]
    assert together == [filled[start : start + 16] for start in range(0, len(filled), 16)]


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


def test_shuffle_false_keeps_the_order():
    world = loaders(8, 2, 4, shuffle=False)
    assert epoch_of(world, 0) == epoch_of(world, 3) == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


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


def test_a_share_travels_to_another_process():
    share = partition_dataset(0, 2, list(range(20)), 4).dataset
    assert list(pickle.loads(pickle.dumps(share))) == list(share)


@pytest.mark.parametrize(
    ("rank", "world_size", "batch_size", "remainder", "message"),
    [
        (0, 0, 8, "pad", "world_size 0 is too small"),
        (-1, 2, 8, "pad", "rank -1 is out of range"),
        (2, 2, 8, "pad", "rank 2 is out of range; a world of 2 has ranks 0 to 1"),
        (0, 4, 3, "pad", "batch_size 3 .* cannot be divided by 4 ranks; use 4$"),
        (0, 4, 0, "pad", "batch_size 0 .* cannot be divided by 4 ranks; use 4$"),
        (0, 4, 10, "pad", "batch_size 10 .* cannot be divided by 4 ranks; use 8 or 12"),
        (0, 4, 4.0, "pad", "batch_size is 4.0; give a whole number"),
        (0, 4, "4", "pad", "batch_size is '4'; give a whole number"),
        (0, 2, 2, "keep", "remainder 'keep' is not a policy"),
    ],
)
def test_impossible_requests_are_refused(rank, world_size, batch_size, remainder, message):
    with pytest.raises(ValueError, match=message):
        partition_dataset(rank, world_size, range(100), batch_size, remainder=remainder)
