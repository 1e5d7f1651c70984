"""Right solutions of lesson 04 that look different, among them the package's own."""

import random
from itertools import accumulate

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

from pllab.data import DataPartitioner, Partition, partition_dataset

# 04.1 Partition(data, index)


class TwoLookUps:
    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, position):
        return self.data[self.index[position]]


class AsADataset(Dataset):
    """The index as an array, and its own iterator over a tensor."""

    def __init__(self, data, index):
        self.data, self.index = data, np.asarray(index, dtype=int)

    def __len__(self):
        return int(self.index.size)

    def __getitem__(self, position):
        return self.data[self.index[position]]

    def __iter__(self):
        for place in torch.from_numpy(self.index):
            yield self.data[place]


def torch_subset(data, index):
    return Subset(data, index)


# 04.2 DataPartitioner(data, sizes, seed).use(k)


class LargestRemainders:
    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        due = [round(size * len(data), 9) for size in sizes]
        lengths = [int(share) for share in due]
        left_over = len(data) - sum(lengths)
        for k in sorted(range(len(due)), key=lambda k: lengths[k] - due[k])[:left_over]:
            lengths[k] += 1
        order = list(range(len(data)))
        random.Random(seed).shuffle(order)
        ends = list(accumulate(lengths))
        self.data, self.parts = data, [order[end - n : end] for end, n in zip(ends, lengths, strict=True)]

    def use(self, k):
        return TwoLookUps(self.data, self.parts[k])


class RoundedEnds:
    """Each end is rounded by itself, so errors cannot add up; torch shuffles."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed)).tolist()
        ends = [round(sum(sizes[: k + 1]) * len(data) + 1e-9) for k in range(len(sizes))]
        self.parts = [Subset(data, order[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    def use(self, k):
        return self.parts[k]


def lists_of_numbers(num_samples, sizes, seed):
    order = np.random.default_rng(seed).permutation(num_samples)
    ends = [int(np.floor(end * num_samples + 1e-6)) for end in np.cumsum(sizes)]
    return np.split(order, ends[:-1])


def with_samples(num_samples, sizes, seed):
    """The share of a function as a list of positions, from the package."""
    partitioner = DataPartitioner(range(num_samples), sizes, seed)
    return [list(partitioner.use(k)) for k in range(len(sizes))]


# 04.3 partition_dataset(rank, world_size, dataset, batch_size, collate_fn, *, remainder)


def deals_cards(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    order = list(range(len(dataset)))
    random.Random(1234).shuffle(order)
    left = len(order) % world_size
    if remainder == "drop":
        order = order[: len(order) - left]
    elif left:
        order += [order[i % len(dataset)] for i in range(world_size - left)]
    return DataLoader(Subset(dataset, order[rank::world_size]), batch_size // world_size, collate_fn=collate_fn)


def cuts_blocks(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    """Consecutive blocks in the order of the data; padding repeats the last sample of the block."""
    whole, left = divmod(len(dataset), world_size)
    if remainder == "drop":
        mine = list(range(rank * whole, (rank + 1) * whole))
    else:
        length = whole + bool(left)
        mine = [i % max(1, len(dataset)) for i in range(rank * length, (rank + 1) * length)]
    return DataLoader(Subset(dataset, mine), batch_size // world_size, collate_fn=collate_fn)


def with_torch_sampler(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    if remainder == "drop":
        dataset = Subset(dataset, range(len(dataset) - len(dataset) % world_size))
    sampler = DistributedSampler(dataset, world_size, rank) if len(dataset) else None
    return DataLoader(dataset, batch_size // world_size, sampler=sampler, collate_fn=collate_fn)


class ByHand:
    """A loader without a DataLoader."""

    def __init__(self, share, size, collate):
        self.share, self.size, self.collate = share, size, collate or torch.tensor

    def __iter__(self):
        for start in range(0, len(self.share), self.size):
            yield self.collate([self.share[i] for i in range(start, min(len(self.share), start + self.size))])


def without_data_loader(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    share = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder).dataset
    return ByHand(share, batch_size // world_size, collate_fn)


# 04.4 EpochShare(data, rank, world_size, seed) with set_epoch(epoch)


class SeedPlusEpoch:
    def __init__(self, data, rank, world_size, seed=1234):
        self.data, self.rank, self.world_size, self.seed = data, rank, world_size, seed
        self.set_epoch(0)

    def set_epoch(self, epoch):
        order = list(range(len(self.data)))
        random.Random(self.seed + epoch).shuffle(order)
        self.index = order[self.rank :: self.world_size]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, position):
        return self.data[self.index[position]]


class WithNumpy(Partition):
    """Seed and epoch mixed by numpy, shares as blocks."""

    def __init__(self, data, rank, world_size, seed=1234):
        super().__init__(data, [])
        self.place, self.seed = (rank, world_size), seed
        self.set_epoch(0)

    def set_epoch(self, epoch):
        rank, world_size = self.place
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.data))
        self.index = np.array_split(order, world_size)[rank].tolist()


class DealsWhenAsked:
    """Keeps the number of the epoch, and asks the package's partitioner for the share each time."""

    def __init__(self, data, rank, world_size, seed=1234):
        self.data, self.rank, self.sizes, self.seed, self.epoch = data, rank, [1 / world_size] * world_size, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def share(self):
        return DataPartitioner(self.data, self.sizes, self.seed * 1000 + self.epoch).use(self.rank)

    def __len__(self):
        return len(self.share())

    def __getitem__(self, position):
        return self.share()[position]


RIGHT = [
    ("04.1", TwoLookUps),
    ("04.1", AsADataset),
    ("04.1", torch_subset),
    ("04.1", Partition),
    ("04.2", LargestRemainders),
    ("04.2", RoundedEnds),
    ("04.2", lists_of_numbers),
    ("04.2", with_samples),
    ("04.2", DataPartitioner),
    ("04.3", deals_cards),
    ("04.3", cuts_blocks),
    ("04.3", with_torch_sampler),
    ("04.3", without_data_loader),
    ("04.3", partition_dataset),
    ("04.4", SeedPlusEpoch),
    ("04.4", WithNumpy),
    ("04.4", DealsWhenAsked),
]
