"""The cases of exercise 04.2: `partition_dataset(rank, world_size, dataset, batch_size, collate_fn, ...)`: one epoch.

A rank that makes one step more than the others waits in it for ever, so the cases count steps before they ask
which samples are in them. Every rank has a loader of its own and never hears of the others, so what keeps the shares
apart must follow from the seed and the epoch alone.
"""

import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pllab.lesson.exercise import Asked, Wrong, case

PartitionDataset = Callable[..., Any]

_NUMBERS = (145, 65, 64, 1)
_LOSABLE = (70, *_NUMBERS)  # 70 on 2 ranks: whole shares and a last batch that is not, so drop_last shows
_WORLDS = (3, 2, 4, 5, 6, 7, 8, 1)
_PER_RANK = 4
SEED = 7
_NONE = "partition_dataset returned None; return the loader."
USED_UP = "The second loop over the loader was empty; an iterator is used up by one."
_IGNORED_COLLATE = "A batch did not come from collate_fn: hand it on to the DataLoader."
_BASE = 1000  # sample 3 is the number 1003, so that a position is never taken for a sample

Steps = list[list[list[int]]]  # rank, step, numbers of the samples


@case("it returns a loader of batches, made by collate_fn if there is one")
def gives_batches(partition_dataset: Asked) -> None:
    partition_dataset.inside(look_at_batches)


def look_at_batches(partition_dataset: PartitionDataset) -> None:
    """In the process of the function: what a loop over the loader gives, with a collate_fn and without."""
    rows = [{"ids": [number % 5] * (1 + number % 3)} for number in range(64)]  # of unequal lengths, some of them equal
    for collate, data in ((_Batch, rows), (None, data_of(64))):
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
            raise Wrong("only_one_epoch", USED_UP)
    _batches_of_torch(partition_dataset)


@case("batch_size is the batch of all ranks together; each rank takes batch_size // world_size")
def batch_of_a_rank(partition_dataset: Asked) -> None:
    for world, batch in ((2, 16), (4, 16), (1, 16), (4, 10)):
        try:
            steps = asked_epoch(partition_dataset, 64, world, batch, "pad")
        except ValueError:
            if batch % world:
                continue  # to refuse it is allowed
            raise
        sizes = {len(step) for rank in steps for step in rank}
        if batch % world:
            sizes = {max(sizes)}  # 64 samples end in a smaller step, or not
        if sizes == {batch // world}:
            continue
        what = f"batch_size={batch} on {world} ranks: in a step each rank takes {_listed(sizes)}"
        if batch in sizes:
            raise Wrong("global_batch", f"{what}, so one step of all ranks sees {batch * world} instead of {batch}.")
        raise Wrong("rank_batch", f"{what}, and it should take {batch // world}.")


@case("every rank makes the same steps with the same number of samples")
def in_step(partition_dataset: Asked) -> None:
    for number, world, remainder in _worlds(_NUMBERS):
        ranks = asked_epoch(partition_dataset, number, world, _PER_RANK * world, remainder)
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
def nothing_lost(partition_dataset: Asked) -> None:
    """Pad repeats fewer samples than there are ranks and loses none; drop leaves out fewer and repeats none."""
    for number, world, remainder in _worlds(_LOSABLE):
        ranks = asked_epoch(partition_dataset, number, world, _PER_RANK * world, remainder)
        seen = Counter(sample for rank in ranks for step in rank for sample in step)
        left_over = number % world
        due = number - left_over if remainder == "drop" else number + (-number % world)
        if seen.total() == due and len(seen) == min(number, due) and set(seen) <= set(range(number)):
            continue
        raise _miscounted(ranks, seen, number, remainder, due)


@case("an empty data set gives every rank no step")
def empty(partition_dataset: Asked) -> None:
    for world in (1, 3):
        for remainder in ("pad", "drop"):
            ranks = asked_epoch(partition_dataset, 0, world, world, remainder)
            if any(ranks):
                raise Wrong("empty", f"An empty data set gave the ranks {[len(rank) for rank in ranks]} steps.")


def _miscounted(ranks: Steps, seen: Counter[int], number: int, remainder: str, due: int) -> Wrong:
    what = f'{number} samples, {len(ranks)} ranks, remainder="{remainder}"'
    if due and not seen:
        nothing = "nothing is left over, and" if due == number else f"{number - due} are too many, and"
        return Wrong("drops_all", f"{what}: {nothing} every sample is dropped. A slice that ends at minus 0 is empty.")
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


def set_epoch_of(loader: Any, epoch: int) -> None:
    """Set the epoch, of a loader that can.

    Raises:
        Wrong: it cannot.
    """
    if not hasattr(loader, "set_epoch"):
        raise Wrong("no_set_epoch", "The loader has no set_epoch; give it one, as a method or as an attribute.")
    loader.set_epoch(epoch)


def asked_epoch(
    partition_dataset: Asked,
    number: int,
    world: int,
    batch: int,
    remainder: str,
    epoch: int | None = None,
    seed: int = SEED,
) -> Steps:
    """One epoch of every rank, each with a loader of its own, as processes have."""
    steps: Steps = partition_dataset.inside(epoch_of, number, world, batch, remainder, epoch, seed)
    return steps


def epoch_of(
    partition_dataset: PartitionDataset,
    number: int,
    world: int,
    batch: int,
    remainder: str,
    epoch: int | None,
    seed: int,
) -> Steps:
    """In the process of the function: the numbers of the samples, by rank and step."""
    try:
        ranks = []
        for rank in range(world):
            loader = partition_dataset(rank, world, data_of(number), batch, list, seed=seed, remainder=remainder)
            if epoch is not None:
                set_epoch_of(loader, epoch)
            ranks.append(numbers_of(loader))
        return ranks
    except Exception as error:
        if number >= world or isinstance(error, NotImplementedError | Wrong):
            raise
        raised = f"{type(error).__name__}: {error}"
        what = f'{world} ranks with a data set of {number}, remainder="{remainder}": one raised {raised}'
        raise Wrong("empty", f"{what}. A rank without samples makes no step and raises nothing.") from None


def _batches_of_torch(partition_dataset: PartitionDataset) -> None:
    """Without a collate_fn numbers become one tensor, and pairs one of each half."""
    pairs = [(torch.tensor([1.0, number]), number) for number in range(64)]
    batch = next(iter(partition_dataset(0, 2, pairs, 8, None, remainder="pad")))
    halves = isinstance(batch, list | tuple) and len(batch) == 2 and all(isinstance(half, Tensor) for half in batch)
    if not halves or [half.dim() for half in batch] != [2, 1]:
        raise Wrong(
            "own_collate",
            "Without a collate_fn, pairs of a tensor and a number became something else than the two tensors that "
            "the DataLoader makes of them; where collate_fn is None, give it None.",
        )


def _items(loader: Any, collate: Any) -> list[Any]:
    """The first batches; torch's own collate cannot make one of lists that are not equally long."""
    try:
        return [item for _, item in zip(range(200), loader, strict=False)]
    except Exception as error:
        if collate is None or "collate" not in "".join(traceback.format_exception(error)):
            raise
        raise Wrong("ignores_collate", _IGNORED_COLLATE) from None


def numbers_of(loader: Any) -> list[list[int]]:
    """The numbers of the samples in each batch of a loop over the loader."""
    if loader is None:
        raise Wrong("no_loader", _NONE)
    steps = list(loader)
    if not all(isinstance(step, list | Tensor) for step in steps):
        raise Wrong("dataset_for_loader", "A loop over what came back gave single samples and no batches.")
    return [[int(sample) - _BASE for sample in step] for step in steps]


class _Batch(list[Any]):
    """The batches of a collate_fn that cannot be mistaken for torch's."""


def data_of(number: int) -> list[int]:
    """A data set of so many samples, each of which is its number and a base."""
    return [_BASE + index for index in range(number)]


def _is_sample(item: Any) -> bool:
    single = isinstance(item, dict) and isinstance(item.get("ids"), list) and isinstance(item["ids"][0], int)
    return single or isinstance(item, int) or (isinstance(item, Tensor) and item.dim() == 0)


def _listed(sizes: set[int]) -> str:
    return " or ".join(str(size) for size in sorted(sizes))
