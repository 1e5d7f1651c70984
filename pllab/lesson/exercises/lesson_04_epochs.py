"""The cases of exercise 04.2 about `set_epoch`: each epoch is dealt anew, and from seed and epoch alone.

What two Python processes need not have in common, such as the hash of a text, shows in a second process only, so one
is started for it.
"""

import os
from collections import Counter

from pllab.comm import RankError
from pllab.lesson.exercise import Asked, Undecided, Wrong, case
from pllab.lesson.exercises.lesson_04_loader import (
    SEED,
    USED_UP,
    PartitionDataset,
    Steps,
    asked_epoch,
    data_of,
    numbers_of,
    set_epoch_of,
)

_NUM_EPOCHS = 3
_REPLAY_S = 40.0  # importing torch again takes longest
_PAST = (
    "The order of an epoch depends on how often set_epoch was called before; a training that goes on from a checkpoint "
    "in epoch 3 would see samples twice."
)
_SAME = {
    "drop": ("leaves out the same ones", "Shuffle before you cut off."),
    "pad": ("loads the same ones twice", "Shuffle before you append."),
}

Orders = list[list[list[int]]]  # epoch, step, numbers of the samples of rank 1


@case("set_epoch: another order in the next epoch, in which samples move between ranks")
def another_order(partition_dataset: Asked) -> None:
    fresh = _fresh(partition_dataset)
    walked = partition_dataset.inside(walk)
    if fresh[0] == fresh[1] == fresh[2]:
        if walked[0] != walked[1]:
            raise Wrong("depends_on_the_past", f"{_PAST} A new loader gives every epoch the same order.")
        raise Wrong("forgotten_epoch", "Epochs 0, 1 and 2 are in the same order: the epoch has to go into the seed.")
    for before, after in ((0, 1), (1, 2), (0, 2)):
        here, there = ([_sorted(rank) for rank in fresh[epoch]] for epoch in (before, after))
        if here == there:
            raise Wrong(
                "stays_at_home",
                f"In epochs {before} and {after} each rank has the same samples: it shuffles its own and never gets "
                "another's; shuffle first, then share.",
            )
        if sorted(here) == sorted(there):
            raise Wrong(
                "goes_around",
                f"In epochs {before} and {after} the shares are the same ones, on other ranks: samples that are "
                "together stay together. Shuffle all samples anew in each epoch, then share.",
            )
    if asked_epoch(partition_dataset, 64, 2, 8, "pad", 0, seed=0) == asked_epoch(
        partition_dataset, 64, 2, 8, "pad", 1, seed=0
    ):
        raise Wrong(
            "forgotten_epoch", "With seed 0 epochs 0 and 1 are in the same order: a product with 0 forgets the epoch."
        )
    alone = [asked_epoch(partition_dataset, 64, 1, 8, "pad", epoch) for epoch in range(_NUM_EPOCHS)]
    if alone[0] == alone[1] or alone[1] == alone[2]:
        raise Wrong("goes_around", "On 1 rank two epochs are in the same order; the epoch decides the order itself.")


@case("who is left out, or loaded again, changes from epoch to epoch")
def others_left_out(partition_dataset: Asked) -> None:
    for remainder, kind in (("drop", "left_out"), ("pad", "repeated")):
        chosen = []
        for epoch in range(5):
            ranks = asked_epoch(partition_dataset, 29, 4, 8, remainder, epoch)
            seen = Counter(sample for rank in ranks for step in rank for sample in step)
            chosen.append({sample for sample in range(29) if seen[sample] != 1})
        if chosen[0] and all(each == chosen[0] for each in chosen):
            what = f'29 samples, 4 ranks, remainder="{remainder}": in epochs 0 to 4'
            does, cure = _SAME[remainder]
            raise Wrong(
                f"same_{kind}",
                f"{what} it {does}, {_listed(chosen[0])}. {cure}",
            )


@case("an order follows from seed and epoch alone, in every process; before the first set_epoch it is epoch 0")
def same_again(partition_dataset: Asked) -> None:
    fresh = [epoch[1] for epoch in _fresh(partition_dataset)]
    if partition_dataset.inside(walk) != fresh:
        raise Wrong("depends_on_the_past", _PAST)
    if asked_epoch(partition_dataset, 64, 2, 8, "pad")[1] != fresh[0]:
        raise Wrong("no_epoch_0", "Before the first set_epoch the share should be that of epoch 0.")
    for epoch in (0, 1):
        seeds = [asked_epoch(partition_dataset, 64, 2, 8, "pad", epoch, seed=seed) for seed in (7, 8)]
        if seeds[0] == seeds[1]:
            raise Wrong("ignores_the_seed", f"In epoch {epoch} the seeds 7 and 8 give the same order.")
    _judge_second_pass(partition_dataset)
    _judge_two_loaders(partition_dataset, fresh)
    if _in_another_process(partition_dataset) != fresh:
        raise Wrong(
            "other_process",
            "A second Python process, with the same seed and epochs, dealt differently. Ranks are processes: the hash "
            "of a text, the number of the process or the time differ between them. Make the order of numbers alone.",
        )


def walk_on_rank(rank: int, world_size: int, partition_dataset: PartitionDataset) -> Orders:  # noqa: ARG001
    """In the other process: walk through the epochs as the check does."""
    return walk(partition_dataset)


def _in_another_process(partition_dataset: Asked) -> Orders:
    """The epochs of rank 1 in a Python process that hashes texts in another way."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    try:
        (orders,) = partition_dataset.on_ranks(walk_on_rank, 1, timeout_s=_REPLAY_S, hash_seed=seed)
    except RankError as error:
        sentence = str(error).partition("\n")[0]
        if "had not finished" in sentence:
            raise Undecided from None
        raise Wrong("other_process", f"In a second Python process your function failed: {sentence}") from None
    return orders


def _judge_two_loaders(partition_dataset: Asked, fresh: Orders) -> None:
    """A training has a loader for the training and one for the validation."""
    if partition_dataset.inside(two_loaders) != fresh[1:]:
        raise Wrong(
            "shared_epoch",
            "Of two loaders one was set to epoch 1 and then the other to epoch 2, and the first is no longer in epoch "
            "1. Keep the epoch in the loader itself.",
        )


def _fresh(partition_dataset: Asked) -> list[Steps]:
    """Epochs 0, 1 and 2 on two ranks, each with new loaders."""
    first, again = (
        [asked_epoch(partition_dataset, 64, 2, 8, "pad", epoch) for epoch in range(_NUM_EPOCHS)] for _ in range(2)
    )
    if first != again:
        raise Wrong(
            "not_repeatable",
            "Two loaders of one rank, with one seed and one epoch, dealt differently: some chance in it has no seed.",
        )
    return first


def _judge_second_pass(partition_dataset: Asked) -> None:
    first, second = partition_dataset.inside(two_passes)
    if second and first != second:
        raise Wrong("depends_on_the_past", f"{_PAST} A second loop over the loader in one epoch had another order.")


def two_loaders(partition_dataset: PartitionDataset) -> Orders:
    """In the process of the function: two loaders of rank 1, one set to epoch 1 and then the other to epoch 2."""
    first, second = (partition_dataset(1, 2, data_of(64), 8, list, seed=SEED, remainder="pad") for _ in range(2))
    set_epoch_of(first, 1)
    set_epoch_of(second, 2)
    return [numbers_of(first), numbers_of(second)]


def two_passes(partition_dataset: PartitionDataset) -> Orders:
    """In the process of the function: two loops over one loader in one epoch."""
    loader = partition_dataset(1, 2, data_of(64), 8, list, seed=SEED, remainder="pad")
    set_epoch_of(loader, 1)
    return [numbers_of(loader), numbers_of(loader)]


def walk(partition_dataset: PartitionDataset) -> Orders:
    """In the process of the function: one loader of rank 1 through the epochs."""
    loader = partition_dataset(1, 2, data_of(64), 8, list, seed=SEED, remainder="pad")
    epochs = []
    for epoch in range(_NUM_EPOCHS):
        set_epoch_of(loader, epoch)
        epochs.append(numbers_of(loader))
    if not epochs[-1]:
        raise Wrong("only_one_epoch", USED_UP)
    return epochs


def _sorted(steps: list[list[int]]) -> list[int]:
    return sorted(sample for step in steps for sample in step)


def _listed(numbers: set[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))
