"""The cases of exercise 04.4: `EpochShare(data, rank, world_size, seed)`, which `set_epoch` deals anew.

Every rank has an object of its own and never hears of the others, so what keeps the shares apart must follow from
the seed and the epoch alone.
"""

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_04_partition import WORLDS, Library, numbers_of

MakeShare = Callable[..., Any]

_NUMBERS = (64, 65, 1, 0)


@case("in every epoch the ranks share all samples: 0, 1, 64, 65 samples, 1 to 8 ranks")
def everything_once(make: MakeShare) -> None:
    for number, world, epoch in product(_NUMBERS, WORLDS, (0, 1, 5)):
        _judge(number, _world(make, number, world, epoch), epoch)


@case("the next epoch has another order, and samples move between ranks")
def another_order(make: MakeShare) -> None:
    epochs = [_world(make, 64, 2, epoch) for epoch in range(3)]
    for before, after in ((0, 1), (1, 2)):
        if epochs[before] == epochs[after]:
            raise Wrong(
                "forgotten_epoch",
                f"Epochs {before} and {after} are in the same order: the epoch has to go into the seed.",
            )
        if [sorted(share) for share in epochs[before]] == [sorted(share) for share in epochs[after]]:
            raise Wrong(
                "stays_at_home",
                "Each rank shuffles its own samples and never gets another's; shuffle first, then share.",
            )


@case("an epoch's order does not depend on the epochs before it")
def same_again(make: MakeShare) -> None:
    walked = make(Library(64), 1, 2, 7)
    fresh = _world(make, 64, 2, 3)[1]
    for epoch in range(4):
        walked.set_epoch(epoch)
    if numbers_of(walked, "share[0]") != fresh:
        raise Wrong(
            "depends_on_the_past",
            "Epoch 3 after epochs 0, 1 and 2 is another epoch 3 than on a rank that starts there; a training "
            "that goes on from a checkpoint would see samples twice.",
        )
    if numbers_of(make(Library(64), 1, 2, 7), "share[0]") != _world(make, 64, 2, 0)[1]:
        raise Wrong("no_epoch_0", "Before the first set_epoch the share should be that of epoch 0.")


@case("another seed is another order, in epoch 0 too")
def seeded(make: MakeShare) -> None:
    for epoch in (0, 1):
        if _world(make, 64, 2, epoch, seed=7) == _world(make, 64, 2, epoch, seed=8):
            raise Wrong("ignores_the_seed", f"In epoch {epoch} the seeds 7 and 8 give the same order.")


def _judge(number: int, shares: list[list[int]], epoch: int) -> None:
    seen = Counter(sample for share in shares for sample in share)
    what = f"{number} samples, {len(shares)} ranks, epoch {epoch}"
    lengths = [len(share) for share in shares]
    if len(shares) > 1 and shares[0] and all(sorted(share) == sorted(shares[0]) for share in shares):
        raise Wrong("same_share", f"{what}: every rank has the same {lengths[0]} samples.")
    if seen.total() == number > len(seen):
        raise Wrong(
            "own_order",
            f"{what}: nobody has {number - len(seen)} of them, and some have two owners. The ranks "
            "shuffle differently, so their cuts do not fit; all of them need the same seed.",
        )
    if seen.total() > len(seen):
        raise Wrong(
            "doubled", f"{what}: the shares hold {seen.total() - len(seen)} too many; padding belongs into the loader."
        )
    if len(seen) < number:
        raise Wrong("dropped_remainder", f"{what}: nobody has {number - len(seen)} of them.")
    if max(lengths) - min(lengths) > 1:
        raise Wrong("unbalanced", f"{what}: the shares have {lengths} samples.")


def _world(make: MakeShare, number: int, world: int, epoch: int, seed: int = 7) -> list[list[int]]:
    """The shares of all ranks in an epoch, each object made alone."""
    shares = []
    for rank in range(world):
        share = make(Library(number), rank, world, seed)
        share.set_epoch(epoch)
        shares.append(numbers_of(share, "share[0]"))
    return shares
