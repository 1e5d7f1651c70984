"""The cases of exercise 04.3: `partition_dataset(rank, world_size, dataset, batch_size, collate_fn, remainder=...)`.

A rank that makes one step more than the others waits in it for ever, so the cases count steps before they ask
which samples are in them.
"""

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
_BASE = 1000  # sample 3 is the number 1003, so that a position is never taken for a sample

Steps = list[list[list[int]]]  # rank, step, numbers of the samples


@case("it returns a loader of batches, also without a collate_fn")
def gives_batches(partition_dataset: PartitionDataset) -> None:
    for collate in (list, None):
        loader = partition_dataset(0, 2, _data(64), 8, collate, remainder="pad")
        if loader is None:
            raise Wrong("no_loader", "partition_dataset returned None; return the loader.")
        items = [item for _, item in zip(range(200), loader, strict=False)]
        if not items or any(_is_sample(item) for item in items):
            raise Wrong(
                "dataset_for_loader",
                f"With collate_fn={getattr(collate, '__name__', None)}, a loop over what came back gave single "
                "samples and no batches: that is the share itself. Put it into a DataLoader.",
            )
        if not list(loader):
            raise Wrong("only_one_epoch", "The second loop over the loader was empty; an iterator is used up by one.")


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


def _miscounted(ranks: Steps, seen: Counter[int], number: int, remainder: str, due: int) -> Wrong:
    what = f'{number} samples, {len(ranks)} ranks, remainder="{remainder}"'
    first, *others = [sorted(sample for step in rank for sample in step) for rank in ranks]
    if others and number > len(ranks) and all(other == first for other in others):
        return Wrong(
            "same_share",
            f"{what}: every rank has the same {len(first)} samples. {len(ranks)} ranks do the work of one.",
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


def _epoch(partition_dataset: PartitionDataset, number: int, world: int, batch: int, remainder: str) -> Steps:
    """One epoch of every rank, each with a loader of its own, as processes have."""
    try:
        given = (world, _data(number), batch, list)
        loaders = (partition_dataset(rank, *given, remainder=remainder) for rank in range(world))
        return [[[int(sample) - _BASE for sample in step] for step in loader] for loader in loaders]
    except Exception as error:
        if number >= world or isinstance(error, NotImplementedError | Wrong):
            raise
        raised = f"{type(error).__name__}: {error}"
        what = f'{world} ranks with a data set of {number}, remainder="{remainder}": one raised {raised}'
        raise Wrong("empty", f"{what}. A rank without samples makes no step and raises nothing.") from None


def _data(number: int) -> list[int]:
    return [_BASE + index for index in range(number)]


def _is_sample(item: Any) -> bool:
    return isinstance(item, int) or (isinstance(item, Tensor) and item.dim() == 0)


def _listed(sizes: set[int]) -> str:
    return " or ".join(str(size) for size in sorted(sizes))
