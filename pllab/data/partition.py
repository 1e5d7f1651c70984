"""Cut a data set into shares so that nothing is lost and nothing is doubled.

The names are those of the course this lab descends from. Only numbers of samples are handled here, never the
samples, so any object with a length and integer indices can be cut.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

from torch.utils.data import Dataset

T_co = TypeVar("T_co", covariant=True)


class Indexable(Protocol[T_co]):
    """Data that can be cut: a list, or any data set with a length and integer indices."""

    def __len__(self) -> int:
        """Number of samples."""

    def __getitem__(self, index: int, /) -> T_co:
        """The sample at `index`."""


class Partition(Dataset[T_co]):
    """The samples of `data` at the positions in `index`, in that order.

    Example: `list(Partition("abcdef", [5, 0, 2]))` is `["f", "a", "c"]`. No sample is copied.
    """

    def __init__(self, data: Indexable[T_co], index: Iterable[int]) -> None:
        self.data = data
        self.index = list(index)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, position: int) -> T_co:
        return self.data[self.index[position]]

    def __iter__(self) -> Iterator[T_co]:
        return (self.data[i] for i in self.index)


class DataPartitioner(Generic[T_co]):
    """Shuffle the positions of `data`, then cut them into consecutive shares.

    Ten samples, `sizes=(0.7, 0.2, 0.1)`:

        shuffled   8 1 5 0 7 2 9 | 4 3 | 6
        use(0)     8 1 5 0 7 2 9               7 samples
        use(1)                     4 3         2 samples
        use(2)                           6     1 sample

    Every process that passes the same seed gets the same shares, so no process has to tell another.
    `seed=None` keeps the order of the data.

    Raises:
        ValueError: the sizes are negative or do not sum to one, or `use` asks for a share that is not there.

    Source: the `DataPartitioner` of PyTorch's tutorial "Writing Distributed Applications with PyTorch".
    """

    def __init__(
        self,
        data: Indexable[T_co],
        sizes: Sequence[float] = (0.7, 0.2, 0.1),
        seed: int | None = 1234,
    ) -> None:
        order = list(range(len(data)))
        if seed is not None:
            random.Random(seed).shuffle(order)  # a private generator: torch's and Python's own stay untouched

        self.data = data
        self.partitions: list[list[int]] = []
        start = 0
        for count in share_counts(len(data), sizes):
            self.partitions.append(order[start : start + count])
            start += count

    def use(self, partition: int) -> Partition[T_co]:
        """The share with number `partition`, from 0."""
        if not 0 <= partition < len(self.partitions):
            raise ValueError(
                f"partition {partition} does not exist; "
                f"{len(self.partitions)} sizes make the partitions 0 to {len(self.partitions) - 1}"
            )
        return Partition(self.data, self.partitions[partition])


def share_counts(num_samples: int, sizes: Sequence[float]) -> list[int]:
    """Divide `num_samples` by the fractions in `sizes`, in whole samples that add up exactly.

    Everyone gets the whole part of what is due, and the largest remainders get one more:

        10 samples      1/3     1/3     1/3
        due            3.33    3.33    3.33
        whole part        3       3       3      one sample is left
        share             4       3       3

    Equal sizes therefore differ by one sample at most. Fractions are exact: adding up 1/6 in floating point
    ends below 1 and loses the last sample.

    Raises:
        ValueError: a size is negative, or the sizes do not sum to one.
    """
    if any(size < 0 for size in sizes):
        raise ValueError(f"sizes {tuple(sizes)} hold a negative share; give fractions from 0 to 1")
    if not math.isclose(math.fsum(sizes), 1.0, abs_tol=1e-6):
        raise ValueError(
            f"sizes {tuple(sizes)} sum to {math.fsum(sizes):g}; give fractions that sum to 1, "
            "for example [1 / n] * n for n equal shares"
        )
    exact = [Fraction(float(size)) for size in sizes]
    due = [num_samples * size / sum(exact) for size in exact]
    counts = [math.floor(share) for share in due]
    by_remainder = sorted(range(len(due)), key=lambda i: due[i] - counts[i], reverse=True)
    for i in by_remainder[: num_samples - sum(counts)]:
        counts[i] += 1
    return counts
