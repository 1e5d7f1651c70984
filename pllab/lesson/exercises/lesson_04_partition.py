"""Data sets that know which of their samples were read, so that a check counts positions and never looks at values.

A sample may be a tuple, None, a tensor, or equal to another sample: what counts is where it stood.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch

from pllab.lesson.exercise import Wrong

WORLDS = (2, 3, 4, 5, 6, 7, 8, 1)


class Library(Sequence[Any]):
    """A data set of mixed samples, some of them equal, that notes which are read."""

    def __init__(self, number: int) -> None:
        kinds = (("a", 1), "text", torch.tensor([1.0, 2.0]), ("a", 1), None, 0, {"ids": [3]}, 2.5)
        self.samples = [kinds[place % len(kinds)] for place in range(number)]
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self.samples)

    def __bool__(self) -> bool:
        raise Wrong(
            "truth_of_data",
            "Your class asked whether the data are true (with if, not, and, or); a tensor has no such truth. Ask for "
            "their length.",
        )

    def __getitem__(self, index: Any) -> Any:
        try:
            place = operator.index(index)  # numbers of numpy and torch too, as a list takes them
        except TypeError:
            sentence = f"A data set is asked for one sample at a time; you asked for {index!r}."
            raise Wrong("index_is_a_list", sentence) from None
        if not -len(self) <= place < len(self):
            raise IndexError(f"sample {place} of {len(self)}")
        self.reads.append(place % len(self))
        return self.samples[place]


def numbers_of(share: Any, data: Library, name: str) -> list[int]:
    """Where the samples of a share stand in the data; `name` is what the student would write to get the share.

    Raises:
        Wrong: it gives something else than a sample of the data, or reads several for one.
    """
    numbers = []
    for position in range(len(share)):
        data.reads.clear()
        sample = share[position]
        if len(data.reads) > 1:
            raise Wrong("reads_all", f"Asking {name} for one sample read {len(data.reads)} of the data set.")
        if not data.reads:
            if isinstance(sample, int):
                raise Wrong(
                    "numbers_for_samples",
                    f"{name}[{position}] gave {sample!r}, the position of a sample and not the sample.",
                )
            raise Wrong("reads_all", f"{name} had read its samples before it was asked; it should keep positions only.")
        if sample is not data.samples[data.reads[0]]:
            raise Wrong("wrong_sample", f"{name}[{position}] read sample {data.reads[0]} and gave something else.")
        numbers.append(data.reads[0])
    return numbers
