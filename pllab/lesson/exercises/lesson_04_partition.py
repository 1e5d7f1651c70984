"""The cases of exercise 04.1: `Partition(data, index)` is a view of some samples, with a length and an index."""

import operator
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from pllab.lesson.exercise import Wrong, case

MakePartition = Callable[[Sequence[str], list[int]], Any]

_INDEX = [5, 0, 2, 7]
WORLDS = (2, 3, 4, 5, 6, 7, 8, 1)


class Library(Sequence[str]):
    """A data set that notes which samples are read: sample 3 is the text `sample 3`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.reads: list[int] = []

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: Any) -> Any:
        try:
            place = operator.index(index)  # numbers of numpy and torch too, as a list takes them
        except TypeError:
            sentence = f"A data set is asked for one sample at a time; you asked for {index!r}."
            raise Wrong("index_is_a_list", sentence) from None
        if not -self.number <= place < self.number:
            raise IndexError(f"sample {place} of {self.number}")
        self.reads.append(place)
        return f"sample {place % self.number}"


def numbers_of(share: Any, name: str) -> list[int]:
    """The numbers of a share's samples; `name` is what the student would write to get one.

    Raises:
        Wrong: it holds something else.
    """
    samples = [share[position] for position in range(len(share))]
    for sample in samples:
        if not isinstance(sample, str):
            raise Wrong("numbers_for_samples", f"{name} gave {sample!r}, the number of a sample and not the sample.")
    return [int(sample.removeprefix("sample ")) for sample in samples]


@case("its length is the number of positions it holds, which may be 0")
def length(make: MakePartition) -> None:
    for index in (_INDEX, [3], []):
        if (found := len(make(Library(8), list(index)))) != len(index):
            bug = "length_of_data" if found == 8 else "length"
            raise Wrong(bug, f"A partition with {len(index)} of 8 samples says that its length is {found}.")


@case("part[k] is the sample at the k-th position")
def samples(make: MakePartition) -> None:
    part = make(Library(8), list(_INDEX))
    got = [part[position] for position in range(len(_INDEX))]
    right = [f"sample {number}" for number in _INDEX]
    if got == right:
        return
    if got == _INDEX:
        raise Wrong("returns_the_index", f"Position 0 gave the number {got[0]}, which says where the sample is.")
    if got == [f"sample {position}" for position in range(len(_INDEX))]:
        raise Wrong("ignores_the_index", f"Position 0 of {_INDEX} gave {got[0]!r}: the index was not asked.")
    if got == sorted(right):
        raise Wrong("sorted", f"The index {_INDEX} has an order of its own, and your partition sorts it.")
    raise Wrong("wrong_sample", f"The partition {_INDEX} gave {got}, not {right}.")


@case("two partitions of one data set do not disturb each other")
def apart(make: MakePartition) -> None:
    data = Library(8)
    first, second = make(data, [1, 2]), make(data, [6])
    if (len(first), len(second), first[0], second[0]) != (2, 1, "sample 1", "sample 6"):
        raise Wrong("shared_index", "After a second partition was made, the first one held the second one's samples.")


@case("a for loop gives every sample once and stops")
def looped(make: MakePartition) -> None:
    part = make(Library(8), list(_INDEX))
    got = list(islice(iter(part), len(_INDEX) + 1))
    if len(got) > len(_INDEX):
        raise Wrong("never_stops", "A for loop did not stop after the last sample; a list says where it ends.")
    if got != [f"sample {number}" for number in _INDEX]:
        raise Wrong("loop", f"A for loop over the partition {_INDEX} gave {got}.")


@case("no sample is read before it is asked for")
def lazy(make: MakePartition) -> None:
    data = Library(8)
    part = make(data, list(_INDEX))
    if data.reads:
        raise Wrong("reads_all", f"Making the partition read {len(data.reads)} samples; it only has to remember where.")
    part[2]
    if data.reads != [2]:
        raise Wrong("reads_all", f"Asking for one sample read {len(data.reads)}.")
