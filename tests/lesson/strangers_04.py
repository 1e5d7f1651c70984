"""Solutions of lesson 04 by somebody who read the lesson alone."""

import itertools
import math
import random
from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader, Dataset, Sampler, Subset
from torch.utils.data.distributed import DistributedSampler


class View:
    def __init__(self, data, positions):
        self.data, self.positions = data, positions

    def __len__(self):
        return len(self.positions)

    def __getitem__(self, i):
        return self.data[self.positions[i]]


def largest_fractions(sizes, n):
    wanted = [round(size * n, 9) for size in sizes]
    lengths = [math.floor(w) for w in wanted]
    by_fraction = sorted(range(len(sizes)), key=lambda k: lengths[k] - wanted[k])
    for k in by_fraction[: n - sum(lengths)]:
        lengths[k] += 1
    return lengths


def shuffled(n, seed):
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return order


def cut(order, lengths):
    ends = list(itertools.accumulate(lengths))
    return [order[end - length : end] for end, length in zip(ends, lengths, strict=False)]


# ---------------------------------------------------------------- 04.1 right
class PartLargest:
    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data = data
        self.parts = cut(shuffled(len(data), seed), largest_fractions(sizes, len(data)))

    def use(self, k):
        return View(self.data, self.parts[k])


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


# ---------------------------------------------------------------- 04.1 wrong
class _Part:
    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data = data
        self.parts = cut(shuffled(len(data), seed), self.lengths(list(sizes), len(data)))

    def use(self, k):
        return View(self.data, self.parts[k])


class PartTutorial(_Part):
    def lengths(self, sizes, n):
        return [int(size * n) for size in sizes]


class PartLastTakesRest(_Part):
    def lengths(self, sizes, n):
        lengths = [int(size * n) for size in sizes]
        lengths[-1] += n - sum(lengths)
        return lengths


class PartFirstGetOneMore(_Part):
    """The left over go to the first shares, also to those that lack nothing."""

    def lengths(self, sizes, n):
        lengths = [int(round(size * n, 9)) for size in sizes]
        for k in range(n - sum(lengths)):
            lengths[k] += 1
        return lengths


class PartLargestSizeFirst(_Part):
    """The left over go to the largest shares."""

    def lengths(self, sizes, n):
        lengths = [int(round(size * n, 9)) for size in sizes]
        for k in sorted(range(len(sizes)), key=lambda k: -sizes[k])[: n - sum(lengths)]:
            lengths[k] += 1
        return lengths


class PartRoundEnds(_Part):
    """Ends are rounded, halves to the even number: 0.125, 0.25, 0.25, 0.375 of 4 become 0, 2, 0, 2."""

    def lengths(self, sizes, n):
        ends = [round(round(total * n, 9)) for total in itertools.accumulate(sizes)]
        ends[-1] = n
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]


class PartIntEnds(_Part):
    """int(end * n) with the last end mended: 0.29 of 100 is 28."""

    def lengths(self, sizes, n):
        ends = [int(total * n) for total in itertools.accumulate(sizes)]
        ends[-1] = n
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]


class PartRoundLengths(_Part):
    def lengths(self, sizes, n):
        lengths = [round(size * n) for size in sizes[:-1]]
        return [*lengths, n - sum(lengths)]


class PartStrides:
    """Deals like cards: right for equal sizes only."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data, self.num = data, len(sizes)
        self.order = shuffled(len(data), seed)

    def use(self, k):
        return View(self.data, self.order[k :: self.num])


class PartCopies(PartLargest):
    def use(self, k):
        return [self.data[p] for p in self.parts[k]]


class PartReadsOn(PartLargest):
    """No bound: a for loop goes on into the next share."""

    class Share:
        def __init__(self, data, order, start, length):
            self.data, self.order, self.start, self.length = data, order, start, length

        def __len__(self):
            return self.length

        def __getitem__(self, i):
            return self.data[self.order[self.start + i]]

    def use(self, k):
        start = sum(len(part) for part in self.parts[:k])
        return self.Share(self.data, [p for part in self.parts for p in part], start, len(self.parts[k]))


class PartGivesPositions(PartLargest):
    """Gives the position, which is the sample as long as the data are a range."""

    def use(self, k):
        return View(range(len(self.data)), self.parts[k])


class PartShufflesInUse:
    """One generator for all calls: the second call of use has another order."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data, self.sizes, self.generator = data, sizes, random.Random(seed)

    def use(self, k):
        order = list(range(len(self.data)))
        self.generator.shuffle(order)
        return View(self.data, cut(order, largest_fractions(self.sizes, len(order)))[k])


class PartSeedPlusK:
    """A seed of its own for each share."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data, self.sizes, self.seed = data, sizes, seed

    def use(self, k):
        order = shuffled(len(self.data), self.seed + k)
        return View(self.data, cut(order, largest_fractions(self.sizes, len(order)))[k])


class PartShufflesWithin:
    """Cuts first and shuffles each share by itself: no share is a mixture."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data = data
        self.parts = cut(list(range(len(data))), largest_fractions(sizes, len(data)))
        for part in self.parts:
            random.Random(seed).shuffle(part)

    def use(self, k):
        return View(self.data, self.parts[k])


class PartTruth(PartLargest):
    """Asks the data whether they are empty, which a tensor does not answer."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        if not data:
            self.data, self.parts = data, [[] for _ in sizes]
        else:
            super().__init__(data, sizes, seed)


class PartShufflesData:
    """Shuffles the caller's data where it is a list."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        if isinstance(data, list):
            random.Random(seed).shuffle(data)
            self.data = data
            order = list(range(len(data)))
        else:
            self.data, order = data, shuffled(len(data), seed)
        self.parts = cut(order, largest_fractions(sizes, len(data)))

    def use(self, k):
        return View(self.data, self.parts[k])


class PartOneCallShared(PartLargest):
    """use hands out the same share object each time: the second use changes the first."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        super().__init__(data, sizes, seed)
        self.share = View(data, [])

    def use(self, k):
        self.share.positions = self.parts[k]
        return self.share


# ---------------------------------------------------------------- 04.2 right
def fill(order, world_size, remainder):
    n = len(order)
    if remainder == "drop":
        return order[: n - n % world_size]
    return order + [order[i % n] for i in range(-n % world_size)]


def load_hint(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    view = View(dataset, [])
    loader = DataLoader(view, batch_size=batch_size // world_size, collate_fn=collate_fn)

    def set_epoch(epoch):
        view.positions = fill(shuffled(len(dataset), seed + epoch), world_size, remainder)[rank::world_size]

    set_epoch(0)
    loader.set_epoch = set_epoch
    return loader


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


# ---------------------------------------------------------------- 04.2 wrong
def _loader(dataset, deal, size, collate_fn, first=0, **more):
    view = View(dataset, [])

    def set_epoch(epoch):
        view.positions = deal(epoch)

    set_epoch(first)
    loader = DataLoader(view, batch_size=size, collate_fn=collate_fn, **more)
    loader.set_epoch = set_epoch
    return loader


def load_reshuffles_last(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Each epoch shuffles the order of the one before."""
    order = list(range(len(dataset)))

    def deal(epoch):
        random.Random(seed + epoch).shuffle(order)
        return fill(list(order), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_shuffles_share(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """The share stays, its order changes."""
    mine = fill(shuffled(len(dataset), seed), world_size, remainder)[rank::world_size]

    def deal(epoch):
        return random.Random(seed + epoch).sample(mine, len(mine))

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_pads_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Pads (and drops) to whole global batches."""
    whole = batch_size // world_size * world_size

    def deal(epoch):
        return fill(shuffled(len(dataset), seed + epoch), whole, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_drops_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """drop leaves the last smaller step out as well."""

    def deal(epoch):
        return fill(shuffled(len(dataset), seed + epoch), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn, drop_last=remainder == "drop")


def load_pads_once(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Appends a slice of the order: too short where there are more ranks missing than samples."""

    def deal(epoch):
        order = shuffled(len(dataset), seed + epoch)
        if remainder == "pad":
            order += order[: -len(order) % world_size]
        else:
            order = order[: len(order) - len(order) % world_size]
        return order[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_minus_zero(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """order[:-0] is empty where nothing is left over."""

    def deal(epoch):
        order = shuffled(len(dataset), seed + epoch)
        order = fill(order, world_size, "pad") if remainder == "pad" else order[: -(len(order) % world_size)]
        return order[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_first_epoch_other(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Before the first set_epoch nothing is shuffled."""

    def deal(epoch):
        order = list(range(len(dataset))) if epoch is None else shuffled(len(dataset), seed + epoch)
        return fill(order, world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn, first=None)


def load_hash(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """hash of a text is another one in every process."""

    def deal(epoch):
        return fill(shuffled(len(dataset), hash(f"{seed}-{epoch}")), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_seed_times_epoch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """seed times epoch: seed 0 has one order for ever, and in epoch 0 all seeds have the same."""

    def deal(epoch):
        return fill(shuffled(len(dataset), seed * epoch), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


class Shared:
    epoch = 0


def load_shared_epoch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """The epoch is kept once for all loaders."""

    class Mine(Dataset):
        def _positions(self):
            order = shuffled(len(dataset), seed + Shared.epoch)
            return fill(order, world_size, remainder)[rank::world_size]

        def __len__(self):
            return len(self._positions())

        def __getitem__(self, i):
            return dataset[self._positions()[i]]

    Shared.epoch = 0
    loader = DataLoader(Mine(), batch_size=batch_size // world_size, collate_fn=collate_fn)
    loader.set_epoch = lambda epoch: setattr(Shared, "epoch", epoch)
    return loader


def load_shuffle_true(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """The DataLoader shuffles once more, with the generator of torch."""

    def deal(epoch):
        return fill(shuffled(len(dataset), seed + epoch), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn, shuffle=len(deal(0)) > 0)


def load_drops_same(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Drops the same samples in every epoch: cut first, shuffled then."""

    def deal(epoch):
        order = fill(list(range(len(dataset))), world_size, remainder)
        random.Random(seed + epoch).shuffle(order)
        return order[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_list_collate(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Without collate_fn it gives lists, and not what the DataLoader makes of them."""

    def deal(epoch):
        return fill(shuffled(len(dataset), seed + epoch), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn or list)


def load_rounds_up(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """10 samples on 4 ranks are 3 for each instead of 2."""

    def deal(epoch):
        return fill(shuffled(len(dataset), seed + epoch), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, -(-batch_size // world_size), collate_fn)


def load_empty_divides(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """Repeats the order often enough: divides by the number of samples."""

    def deal(epoch):
        order = shuffled(len(dataset), seed + epoch)
        if remainder == "pad":
            total = math.ceil(len(order) / world_size) * world_size
            order = (order * math.ceil(total / len(order)))[:total]
        else:
            order = fill(order, world_size, "drop")
        return order[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_once(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """A generator inside: the second for loop finds nothing."""

    class Once:
        def __init__(self):
            self.set_epoch(0)

        def set_epoch(self, epoch):
            mine = fill(shuffled(len(dataset), seed + epoch), world_size, remainder)[rank::world_size]
            self.batches = iter(
                DataLoader(View(dataset, mine), batch_size=batch_size // world_size, collate_fn=collate_fn)
            )

        def __iter__(self):
            return self.batches

    return Once()


def load_generator_goes_on(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """The global generator is seeded once and carries on: epoch 3 needs epochs 0 to 2."""
    generator = random.Random(seed)

    def deal(epoch):
        order = list(range(len(dataset)))
        generator.shuffle(order)
        return fill(order, world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_rotates(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """One order for all epochs; the shares go around the ranks."""

    def deal(epoch):
        order = fill(shuffled(len(dataset), seed), world_size, remainder)
        return order[(rank + epoch) % world_size :: world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def load_seed_forgotten(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """The order follows from the epoch alone, whatever the seed."""

    def deal(epoch):
        return fill(shuffled(len(dataset), epoch), world_size, remainder)[rank::world_size]

    return _loader(dataset, deal, batch_size // world_size, collate_fn)


def wrong_042_seed_times_epoch(
    rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"
):
    class Mine:
        positions = ()

        def __len__(self):
            return len(self.positions)

        def __getitem__(self, i):
            return dataset[self.positions[i]]

    mine = Mine()

    def set_epoch(epoch):
        n = len(dataset)
        order = list(range(n))
        random.Random(seed * (epoch + 1)).shuffle(order)
        total = n // world_size * world_size if remainder == "drop" else -(-n // world_size) * world_size
        mine.positions = (order * world_size)[:total][rank::world_size]

    loader = DataLoader(mine, batch_size=batch_size // world_size, collate_fn=collate_fn)
    loader.set_epoch = set_epoch
    set_epoch(0)
    return loader


RIGHT = [
    ("04.1", PartLargest),
    ("04.1", PartCumulative),
    ("04.1", PartSubset),
    ("04.1", PartGenerator),
    ("04.2", load_hint),
    ("04.2", load_distributed_sampler),
    ("04.2", load_class),
    ("04.2", load_batch_sampler),
]
WRONG = [
    ("04.1", PartTutorial, "loses what is left over"),
    ("04.1", PartLastTakesRest, "last share takes all rest"),
    ("04.1", PartFirstGetOneMore, "first shares, whole ones too"),
    ("04.1", PartLargestSizeFirst, "largest shares, whole ones too"),
    ("04.1", PartRoundEnds, "rounded ends: off by one"),
    ("04.1", PartIntEnds, "0.29 of 100 is 28"),
    ("04.1", PartRoundLengths, "rounded lengths, last takes rest"),
    ("04.1", PartStrides, "unequal sizes are ignored"),
    ("04.1", PartCopies, "copies, is no view"),
    ("04.1", PartReadsOn, "for loop enters next share"),
    ("04.1", PartGivesPositions, "positions instead of samples"),
    ("04.1", PartShufflesInUse, "each use shuffles anew"),
    ("04.1", PartSeedPlusK, "own seed for each share"),
    ("04.1", PartShufflesWithin, "cut first, no mixture"),
    ("04.1", PartTruth, "truth of data, tensors refuse"),
    ("04.1", PartShufflesData, "shuffles the caller's list"),
    ("04.1", PartOneCallShared, "second use changes first share"),
    ("04.2", load_reshuffles_last, "order of the epoch before"),
    ("04.2", load_shuffles_share, "samples never change ranks"),
    ("04.2", load_pads_batch, "pads to whole batches"),
    ("04.2", load_drops_batch, "drops the last small step"),
    ("04.2", load_pads_once, "more ranks missing than samples"),
    ("04.2", load_minus_zero, "drops all when none left"),
    ("04.2", load_first_epoch_other, "before set_epoch not epoch 0"),
    ("04.2", load_hash, "hash differs between processes"),
    ("04.2", load_seed_times_epoch, "seed 0: one order only"),
    ("04.2", load_shared_epoch, "epoch shared by all loaders"),
    ("04.2", load_shuffle_true, "shuffled again, not by seed"),
    ("04.2", load_drops_same, "same samples dropped for ever"),
    ("04.2", load_list_collate, "lists without a collate_fn"),
    ("04.2", load_rounds_up, "batch rounded up per rank"),
    ("04.2", load_empty_divides, "divides by zero when empty"),
    ("04.2", load_once, "second for loop finds nothing"),
    ("04.2", load_generator_goes_on, "needs the epochs before"),
    ("04.2", load_rotates, "same order, shares go around"),
    ("04.2", load_seed_forgotten, "seed is never used"),
    ("04.2", wrong_042_seed_times_epoch, "seed times epoch: with seed 0 one order only"),
]
