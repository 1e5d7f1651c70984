"""Solutions of lesson 04 by somebody who read the lesson alone."""

import itertools
import math
import random
from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader, Sampler, Subset
from torch.utils.data.distributed import DistributedSampler


def largest_fractions(sizes, n):
    wanted = [round(size * n, 9) for size in sizes]
    lengths = [math.floor(w) for w in wanted]
    by_fraction = sorted(range(len(sizes)), key=lambda k: lengths[k] - wanted[k])
    for k in by_fraction[: n - sum(lengths)]:
        lengths[k] += 1
    return lengths


# ---------------------------------------------------------------- 04.1


class LazySequence(Sequence):
    def __init__(self, data, order, start, stop):
        self.data, self.order, self.start, self.stop = data, order, start, stop

    def __len__(self):
        return self.stop - self.start

    def __getitem__(self, i):
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self.data[self.order[self.start + i]]


class PartCumulative:
    """Ends at the floor of the running sum, and the last one at the end."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        n = len(data)
        self.data = data
        self.order = random.Random(seed).sample(range(n), n)
        self.ends, total = [0], 0.0
        for size in sizes:
            total += size
            self.ends.append(int(round(total * n, 9)))
        self.ends[-1] = n

    def use(self, k):
        return LazySequence(self.data, self.order, self.ends[k], self.ends[k + 1])


class PartSubset:
    """torch's permutation and torch's Subset; deals the left over to whom lacks most."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        n = len(data)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
        lengths = [int(size * n + 1e-9) for size in sizes]
        while sum(lengths) < n:
            lacks = [size * n - length for size, length in zip(sizes, lengths, strict=False)]
            lengths[lacks.index(max(lacks))] += 1
        self.subsets = []
        for length in lengths:
            self.subsets.append(Subset(data, order[:length]))
            order = order[length:]

    def use(self, k):
        return self.subsets[k]


class PartGenerator:
    """Shuffles with the module's generator, seeded just before; shares with __iter__ of their own."""

    class Share:
        def __init__(self, data, positions):
            self.data, self.positions = data, tuple(positions)

        def __len__(self):
            return len(self.positions)

        def __getitem__(self, i):
            return self.data[self.positions[i]]

        def __iter__(self):
            for position in self.positions:
                yield self.data[position]

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data, self.sizes, self.seed = data, list(sizes), seed

    def use(self, k):
        order = list(range(len(self.data)))
        random.seed(self.seed)
        random.shuffle(order)
        lengths = largest_fractions(self.sizes, len(order))
        start = sum(lengths[:k])
        return self.Share(self.data, order[start : start + lengths[k]])


# ---------------------------------------------------------------- 04.2
def fill(order, world_size, remainder):
    n = len(order)
    if remainder == "drop":
        return order[: n - n % world_size]
    return order + [order[i % n] for i in range(-n % world_size)]


def load_distributed_sampler(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """PyTorch's own."""
    sampler = DistributedSampler(
        dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=seed, drop_last=remainder == "drop"
    )
    loader = DataLoader(dataset, batch_size=batch_size // world_size, sampler=sampler, collate_fn=collate_fn)
    loader.set_epoch = sampler.set_epoch
    return loader


class EpochLoader:
    """A class with an __iter__; each rank has a part of every global batch, as the package cuts it."""

    def __init__(self, rank, world_size, dataset, batch_size, collate_fn, seed, remainder):
        self.rank, self.world_size, self.dataset = rank, world_size, dataset
        self.share, self.collate_fn, self.seed, self.remainder = batch_size // world_size, collate_fn, seed, remainder
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def _order(self):
        n = len(self.dataset)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(n, generator=generator).tolist()
        rest = n % self.world_size
        if rest and self.remainder == "drop":
            del order[-rest:]
        elif rest:
            order.extend(itertools.islice(itertools.cycle(list(order)), self.world_size - rest))
        return order

    def _loader(self):
        order, whole = self._order(), self.share * self.world_size
        mine = []
        for start in range(0, len(order), whole):
            batch = order[start : start + whole]
            each = len(batch) // self.world_size
            mine += batch[self.rank * each : (self.rank + 1) * each]
        return DataLoader(self.dataset, batch_size=self.share, sampler=mine, collate_fn=self.collate_fn)

    def __iter__(self):
        return iter(self._loader())

    def __len__(self):
        return len(self._loader())


def load_class(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    return EpochLoader(rank, world_size, dataset, batch_size, collate_fn, seed, remainder)


def load_batch_sampler(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """A batch sampler; the order comes from a text of seed and epoch, and the ranks take blocks of it."""

    class Batches(Sampler):
        epoch = 0

        def _mine(self):
            order = list(range(len(dataset)))
            random.Random(f"{seed} {self.epoch}").shuffle(order)
            order = fill(order, world_size, remainder)
            each = len(order) // world_size
            return order[rank * each : (rank + 1) * each]

        def __iter__(self):
            mine, size = self._mine(), batch_size // world_size
            yield from (mine[start : start + size] for start in range(0, len(mine), size))

        def __len__(self):
            return math.ceil(len(self._mine()) / (batch_size // world_size))

    batches = Batches()

    class Loader(DataLoader):
        def set_epoch(self, epoch):
            batches.epoch = epoch

    return Loader(dataset, batch_sampler=batches, collate_fn=collate_fn)


RIGHT = {
    "04.1": [PartCumulative, PartSubset, PartGenerator],
    "04.2": [load_distributed_sampler, load_class, load_batch_sampler],
}
