"""The cases of exercise 04.2: `DataPartitioner(data, sizes, seed)` with `.use(k)`, held against counting.

Samples are counted by their number. A set of tensors would not do: tensors are equal in a set only when they are
the same object, so two shares with the same samples would look disjoint.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

from pllab.lesson.exercise import Wrong, case
from pllab.lesson.exercises.lesson_04_partition import WORLDS, Library, numbers_of

Partitioner = Callable[..., Any]  # a class with .use, or a function (num_samples, sizes, seed) -> lists of numbers

_NUMBERS = (64, 65, 6, 1, 0)
_EQUAL = list(product(_NUMBERS, WORLDS))  # samples, and into how many equal shares
_SEED = 7


@case("every sample is in exactly one share: 0, 1, 6, 64, 65 samples, 1 to 8 shares")
def everything_once(partitioner: Partitioner) -> None:
    _ends_are_no_lengths(partitioner)
    for number, world in _EQUAL:
        shares = shares_of(partitioner, number, [1 / world] * world)
        seen = Counter(sample for share in shares for sample in share)
        if max(seen.values(), default=1) > 1:
            raise _doubled(number, shares, seen)
        if len(seen) < number:
            raise _lost(partitioner)


@case("equal sizes give shares that differ by one sample at most")
def balanced(partitioner: Partitioner) -> None:
    for number, world in _EQUAL:
        lengths = [len(share) for share in shares_of(partitioner, number, [1 / world] * world)]
        if max(lengths) - min(lengths) > 1:
            what = f"{number} samples in {world} equal shares became {lengths}"
            raise Wrong("unbalanced", f"{what}; every step waits for the rank with {max(lengths)}.")


@case("sizes that differ are kept, to less than one sample")
def unequal(partitioner: Partitioner) -> None:
    for number, sizes in ((10, [0.7, 0.2, 0.1]), (65, [0.5, 0.25, 0.25]), (64, [1 / 6] * 6)):
        lengths = [len(share) for share in shares_of(partitioner, number, sizes)]
        for found, size in zip(lengths, sizes, strict=True):
            if abs(found - number * Fraction(size)) >= 1 + Fraction(1, 10**9):
                asked = ", ".join(f"{size:.3g}" for size in sizes)
                raise Wrong("ignores_the_sizes", f"{number} samples in shares of {asked} became {lengths}.")


@case("a share is a mixture of the whole data set")
def shuffled(partitioner: Partitioner) -> None:
    shares = shares_of(partitioner, 64, [0.5, 0.5])
    if set(shares[0]) in (set(range(32)), set(range(32, 64))):
        raise Wrong(
            "not_shuffled",
            "Half of 64 samples were the first or the last 32; a data set that is sorted by topic or length "
            "would give every rank another kind of text.",
        )


@case("the same seed gives the same shares on every rank, another seed others")
def seeded(partitioner: Partitioner) -> None:
    first, again = (shares_of(partitioner, 64, [0.5, 0.5], seed=_SEED) for _ in range(2))
    if first != again:
        raise Wrong(
            "not_repeatable",
            "Two partitioners with the same seed dealt differently; two ranks would train on overlapping shares.",
        )
    if first == shares_of(partitioner, 64, [0.5, 0.5], seed=_SEED + 1):
        raise Wrong("ignores_the_seed", f"The seeds {_SEED} and {_SEED + 1} dealt the same shares.")


def shares_of(partitioner: Partitioner, number: int, sizes: list[float], seed: int = _SEED) -> list[list[int]]:
    """The shares as numbers of samples, whichever form the solution has."""
    if not isinstance(partitioner, type):
        return [[int(index) for index in share] for share in partitioner(number, list(sizes), seed)]
    made: Any = partitioner(Library(number), list(sizes), seed)
    return [_numbers(made.use(k), k) for k in range(len(sizes))]


def _numbers(share: Any, k: int) -> list[int]:
    if not hasattr(share, "__len__") or not hasattr(share, "__getitem__"):
        raise Wrong("no_share", f"use({k}) should return a Partition, with a length and an index; it gave {share!r}.")
    return numbers_of(share, f"use({k})")


def _doubled(number: int, shares: list[list[int]], seen: Counter[int]) -> Wrong:
    if all(share == shares[0] for share in shares):
        return Wrong("same_share", f"All {len(shares)} shares of {number} samples are the same one.")
    twice = sum(count > 1 for count in seen.values())
    return Wrong("doubled", f"{number} samples in {len(shares)} shares: more than one share holds {twice} of them.")


def _lost(partitioner: Partitioner) -> Wrong:
    """Tell a sum of floats, which loses a sample where all shares are whole, from a dropped remainder."""
    missing = {}
    for number, world in _EQUAL:
        shares = shares_of(partitioner, number, [1 / world] * world)
        missing[number, world] = number - len({sample for share in shares for sample in share})
    if missing[6, 6] == 1 and not missing[65, 8]:
        return Wrong(
            "float_sum",
            "6 samples in 6 shares of 1/6: one is in no share. Six times 1/6 adds up to 0.9999999999999999 here, "
            "and its whole part is one too small.",
        )
    if all(lost == number % world for (number, world), lost in missing.items()):
        return Wrong(
            "dropped_remainder",
            f"65 samples in 6 equal shares: no share holds {missing[65, 6]} of them, in any epoch. The whole parts "
            "of the sizes do not add up to everything; somebody has to take what is left over.",
        )
    (number, world), lost = next((pair, lost) for pair, lost in missing.items() if lost)
    return Wrong("lost", f"{number} samples in {world} equal shares: no share holds {lost} of them.")


def _ends_are_no_lengths(partitioner: Partitioner) -> None:
    """The lengths that come of adding up the sizes, and then adding up the sums: 64 in 4 -> 16, 32, 16, 0."""
    lengths = [len(share) for share in shares_of(partitioner, 64, [0.25] * 4)]
    if lengths == [16, 32, 16, 0]:
        raise Wrong(
            "summed_twice",
            f"64 samples in 4 equal shares became {lengths}: the sizes were added up twice. A sum of sizes is "
            "where a share ends; it is not its length.",
        )
