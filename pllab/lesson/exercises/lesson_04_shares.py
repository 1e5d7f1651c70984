"""The cases of exercise 04.1: `DataPartitioner(data, sizes, seed)` with `.use(k)`, held against counting.

A sample may be a tuple, None, a tensor, or equal to another sample, so its position is counted, never its value. A
set of tensors would not do: tensors are equal in a set only when they are the same object, so two shares with the
same samples would look disjoint.
"""

import operator
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, islice, product
from typing import Any

import torch

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare

_SEED = 7
# Samples, and sizes as a reader writes them; first equal ones.
_WORLDS = (2, 3, 4, 5, 6, 7, 8, 1)
_QUESTIONS = [(number, " ".join([f"1/{world}"] * world)) for number, world in product((64, 65, 6, 1, 0), _WORLDS)]
_QUESTIONS += [(10, "0.7 0.2 0.1"), (65, "0.5 0.25 0.25"), (100, "0.29 0.71"), (9, "0 1")]
_QUESTIONS += [(10, "0.5 0.25 0.25"), (10, "0.25 0.25 0.5"), (4, "0.125 0.25 0.25 0.375")]


def _floats(sizes: str) -> list[float]:
    return [float(Fraction(size)) for size in sizes.split()]


def _due(number: int, sizes: str) -> list[Fraction]:
    """How much each share would get if samples could be cut."""
    return [number * Fraction(size) for size in sizes.split()]


def _shares(partitioner: Asked, number: int, sizes: str, seed: int = _SEED) -> list[list[int]]:
    """The shares as positions of samples, whose order says which sample a rank meets first."""
    shares: list[list[int]] = partitioner.inside(shares_of, number, _floats(sizes), seed)
    return shares


@case("every sample is in exactly one share: 0, 1, 6, 64, 65 samples, 1 to 8 shares")
def everything_once(partitioner: Asked) -> None:
    for number, sizes in _QUESTIONS:
        times = Counter(chain.from_iterable(_shares(partitioner, number, sizes)))
        lost, repeated = number - len(times), sum(each > 1 for each in times.values())
        shown = f"{number} samples in shares of {sizes}: {lost} in no share, {repeated} in several; right is 0 and 0."
        if lost and not repeated:
            why = f"The lengths have to add up to {number}: deal out what is left over, too."
            raise Wrong("dropped_remainder", f"{shown} {why}")
        if lost or repeated:
            raise Wrong("not_once", shown)


def _is_float_product(lengths: list[int], number: int, sizes: str) -> bool:
    """Whether a share is too short by the whole part of a product that rounding has made too small."""
    shares = zip(lengths, _floats(sizes), _due(number, sizes), strict=True)
    return any(length == int(number * size) <= due - 1 for length, size, due in shares)


_LENGTHS = [
    Mistake(
        "float_product",
        "In floating point 0.29 * 100 is a little below 29, so its whole part is 28; round to nine digits first.",
        when=_is_float_product,
    ),
    Mistake(
        "one_whole_sample",
        "Give what is left over to the shares with the largest fractions; a share without a fraction gets nothing.",
        when=lambda lengths, *question: max(map(abs, map(operator.sub, lengths, _due(*question)))) == 1,
    ),
    Mistake("wrong_lengths", "A share may differ from that by less than one sample."),
]


@case("share k differs from sizes[k] * len(data) by less than one sample, so equal ones differ by at most one")
def lengths(partitioner: Asked) -> None:
    compare(
        lambda number, sizes: [len(share) for share in _shares(partitioner, number, sizes)],
        _QUESTIONS,
        _due,
        _LENGTHS,
        asked="{} samples in shares of {}",
        same=lambda lengths, due: all(abs(length - right) < 1 for length, right in zip(lengths, due, strict=True)),
        show=lambda lengths: ", ".join(f"{float(length):.4g}" for length in lengths),
    )


@case("the same seed gives the same shares on every rank, another seed others, each a mixture of the data")
def seeded(partitioner: Asked) -> None:
    first, again, other = (_shares(partitioner, 64, "1/2 1/2", seed) for seed in (_SEED, _SEED, _SEED + 1))
    if set(first[0]) in (set(range(32)), set(range(32, 64))):
        told = f"Half of 64 samples were the samples {min(first[0])} to {max(first[0])}"
        why = "Shuffle all positions before you cut them: data may be sorted by topic or length."
        raise Wrong("not_shuffled", f"{told}. {why}")
    if first != again:
        raise Wrong("wrong_seed", f"Two partitioners with the seed {_SEED} gave different shares; right is the same.")
    if first == other:
        raise Wrong("wrong_seed", f"The seeds {_SEED} and {_SEED + 1} gave the same shares; each should give its own.")


@case("a share is a view: no sample is read before it is asked for, a for loop over it ends, and data does not change")
def view(partitioner: Asked) -> None:
    partitioner.inside(look_at_shares)


def look_at_shares(partitioner: Function) -> None:
    """In the process of the function: what is read of the data, and when."""
    given = list(range(64))
    shares_of_list: Any = partitioner(given, [0.5, 0.5], _SEED)
    _ = [shares_of_list.use(k) for k in range(2)]
    if given != list(range(64)):
        raise Wrong("no_view", "You have put the caller's own list into another order; shuffle a list of positions.")
    data = Library(8)
    made: Any = partitioner(data, [0.5, 0.5], _SEED)
    first = made.use(0)
    if data.reads:
        raise Wrong("no_view", f"Making a share of 4 samples read {len(data.reads)} of the data; right is none.")
    alone = _positions(first, data, 0)
    shares = [first, made.use(1)]
    places = [_positions(share, data, k) for k, share in enumerate(shares)]
    other: Any = partitioner(data, [0.5, 0.5], _SEED)
    if _positions(other.use(1), data, 1) != places[1]:
        raise Wrong("wrong_seed", "use(1) gave other samples where use(0) was not called; a rank asks for its own.")
    if places[0] != alone:
        raise Wrong("no_view", f"The share of use(0) had samples {alone}, and after use(1) it had {places[0]}.")
    for k, (share, right) in enumerate(zip(shares, places, strict=True)):
        data.reads.clear()
        got = list(islice(iter(share), len(right) + 1))
        what = f"A for loop over use({k}), a share of {len(right)} samples,"
        if len(got) > len(right):
            raise Wrong("never_stops", f"{what} went on after the last one; an IndexError says where it ends.")
        if data.reads != right or any(mine is not data.samples[place] for mine, place in zip(got, right, strict=False)):
            raise Wrong("no_view", f"{what} read the samples {data.reads} and gave {got}; right are samples {right}.")


def shares_of(partitioner: Function, number: int, sizes: list[float], seed: int) -> list[list[int]]:
    """In the process of the function: the shares as positions of samples."""
    data = Library(number)
    made: Any = partitioner(data, sizes, seed)
    return [_positions(made.use(k), data, k) for k in range(len(sizes))]


class Library(Sequence[Any]):
    """A data set of mixed samples, some of them equal, that notes which are read; no sample is a whole number."""

    def __init__(self, number: int) -> None:
        kinds = (("a", 1), "text", torch.tensor([1.0, 2.0]), ("a", 1), None, 0.0, {"ids": [3]}, 2.5)
        self.samples = [kinds[place % len(kinds)] for place in range(number)]
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self.samples)

    def __bool__(self) -> bool:
        raise TypeError("like a tensor, data has no truth value; ask for len(data)")

    def __getitem__(self, index: Any) -> Any:
        place = operator.index(index)  # numbers of numpy and torch too, as a list takes them
        if not -len(self) <= place < len(self):
            raise IndexError(f"sample {place} of {len(self)}")
        self.reads.append(place % len(self))
        return self.samples[place]


def _positions(share: Any, data: Library, k: int) -> list[int]:
    """Where the samples of share k stand in the data."""
    if not hasattr(share, "__len__") or not hasattr(share, "__getitem__"):
        raise Wrong("no_share", f"use({k}) gave {share!r}; right is something with a length and an index.")
    positions = []
    for i in range(len(share)):
        data.reads.clear()
        sample = share[i]
        if isinstance(sample, int):
            raise Wrong("numbers_for_samples", f"use({k})[{i}] gave {sample}, a position; right is the sample there.")
        if len(data.reads) != 1 or sample is not data.samples[data.reads[0]]:
            what = f"use({k})[{i}] read {len(data.reads)} samples of the data and gave {sample!r}"
            raise Wrong("no_view", f"{what}; right is to read one when you ask for it, and to give it.")
        positions += data.reads
    return positions
