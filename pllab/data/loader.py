"""Cut a data set into shares, and give each rank its part of every batch, so that all ranks stay in step.

Nothing is lost or repeated. This file handles only the numbers of samples, never the samples, so any object with
a length and integer indices can be cut. `Partition`, `DataPartitioner` and `partition_dataset` have the names of the
course this lab descends from.

`batch_size` is the global batch, the number of samples one optimizer step sees. Every global batch is
partitioned among the ranks, so the batches of a training run do not depend on the number of ranks: one
process and four processes with the same seed train on the same samples in the same steps.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from pllab.arguments import require

Remainder = Literal["pad", "drop"]
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

    def __iter__(self) -> Iterator[T_co]:  # by positions alone, an index outside of the data would look like the end
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
        ValueError: the sizes are negative or do not sum to one, or `use` asks for a share that does not exist.

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

        self.data, remaining = data, iter(order)
        self.partitions = [list(islice(remaining, count)) for count in share_counts(len(data), sizes)]

    def use(self, partition: int) -> Partition[T_co]:
        """The share with number `partition`, from 0."""
        last = len(self.partitions) - 1
        known = f"{len(self.partitions)} sizes make the partitions 0 to {last}"
        require(0 <= partition <= last, f"partition {partition} does not exist; {known}")
        return Partition(self.data, self.partitions[partition])


def share_counts(num_samples: int, sizes: Sequence[float]) -> list[int]:
    """Divide `num_samples` by the fractions in `sizes`, in whole samples that add up exactly.

    Every share gets the whole part of what is due, and those with the largest remainders get one more:

        10 samples      1/3     1/3     1/3
        due            3.33    3.33    3.33
        whole part        3       3       3      one sample is left
        share             4       3       3

    Equal sizes therefore differ by at most one sample. Fractions are exact: adding up 1/6 in floating point
    ends below 1 and loses the last sample.

    Raises:
        ValueError: a size is negative, or the sizes do not sum to one.
    """
    told, total = f"sizes {tuple(sizes)}", math.fsum(sizes)
    require(not any(size < 0 for size in sizes), f"{told} hold a negative share; give fractions from 0 to 1")
    is_whole = math.isclose(total, 1.0, abs_tol=1e-6)
    require(is_whole, f"{told} sum to {total:g}; give fractions that sum to 1, such as [1 / n] * n for n equal shares")
    exact = [Fraction(float(size)) for size in sizes]
    due = [num_samples * size / sum(exact) for size in exact]
    counts = [math.floor(share) for share in due]
    by_remainder = sorted(range(len(due)), key=lambda i: due[i] - counts[i], reverse=True)
    for i in by_remainder[: num_samples - sum(counts)]:
        counts[i] += 1
    return counts


def partition_dataset(
    rank: int,
    world_size: int,
    dataset: Indexable[Any],
    batch_size: int = 128,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    *,
    seed: int = 1234,
    remainder: Remainder = "pad",
    shuffle: bool = True,
) -> "ShareLoader":
    """Load the share of one rank, `batch_size // world_size` samples a step.

    Seven samples, 2 ranks, `batch_size=4`, `remainder="pad"` (sample 5 is repeated to fill up):

                       step 0       step 1
        global batch   5 2 6 0      1 3 4 5
        rank 0         5 2          1 3
        rank 1             6 0          4 5

    With `remainder="drop"`, step 1 is `1 3`, one sample for each rank. Either way every rank makes the same
    number of steps with the same number of samples in each, because a rank that makes a step more waits for
    ever in its collective. The last step may be smaller than the others, on all ranks alike. "pad" repeats,
    and "drop" leaves out, fewer samples than there are ranks; under "drop" a data set smaller than the world
    gives every rank zero steps, and so does an empty one under either.

    Call `loader.set_epoch(epoch)` before each epoch for a new order, the same on every rank. `shuffle=False`
    keeps the order of the data set.

    Raises:
        ValueError: the world size, the rank, the batch size or the policy is impossible.

    Source: `partition_dataset` of the course; the policies are those of torch.utils.data.DistributedSampler.
    """
    last = world_size - 1
    require(0 <= rank <= last, f"rank {rank} is out of range; a world of {world_size} has ranks 0 to {last}")
    per_rank, rest = divmod(batch_size, world_size)
    problem = f"batch_size {batch_size} is the global batch and cannot be divided by {world_size} ranks"
    require(per_rank >= 1 and rest == 0, f"{problem}; give a multiple of {world_size}")
    require(remainder in ("pad", "drop"), f'remainder {remainder!r} is not a policy; choose "pad" or "drop"')
    shares = RankShares(dataset, rank, world_size, batch_size, seed, remainder, shuffle)
    return ShareLoader(shares, per_rank, collate_fn)


class ShareLoader(DataLoader[Any]):
    """A DataLoader over one rank's share; `set_epoch` gives it a new order."""

    def __init__(self, shares: "RankShares", batch_size: int, collate_fn: Callable[[list[Any]], Any] | None) -> None:
        self.shares = shares
        self.share = shares.of_epoch(0)
        # Its own generator: a loader that draws from torch's default one shifts the model's dropout masks.
        generator = torch.Generator().manual_seed(shares.seed)
        super().__init__(self.share, batch_size=batch_size, collate_fn=collate_fn, generator=generator)

    def set_epoch(self, epoch: int) -> None:
        """Take the order of this epoch; call it on every rank with the same number, before iterating."""
        self.share.index = self.shares.of_epoch(epoch).index


@dataclass(frozen=True)
class RankShares:
    """One rank's share of every epoch; each rank computes its own, without messages.

    Eight samples, two ranks and batches of four: `RankShares(data, 0, 2, 4, 1234, "pad", True).of_epoch(0)` has
    four samples, two of each batch, and rank 1 has the other four. Epoch 1 has a new order.
    """

    dataset: Indexable[Any]
    rank: int
    world_size: int
    batch_size: int
    seed: int
    remainder: Remainder
    shuffle: bool

    def of_epoch(self, epoch: int) -> Partition[Any]:
        """Partition every global batch of the epoch among the ranks; keep what falls to this one."""
        order = self._order(epoch)
        mine: list[int] = []
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            share = len(batch) // self.world_size  # no rest: the world size divides the batch and the order
            mine.extend(batch[self.rank * share : (self.rank + 1) * share])
        return Partition(self.dataset, mine)

    def _order(self, epoch: int) -> list[int]:
        """All positions in the order of this epoch, padded or cut to a multiple of the world size."""
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + epoch).shuffle(order)
        left_over = len(order) % self.world_size
        if left_over == 0:
            return order
        if self.remainder == "drop":
            return order[: len(order) - left_over]
        missing = self.world_size - left_over
        return order + [order[i % len(order)] for i in range(missing)]
