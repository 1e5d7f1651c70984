"""The cases of exercise 04.2: `partition_dataset(rank, world_size, dataset, batch_size, collate_fn, ...)`.

A rank that makes one step more than the others waits in it for ever, so the cases count steps before they ask
which samples are in them. Every rank has a loader of its own and never hears of the others, so what keeps the shares
apart must follow from the seed and the epoch alone. What two Python processes need not have in common, such as the
hash of a text, shows in a second process only, so one is started for it.
"""

import os
from collections import Counter
from itertools import combinations, islice, product, zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from pllab.comm import RankError
from pllab.lesson.exercise import Asked, Function, Undecided, Wrong, case

Order = list[list[int]]  # step, numbers of the samples

_NUMBERS = (145, 65, 64, 1)
_WORLDS = (3, 2, 4, 5, 6, 7, 8, 1)
_PER_RANK = 4
_SEED = 7
_BASE = 1000  # sample 3 is the number 1003, so that a position is never taken for a sample
_REPLAY_S = 40.0  # importing torch again takes longest


def _epoch(partition_dataset: Asked, number: int, world: int, batch: int, *rest: Any) -> list[Order]:
    """One epoch of every rank, each with a loader of its own, as processes have; the rest is for `epoch_of`."""
    ranks: list[Order] = partition_dataset.inside(epoch_of, number, world, batch, *rest)
    return ranks


def epoch_of(
    partition_dataset: Function,
    number: int,
    world: int,
    batch: int,
    remainder: str = "pad",
    epoch: int | None = None,
    seed: int = _SEED,
) -> list[Order]:
    """In the process of the function: what each rank loads; without an epoch before the first `set_epoch`."""
    ranks = []
    for rank in range(world):
        loader = partition_dataset(rank, world, _data(number), batch, list, seed=seed, remainder=remainder)
        if epoch is not None:
            if not hasattr(loader, "set_epoch"):
                raise Wrong("no_loader", "The loader has no set_epoch; give it one, as a method or as an attribute.")
            loader.set_epoch(epoch)
        ranks.append(_order(loader))
    return ranks


def _data(number: int) -> list[int]:
    """A data set of so many samples, each of which is its number and a base."""
    return [_BASE + index for index in range(number)]


def _order(loader: Any) -> Order:
    return [[int(sample) - _BASE for sample in step] for step in loader]


def _samples(ranks: list[Order]) -> list[int]:
    return [sample for rank in ranks for step in rank for sample in step]


# One epoch


@case("it returns a loader of batches, made by collate_fn if there is one")
def gives_batches(partition_dataset: Asked) -> None:
    partition_dataset.inside(look_at_batches)


def look_at_batches(partition_dataset: Function) -> None:
    """In the process of the function: what two loops over the loader give, with a collate_fn and without."""
    rows = [{"ids": [number % 5] * (1 + number % 3)} for number in range(64)]  # of unequal lengths, some of them equal
    pairs = [(torch.tensor([1.0, number]), number) for number in range(64)]
    for data, collate in ((_data(64), Collated), (rows, Collated), (_data(64), None), (pairs, None)):
        loader = partition_dataset(0, 2, data, 8, collate, remainder="pad")
        if loader is None:
            raise Wrong("no_loader", "partition_dataset returned None; return the loader.")
        right = _form((collate or default_collate)(data[:_PER_RANK]))
        forms = [_form(batch) for batch in islice(loader, len(data))]
        if set(forms) != {right}:
            given = next((form for form in forms if form != right), "nothing")
            what = f"With{'' if collate else 'out'} a collate_fn a loop over your loader gave {given}"
            raise Wrong("wrong_batch", f"{what}; right is {'what collate_fn makes' if collate else right}.")
        if not list(loader):
            raise Wrong("only_one_epoch", "The second loop over your loader was empty; an iterator is used up by one.")


class Collated(list[Any]):
    """The batches of a collate_fn that cannot be mistaken for torch's."""


def _form(batch: Any) -> str:
    """What a batch is, whatever its size: `a 1-dimensional tensor`."""
    if isinstance(batch, Tensor):
        return f"a {batch.dim()}-dimensional tensor"
    if type(batch) in (list, tuple):
        return f"a list of {', '.join(map(_form, batch))}"
    return type(batch).__name__


@case("batch_size is the batch of all ranks together; each rank takes batch_size // world_size")
def batch_of_a_rank(partition_dataset: Asked) -> None:
    for world, batch in ((2, 16), (4, 16), (1, 16), (4, 10)):
        try:
            ranks = _epoch(partition_dataset, 64, world, batch)
        except ValueError:
            if batch % world:
                continue  # to refuse it is allowed
            raise
        size = batch // world
        for rank, steps in enumerate(ranks):
            sizes = [len(step) for step in steps]
            if any(each != size for each in sizes[:-1]) or sizes[-1:] > [size]:
                what = f"64 samples, {world} ranks, batch_size={batch}: rank {rank} has batches of {sizes} samples"
                raise Wrong("rank_batch", f"{what}; right is {size} in each, or fewer in the last.")


@case("every rank takes the same steps with the same number of samples")
def in_step(partition_dataset: Asked) -> None:
    for remainder, number, world in product(("pad", "drop"), _NUMBERS, _WORLDS):
        ranks = _epoch(partition_dataset, number, world, _PER_RANK * world, remainder)
        first, *others = [[len(step) for step in rank] for rank in ranks]
        for rank, sizes in enumerate(others, 1):
            if sizes != first:
                asked = f'{number} samples, {world} ranks, {_PER_RANK} a step, remainder="{remainder}"'
                told = f"rank 0 has batches of {first} samples, and rank {rank} of {sizes}"
                raise Wrong("uneven_steps", f"{asked}: {told}. Right is the same on every rank.")


@case("pad loses nothing, drop repeats nothing: 1 to 145 samples, 1 to 8 ranks")
def nothing_lost(partition_dataset: Asked) -> None:
    """70 samples on 2 ranks: whole shares and a last batch that is not, so a loader's own drop_last shows."""
    for remainder, number, world in product(("pad", "drop"), (70, *_NUMBERS), _WORLDS):
        loaded = _samples(_epoch(partition_dataset, number, world, _PER_RANK * world, remainder))
        left_out = len(set(range(number)) - set(loaded))
        left_over = number % world
        right = (number - left_over, left_over) if remainder == "drop" else (number + -number % world, 0)
        if (len(loaded), left_out) == right:
            continue
        shown = f'{number} samples, {world} ranks, remainder="{remainder}": the ranks load {len(loaded)} and leave out '
        shown += f"{left_out}; right is to load {right[0]} and to leave out {right[1]}."
        if not loaded and not left_over:
            raise Wrong("drops_all", f"{shown} A slice that ends at minus 0 is empty.")
        if len(loaded) == right[0]:
            why = "All ranks have to deal from the same order, and each takes its own part."
            raise Wrong("own_order", f"{shown} Others come more than once in place of those. {why}")
        raise Wrong("wrong_samples", shown)


@case("with an empty data set no rank takes a step")
def empty(partition_dataset: Asked) -> None:
    for world, remainder in product((1, 3), ("pad", "drop")):
        ranks = _epoch(partition_dataset, 0, world, world, remainder)
        if any(ranks):
            shown = f'No samples, {world} ranks, remainder="{remainder}": the batches of the ranks are {ranks}'
            raise Wrong("wrong_samples", f"{shown}; right is no batch.")


# Epoch after epoch


@case("each epoch has one order, whatever came before it; before the first set_epoch it is epoch 0")
def one_order(partition_dataset: Asked) -> None:
    fresh = [_epoch(partition_dataset, 64, 2, 8, "pad", epoch)[1] for epoch in range(3)]
    for hint_id, way, epoch, order in partition_dataset.inside(orders_of):
        for step, (batch, right) in enumerate(zip_longest(order, fresh[epoch])):
            if batch != right:
                what = f"64 samples, rank 1 of 2, epoch {epoch} {way}: the batch of step {step} is {batch}"
                raise Wrong(hint_id, f"{what}, and a new loader set to this epoch gives {right}; right is the same.")


def orders_of(partition_dataset: Function) -> list[tuple[str, str, int, Order]]:
    """In the process of the function: the orders of epochs on rank 1, each with the way there and its hint."""

    def new(*epochs: int) -> Any:
        loader = partition_dataset(1, 2, _data(64), 8, list, seed=_SEED, remainder="pad")
        for epoch in epochs:
            loader.set_epoch(epoch)
        return loader

    orders = [("wrong_order", "in another loader", epoch, _order(new(epoch))) for epoch in range(3)]
    walked = new()
    for epoch in range(3):
        walked.set_epoch(epoch)
        orders.append(("depends_on_the_past", "in a loader that has been in the epochs before", epoch, _order(walked)))
    orders.append(("depends_on_the_past", "in a second loop over the loader", 2, _order(walked)))
    orders.append(("wrong_order", "before the first set_epoch", 0, _order(new())))
    first, second = new(1), new(2)
    orders.append(("wrong_order", "while another loader is in epoch 2", 1, _order(first)))
    orders.append(("wrong_order", "while another loader is in epoch 1", 2, _order(second)))
    return orders


@case("set_epoch: the next epoch has another order, in which samples move between ranks")
def another_order(partition_dataset: Asked) -> None:
    for world, seed in ((2, _SEED), (2, 0), (1, _SEED)):
        epochs = [_epoch(partition_dataset, 64, world, 8, "pad", epoch, seed) for epoch in range(3)]
        for before, after in combinations(range(3), 2):
            what = f"64 samples, {world} ranks, seed {seed}: in epochs {before} and {after}"
            if epochs[before] == epochs[after]:
                why = "It must follow from seed and epoch, even if one is 0."
                raise Wrong("forgotten_epoch", f"{what} the order is the same. {why}")
            here, there = (sorted(sorted(_samples([rank])) for rank in epochs[epoch]) for epoch in (before, after))
            if world > 1 and here == there:
                told = f"{what} the samples of a rank stay together"
                raise Wrong("stays_at_home", f"{told}. Shuffle all samples in each epoch, then share.")


@case("the samples that are left out, or loaded again, change from epoch to epoch")
def others_left_out(partition_dataset: Asked) -> None:
    for remainder in ("drop", "pad"):
        chosen = []
        for epoch in range(5):
            times = Counter(_samples(_epoch(partition_dataset, 29, 4, 8, remainder, epoch)))
            chosen.append([sample for sample in range(29) if times[sample] != 1])
        if all(each == chosen[0] for each in chosen):
            what = f'29 samples, 4 ranks, remainder="{remainder}": in all epochs 0 to 4 you left out or repeated'
            raise Wrong("same_left_out", f"{what} the samples {chosen[0]}. Shuffle before you cut off or append.")


@case("another seed gives another order, and the same seed gives the same order in every process")
def seeded(partition_dataset: Asked) -> None:
    for epoch in (0, 1):
        here, there = (_epoch(partition_dataset, 64, 2, 8, "pad", epoch, seed)[1] for seed in (7, 8))
        if here == there:
            raise Wrong("ignores_the_seed", f"In epoch {epoch} the seeds 7 and 8 give the same order; they should not.")
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    try:
        (orders,) = partition_dataset.on_ranks(orders_on_rank, 1, timeout_s=_REPLAY_S, hash_seed=hash_seed)
    except RankError as error:
        sentence = str(error).partition("\n")[0]
        if " raised " not in sentence:  # it died or was late, which says nothing about the function
            raise Undecided from None
        raise Wrong("other_process", f"In a second Python process your function failed: {sentence}") from None
    if orders != partition_dataset.inside(orders_of):
        told = "A second Python process, with the same seed and epochs, dealt differently"
        why = "Make the order of numbers alone: ranks are processes, and the hash of a text differs between them."
        raise Wrong("other_process", f"{told}. {why}")


def orders_on_rank(rank: int, world_size: int, partition_dataset: Function) -> Any:  # noqa: ARG001
    """In the other process: the orders as the check has them."""
    return orders_of(partition_dataset)
