"""Right solutions of lesson 04 that look different, among them the package's own."""

import random
from itertools import accumulate

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, default_collate

from pllab.data import DataPartitioner, Partition, partition_dataset

# 04.1 DataPartitioner(data, sizes, seed).use(k)


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


class CutByNumpy:
    """Ends that are a millionth too late, so that no sum of floats comes too early."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        order = np.random.default_rng(seed).permutation(len(data))
        ends = [int(np.floor(end * len(data) + 1e-6)) for end in np.cumsum(sizes)]
        self.data, self.parts = data, np.split(order, ends[:-1])

    def use(self, k):
        return AsADataset(self.data, self.parts[k])


class WithThePackagesView(LargestRemainders):
    def use(self, k):
        return Partition(self.data, self.parts[k])


# 04.2 partition_dataset(rank, world_size, dataset, batch_size, collate_fn, *, seed, remainder)


def with_epochs(loader, set_epoch):
    """Any loader gets its set_epoch, which has been called for epoch 0."""
    loader.set_epoch = set_epoch
    set_epoch(0)
    return loader


def deals_cards(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    share, number = Subset(dataset, []), len(dataset)
    left = number % world_size

    def set_epoch(epoch):
        order = list(range(number))
        random.Random(seed + epoch).shuffle(order)
        if remainder == "drop":
            order = order[: number - left]
        elif left:
            order += [order[i % number] for i in range(world_size - left)]
        share.indices = order[rank::world_size]

    return with_epochs(DataLoader(share, batch_size // world_size, collate_fn=collate_fn), set_epoch)


def cuts_blocks(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Consecutive blocks of the epoch's order; padding goes round to its beginning."""
    whole, left = divmod(len(dataset), world_size)
    length = whole + (left > 0 and remainder == "pad")
    share = Subset(dataset, [])

    def set_epoch(epoch):
        order = np.random.default_rng([seed, epoch]).permutation(len(dataset)).tolist()
        places = range(rank * length, (rank + 1) * length)
        share.indices = [order[place % len(order)] for place in places] if order else []

    return with_epochs(DataLoader(share, batch_size // world_size, collate_fn=collate_fn), set_epoch)


def with_torch_sampler(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    if not len(dataset):
        return with_epochs(DataLoader(dataset, batch_size // world_size), lambda _: None)
    drops = remainder == "drop"
    if drops and len(dataset) < world_size:
        dataset = Subset(dataset, [])
        return with_epochs(DataLoader(dataset, batch_size // world_size), lambda _: None)
    sampler = DistributedSampler(dataset, world_size, rank, seed=seed, drop_last=drops)
    loader = DataLoader(dataset, batch_size // world_size, sampler=sampler, collate_fn=collate_fn)
    return with_epochs(loader, sampler.set_epoch)


class ByHand:
    """A loader without a DataLoader, which deals when it is asked."""

    def __init__(self, deal, data, size, collate):
        self.deal, self.data, self.size, self.collate, self.epoch = deal, data, size, collate or default_collate, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        mine = self.deal(self.epoch)
        for start in range(0, len(mine), self.size):
            yield self.collate([self.data[i] for i in mine[start : start + self.size]])


def without_data_loader(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    def deal(epoch):
        loader = deals_cards(rank, world_size, dataset, batch_size, seed=seed, remainder=remainder)
        loader.set_epoch(epoch)
        return loader.dataset.indices

    return ByHand(deal, dataset, batch_size // world_size, collate_fn)


RIGHT = {
    "04.1": [LargestRemainders, RoundedEnds, CutByNumpy, WithThePackagesView, DataPartitioner],
    "04.2": [deals_cards, cuts_blocks, with_torch_sampler, without_data_loader, partition_dataset],
}
