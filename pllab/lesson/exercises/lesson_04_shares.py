"""The cases of exercise 04.1: `DataPartitioner(data, sizes, seed)` with `.use(k)`, held against counting.

Samples are counted by their position. A set of tensors would not do: tensors are equal in a set only when they are
the same object, so two shares with the same samples would look disjoint.
"""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import islice, product
from typing import Any

from pllab.lesson.exercise import Asked, Wrong, case
from pllab.lesson.exercises.lesson_04_partition import WORLDS, Library, numbers_of

Partitioner = Callable[..., Any]

_NUMBERS = (64, 65, 6, 1, 0)
_EQUAL = list(product(_NUMBERS, WORLDS))  # samples, and into how many equal shares
_ASKED = (
    (10, [0.7, 0.2, 0.1]),
    (65, [0.5, 0.25, 0.25]),
    (64, [1 / 6] * 6),
    (100, [0.29, 0.71]),
    (9, [0.0, 1.0]),
    (10, [0.5, 0.25, 0.25]),
    (10, [0.25, 0.25, 0.5]),
    (4, [0.125, 0.25, 0.25, 0.375]),
)
_ROUNDING = Fraction(1, 10**9)  # of sizes that are floats
_SEED = 7


@case("every sample is in exactly one share: 0, 1, 6, 64, 65 samples, 1 to 8 shares")
def everything_once(partitioner: Asked) -> None:
    _ends_are_no_lengths(partitioner)
    for number, world in _EQUAL:
        shares = _shares(partitioner, number, [1 / world] * world)
        seen = Counter(sample for share in shares for sample in share)
        if max(seen.values(), default=1) > 1:
            raise _doubled(number, shares, seen)
        if len(seen) < number:
            raise _lost(partitioner)


@case("equal sizes give shares that differ by one sample at most")
def balanced(partitioner: Asked) -> None:
    for number, world in _EQUAL:
        lengths = [len(share) for share in _shares(partitioner, number, [1 / world] * world)]
        if max(lengths) - min(lengths) > 1:
            what = f"{number} samples in {world} equal shares became {lengths}"
            raise Wrong("unbalanced", f"{what}; every step waits for the rank with {max(lengths)}.")


@case("share k differs from sizes[k] * len(data) by less than one sample")
def unequal(partitioner: Asked) -> None:
    for number, sizes in _ASKED:
        lengths = [len(share) for share in _shares(partitioner, number, sizes)]
        named = ", ".join(f"{size:.3g}" for size in sizes)
        for k, (found, size) in enumerate(zip(lengths, sizes, strict=True)):
            due = number * Fraction(size)
            if abs(found - due) < 1 - _ROUNDING:
                continue
            what = f"{number} samples in shares of {named} became {lengths}"
            if found == math.floor(due) < round(due):
                raise Wrong(
                    "float_product",
                    f"{what}: share {k} is due {round(due)}. In floating point the product is a little smaller, and "
                    "its whole part is one too small; round to some nine digits first.",
                )
            if abs(found - due) < 1 + _ROUNDING:
                raise Wrong(
                    "one_whole_sample",
                    f"{what}: share {k} is due {float(due):g} and got {found}, a whole sample more or less. What is "
                    "left over goes to the shares that lack most of a sample; one that lacks nothing gets nothing.",
                )
            raise Wrong("ignores_the_sizes", f"{what}: share {k} is due {float(due):g}.")


@case("the same seed gives the same shares on every rank, another seed others, each a mixture of the data")
def seeded(partitioner: Asked) -> None:
    first, again = (_shares(partitioner, 64, [0.5, 0.5]) for _ in range(2))
    if set(first[0]) in (set(range(32)), set(range(32, 64))):
        raise Wrong(
            "not_shuffled",
            "Half of 64 samples were the first or the last 32; a data set that is sorted by topic or length "
            "would give every rank another kind of text.",
        )
    if first != again:
        raise Wrong(
            "not_repeatable",
            "Two partitioners with the same seed dealt differently; two ranks would train on overlapping shares.",
        )
    if first == _shares(partitioner, 64, [0.5, 0.5], seed=_SEED + 1):
        raise Wrong("ignores_the_seed", f"The seeds {_SEED} and {_SEED + 1} dealt the same shares.")


@case("a share is a view: no sample is read before it is asked for, a for loop over it ends, and data stay as they are")
def view(partitioner: Asked) -> None:
    if partitioner.inside(orders_the_data):
        raise Wrong(
            "shuffles_the_data",
            "After the call the caller's own list is in another order; shuffle a list of positions and leave the data.",
        )
    partitioner.inside(look_at_shares)


def look_at_shares(partitioner: Partitioner) -> None:
    """In the process of the function: what is read of the data, and when."""
    data = Library(8)
    made: Any = partitioner(data, [0.5, 0.5], _SEED)
    first = made.use(0)
    if data.reads:
        raise Wrong("reads_all", f"Making a share read {len(data.reads)} samples; it only has to remember where.")
    alone = _numbers(first, data, 0)
    shares = [first, made.use(1)]
    if _numbers(first, data, 0) != alone:
        raise Wrong("shared_index", "After use(1) was called, the share of use(0) held other samples than before.")
    lists = [_numbers(share, data, k) for k, share in enumerate(shares)]
    for k, share in enumerate(shares):
        data.reads.clear()
        got = list(islice(iter(share), len(lists[k]) + 1))
        if len(got) > len(lists[k]):
            raise Wrong(
                "never_stops", "A for loop did not stop after the last sample; an IndexError says where it ends."
            )
        right = [data.samples[place] for place in lists[k]]
        if data.reads != lists[k] or any(mine is not its for mine, its in zip(got, right, strict=False)):
            raise Wrong("loop", f"A for loop over use({k}) gave other things than use({k})[0], use({k})[1] and so on.")


def _shares(partitioner: Asked, number: int, sizes: list[float], seed: int = _SEED) -> list[list[int]]:
    """The shares as positions of samples, whose order says which sample a rank meets first."""
    shares: list[list[int]] = partitioner.inside(shares_of, number, sizes, seed)
    return shares


def shares_of(partitioner: Partitioner, number: int, sizes: list[float], seed: int) -> list[list[int]]:
    """In the process of the function: the shares as positions of samples."""
    data = Library(number)
    made: Any = partitioner(data, list(sizes), seed)
    return [_numbers(made.use(k), data, k) for k in range(len(sizes))]


def _numbers(share: Any, data: Library, k: int) -> list[int]:
    if isinstance(share, list) and share and all(isinstance(place, int) for place in share):
        raise Wrong("numbers_for_samples", f"use({k}) gave a list of positions; a share gives the samples themselves.")
    if not hasattr(share, "__len__") or not hasattr(share, "__getitem__"):
        raise Wrong("no_share", f"use({k}) should return something with a length and an index; it gave {share!r}.")
    return numbers_of(share, data, f"use({k})")


def _doubled(number: int, shares: list[list[int]], seen: Counter[int]) -> Wrong:
    if all(share == shares[0] for share in shares):
        return Wrong("same_share", f"All {len(shares)} shares of {number} samples are the same one.")
    twice = sum(count > 1 for count in seen.values())
    return Wrong("doubled", f"{number} samples in {len(shares)} shares: more than one share holds {twice} of them.")


def _lost(partitioner: Asked) -> Wrong:
    """Tell a sum of floats, which loses a sample where all shares are whole, from a dropped remainder."""
    missing = {}
    for number, world in _EQUAL:
        shares = _shares(partitioner, number, [1 / world] * world)
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
            f"65 samples in 6 equal shares: no share holds {missing[65, 6]} of them. The whole parts of "
            "the sizes do not add up to everything; somebody has to take what is left over.",
        )
    (number, world), lost = next((pair, lost) for pair, lost in missing.items() if lost)
    return Wrong("lost", f"{number} samples in {world} equal shares: no share holds {lost} of them.")


def _ends_are_no_lengths(partitioner: Asked) -> None:
    """The lengths that come of adding up the sizes, and then adding up the sums: 64 in 4 -> 16, 32, 16, 0."""
    lengths = [len(share) for share in _shares(partitioner, 64, [0.25] * 4)]
    if lengths == [16, 32, 16, 0]:
        raise Wrong(
            "summed_twice",
            f"64 samples in 4 equal shares became {lengths}: the sizes were added up twice. A sum of sizes is "
            "where a share ends; it is not its length.",
        )


def orders_the_data(partitioner: Partitioner) -> bool:
    """In the process of the function: whether it shuffles a list of the caller, for everybody."""
    samples = [("sample", number) for number in range(64)]
    given = list(samples)
    made: Any = partitioner(given, [0.5, 0.5], _SEED)
    for k in range(2):
        made.use(k)
    return given != samples
