"""The cases of exercise 04.2: `partition_dataset(rank, world_size, dataset, batch_size, collate_fn, ...)`, with epochs.

A rank that makes one step more than the others waits in it for ever, so the cases count steps before they ask
which samples are in them. Every rank has a loader of its own and never hears of the others, so what keeps the shares
apart must follow from the seed and the epoch alone.
"""

import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor

from pllab.lesson.exercise import Wrong, case

PartitionDataset = Callable[..., Any]

_NUMBERS = (145, 65, 64, 1)
_LOSABLE = (70, *_NUMBERS)  # 70 on 2 ranks: whole shares and a last batch that is not, so drop_last shows
_WORLDS = (3, 2, 4, 5, 6, 7, 8, 1)
_PER_RANK = 4
_SEED = 7
_PAST = (
    "The order of an epoch depends on how often set_epoch was called before; a training that goes on from a checkpoint "
    "in epoch 3 would see samples twice."
)
_NONE = "partition_dataset returned None; return the loader."
_USED_UP = "The second loop over the loader was empty; an iterator is used up by one."
_IGNORED_COLLATE = "A batch did not come from collate_fn: hand it on to the DataLoader."
_BASE = 1000  # sample 3 is the number 1003, so that a position is never taken for a sample

Steps = list[list[list[int]]]  # rank, step, numbers of the samples


@case("it returns a loader of batches, made by collate_fn if there is one")
def gives_batches(partition_dataset: PartitionDataset) -> None:
    rows = [{"ids": [number % 5] * (1 + number % 3)} for number in range(64)]  # of unequal lengths, some of them equal
    for collate, data in ((_Batch, rows), (None, _data(64))):
        loader = partition_dataset(0, 2, data, 8, collate, remainder="pad")
        if loader is None:
            raise Wrong("no_loader", _NONE)
        items = _items(loader, collate)
        if not items or any(_is_sample(item) for item in items):
            raise Wrong(
                "dataset_for_loader",
                f"With{'out a' if collate is None else ' a'} collate_fn, a loop over what came back gave single "
                "samples and no batches: that is the share itself. Put it into a DataLoader.",
            )
        if collate and not all(isinstance(item, _Batch) for item in items):
            raise Wrong("ignores_collate", _IGNORED_COLLATE)
        if not list(loader):
            raise Wrong("only_one_epoch", _USED_UP)


@case("batch_size is the batch of all ranks together")
def batch_of_a_rank(partition_dataset: PartitionDataset) -> None:
    for world in (2, 4, 1):
        sizes = {len(step) for rank in _epoch(partition_dataset, 64, world, 16, "pad") for step in rank}
        if sizes == {16 // world}:
            continue
        what = f"batch_size=16 on {world} ranks: in a step each rank takes {_listed(sizes)}"
        if 16 in sizes:
            raise Wrong("global_batch", f"{what}, so one step of all ranks sees {16 * world} instead of 16.")
        raise Wrong("rank_batch", f"{what}, and it should take {16 // world}.")


@case("every rank makes the same steps with the same number of samples")
def in_step(partition_dataset: PartitionDataset) -> None:
    for number, world, remainder in _worlds(_NUMBERS):
        ranks = _epoch(partition_dataset, number, world, _PER_RANK * world, remainder)
        steps = [len(rank) for rank in ranks]
        what = f'{number} samples, {world} ranks, {_PER_RANK} a step, remainder="{remainder}"'
        if len(set(steps)) > 1:
            late = steps.index(max(steps))
            raise Wrong(
                "uneven_steps",
                f"{what}: the ranks make {steps} steps. Rank {late} waits in step {max(steps)} for ever.",
            )
        for step in zip(*ranks, strict=True):
            if len(sizes := {len(samples) for samples in step}) > 1:
                raise Wrong(
                    "uneven_batches", f"{what}: in one and the same step the ranks have batches of {_listed(sizes)}."
                )


@case("pad loses nothing, drop doubles nothing: 1 to 145 samples, 1 to 8 ranks")
def nothing_lost(partition_dataset: PartitionDataset) -> None:
    """Pad repeats fewer samples than there are ranks and loses none; drop leaves out fewer and repeats none."""
    for number, world, remainder in _worlds(_LOSABLE):
        ranks = _epoch(partition_dataset, number, world, _PER_RANK * world, remainder)
        seen = Counter(sample for rank in ranks for step in rank for sample in step)
        left_over = number % world
        due = number - left_over if remainder == "drop" else number + (-number % world)
        if seen.total() == due and len(seen) == min(number, due) and set(seen) <= set(range(number)):
            continue
        raise _miscounted(ranks, seen, number, remainder, due)


@case("an empty data set gives every rank no step")
def empty(partition_dataset: PartitionDataset) -> None:
    for world in (1, 3):
        for remainder in ("pad", "drop"):
            ranks = _epoch(partition_dataset, 0, world, world, remainder)
            if any(ranks):
                raise Wrong("empty", f"An empty data set gave the ranks {[len(rank) for rank in ranks]} steps.")


@case("set_epoch: another order in the next epoch, in which samples move between ranks")
def another_order(partition_dataset: PartitionDataset) -> None:
    fresh = _fresh(partition_dataset)
    walked = _walk(partition_dataset, 3)
    if fresh[0] == fresh[1] == fresh[2]:
        if walked[0] != walked[1]:
            raise Wrong("depends_on_the_past", f"{_PAST} A new loader gives every epoch the same order.")
        raise Wrong("forgotten_epoch", "Epochs 0, 1 and 2 are in the same order: the epoch has to go into the seed.")
    for before, after in ((0, 1), (1, 2)):
        if [_sorted(rank) for rank in fresh[before]] == [_sorted(rank) for rank in fresh[after]]:
            raise Wrong(
                "stays_at_home",
                f"In epochs {before} and {after} each rank has the same samples: it shuffles its own and never gets "
                "another's; shuffle first, then share.",
            )


@case("an epoch's order follows from seed and epoch alone; before the first set_epoch it is epoch 0")
def same_again(partition_dataset: PartitionDataset) -> None:
    fresh = [epoch[1] for epoch in _fresh(partition_dataset)]
    if _walk(partition_dataset, 3) != fresh:
        raise Wrong("depends_on_the_past", _PAST)
    if _epoch(partition_dataset, 64, 2, 8, "pad")[1] != fresh[0]:
        raise Wrong("no_epoch_0", "Before the first set_epoch the share should be that of epoch 0.")
    for epoch in (0, 1):
        seeds = [_epoch(partition_dataset, 64, 2, 8, "pad", epoch, seed=seed) for seed in (7, 8)]
        if seeds[0] == seeds[1]:
            raise Wrong("ignores_the_seed", f"In epoch {epoch} the seeds 7 and 8 give the same order.")


def _fresh(partition_dataset: PartitionDataset) -> list[Steps]:
    """Epochs 0, 1 and 2 on two ranks, each with new loaders."""
    first, again = ([_epoch(partition_dataset, 64, 2, 8, "pad", epoch) for epoch in range(3)] for _ in range(2))
    if first != again:
        raise Wrong(
            "not_repeatable",
            "Two loaders of one rank, with one seed and one epoch, dealt differently: some chance in it has no seed.",
        )
    return first


def _walk(partition_dataset: PartitionDataset, num_epochs: int) -> list[list[list[int]]]:
    """One loader of rank 1 through the epochs."""
    loader = partition_dataset(1, 2, _data(64), 8, list, seed=_SEED, remainder="pad")
    epochs = []
    for epoch in range(num_epochs):
        _set_epoch(loader, epoch)
        epochs.append(_numbers(loader))
    if not epochs[-1]:
        raise Wrong("only_one_epoch", _USED_UP)
    return epochs


def _set_epoch(loader: Any, epoch: int) -> None:
    if not hasattr(loader, "set_epoch"):
        raise Wrong("no_set_epoch", "The loader has no set_epoch; give it one, as a method or as an attribute.")
    loader.set_epoch(epoch)


def _miscounted(ranks: Steps, seen: Counter[int], number: int, remainder: str, due: int) -> Wrong:
    what = f'{number} samples, {len(ranks)} ranks, remainder="{remainder}"'
    first, *others = [sorted(sample for step in rank for sample in step) for rank in ranks]
    if others and number > len(ranks) and all(other == first for other in others):
        return Wrong(
            "same_share",
            f"{what}: every rank has the same {len(first)} samples. {len(ranks)} ranks do the work of one.",
        )
    if seen.total() == due and len(seen) < min(number, due):
        return Wrong(
            "own_order",
            f"{what}: nobody loads {min(number, due) - len(seen)} of them, and some are loaded by two ranks. The ranks "
            "deal from different orders, so their cuts do not fit; seed and epoch decide, and the rank does not.",
        )
    if remainder == "pad" and len(seen) == seen.total() == number - number % len(ranks):
        return Wrong("dropped_remainder", f"{what}: nobody loads {number - len(seen)} of them.")
    if remainder == "drop" and seen.total() > due:
        return Wrong("repeats_under_drop", f"{what}: {seen.total() - len(seen)} of them are loaded twice.")
    if len(seen) < min(number, due):
        return Wrong("lost", f"{what}: {len(seen)} of them are loaded, and {min(number, due)} should be.")
    return Wrong("doubled", f"{what}: the ranks load {seen.total()} and should load {due}.")


def _worlds(numbers: tuple[int, ...]) -> list[tuple[int, int, str]]:
    return [(number, world, remainder) for remainder in ("pad", "drop") for number in numbers for world in _WORLDS]


def _epoch(
    partition_dataset: PartitionDataset,
    number: int,
    world: int,
    batch: int,
    remainder: str,
    epoch: int | None = None,
    seed: int = _SEED,
) -> Steps:
    """One epoch of every rank, each with a loader of its own, as processes have."""
    try:
        ranks = []
        for rank in range(world):
            loader = partition_dataset(rank, world, _data(number), batch, list, seed=seed, remainder=remainder)
            if epoch is not None:
                _set_epoch(loader, epoch)
            ranks.append(_numbers(loader))
        return ranks
    except Exception as error:
        if number >= world or isinstance(error, NotImplementedError | Wrong):
            raise
        raised = f"{type(error).__name__}: {error}"
        what = f'{world} ranks with a data set of {number}, remainder="{remainder}": one raised {raised}'
        raise Wrong("empty", f"{what}. A rank without samples makes no step and raises nothing.") from None


def _items(loader: Any, collate: Any) -> list[Any]:
    """The first batches; torch's own collate cannot make one of lists that are not equally long."""
    try:
        return [item for _, item in zip(range(200), loader, strict=False)]
    except Exception as error:
        if collate is None or "collate" not in "".join(traceback.format_exception(error)):
            raise
        raise Wrong("ignores_collate", _IGNORED_COLLATE) from None


def _numbers(loader: Any) -> list[list[int]]:
    if loader is None:
        raise Wrong("no_loader", _NONE)
    steps = list(loader)
    if not all(isinstance(step, list | Tensor) for step in steps):
        raise Wrong("dataset_for_loader", "A loop over what came back gave single samples and no batches.")
    return [[int(sample) - _BASE for sample in step] for step in steps]


def _sorted(steps: list[list[int]]) -> list[int]:
    return sorted(sample for step in steps for sample in step)


class _Batch(list[Any]):
    """The batches of a collate_fn that cannot be mistaken for torch's."""


def _data(number: int) -> list[int]:
    return [_BASE + index for index in range(number)]


def _is_sample(item: Any) -> bool:
    single = isinstance(item, dict) and isinstance(item.get("ids"), list) and isinstance(item["ids"][0], int)
    return single or isinstance(item, int) or (isinstance(item, Tensor) and item.dim() == 0)


def _listed(sizes: set[int]) -> str:
    return " or ".join(str(size) for size in sorted(sizes))
