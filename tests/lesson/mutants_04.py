"""Wrong solutions of lesson 04, each with the hint that must refuse it.

Most of them were seen in public solutions of the course this lesson descends from.
"""

import random
from itertools import accumulate

from torch.utils.data import DataLoader, Subset

from tests.lesson.variants_04 import (
    LargestRemainders,
    SeedPlusEpoch,
    TwoLookUps,
    deals_cards,
)

# 04.1 Partition(data, index)


class LengthOfData(TwoLookUps):
    def __len__(self):
        return len(self.data)


class LastPosition(TwoLookUps):
    def __len__(self):
        return max(self.index)


class IgnoresTheIndex(TwoLookUps):
    def __getitem__(self, position):
        return self.data[position]


class ReturnsTheIndex(TwoLookUps):
    def __getitem__(self, position):
        return self.index[position]


class SortsTheIndex(TwoLookUps):
    def __init__(self, data, index):
        super().__init__(data, sorted(index))


class AsksForAllAtOnce(TwoLookUps):
    def __getitem__(self, position):
        return self.data[self.index][position]


class LooksUpBackwards(TwoLookUps):
    def __getitem__(self, position):
        return self.data[self.index[-position]]


class SharedByAll(TwoLookUps):
    def __init__(self, data, index):
        type(self).data, type(self).index = data, index


class GoesRound(TwoLookUps):
    def __getitem__(self, position):
        return self.data[self.index[position % len(self.index)]]


class LoopsOverTheIndex(TwoLookUps):
    def __iter__(self):
        return iter(self.index)


class CopiesTheSamples:
    def __init__(self, data, index):
        self.samples = [data[place] for place in index]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, position):
        return self.samples[position]


class ReadsAllEachTime(TwoLookUps):
    def __getitem__(self, position):
        return [self.data[place] for place in self.index][position]


# 04.2 DataPartitioner(data, sizes, seed).use(k)


class CutBy:
    """A partitioner whose lengths are wrong in one way."""

    def __init__(self, data, sizes=(0.7, 0.2, 0.1), seed=1234):
        self.data, self.parts, start = data, [], 0
        order = self.order(len(data), seed)
        for length in self.lengths(len(data), sizes):
            self.parts.append(order[start : start + length])
            start += length

    def order(self, number, seed):
        order = list(range(number))
        random.Random(seed).shuffle(order)
        return order

    def lengths(self, number, sizes):
        return [len(part) for part in LargestRemainders(range(number), sizes).parts]

    def use(self, k):
        return TwoLookUps(self.data, self.parts[k])


class DroppedRemainder(CutBy):
    def lengths(self, number, sizes):
        return [int(size * number) for size in sizes]


class CumulativeFloats(CutBy):
    def lengths(self, number, sizes):
        ends = [int(end * number) for end in accumulate(sizes)]
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]


class RoundedLengths(CutBy):
    def lengths(self, number, sizes):
        return [round(size * number) for size in sizes]


class CumulativeSumTwice(CutBy):
    def lengths(self, number, sizes):
        return [int(end * number) for end in accumulate(sizes)]


class RestToTheLast(CutBy):
    def lengths(self, number, sizes):
        lengths = [int(size * number) for size in sizes[:-1]]
        return [*lengths, number - sum(lengths)]


class EqualWhateverIsAsked(CutBy):
    def lengths(self, number, sizes):
        return super().lengths(number, [1 / len(sizes)] * len(sizes))


class FromTheBeginning(CutBy):
    """The start does not move on: the shares overlap."""

    def use(self, k):
        return TwoLookUps(self.data, sum(self.parts, [])[k : k + len(self.parts[k])])


class AllTheSameShare(CutBy):
    def use(self, k):
        return TwoLookUps(self.data, self.parts[0])


class NotShuffled(CutBy):
    def order(self, number, seed):
        return list(range(number))


class ShuffledWithin(CutBy):
    """Cut first, then shuffled inside the share."""

    def order(self, number, seed):
        return list(range(number))

    def use(self, k):
        random.Random(k).shuffle(self.parts[k])
        return super().use(k)


class NoSeed(CutBy):
    def order(self, number, seed):
        return random.sample(range(number), number)


class OneSeedForAll(CutBy):
    def order(self, number, seed):
        return super().order(number, 1234)


class UseReturnsNumbers(CutBy):
    def use(self, k):
        return self.parts[k]


class UseReturnsNothing(CutBy):
    def use(self, k):
        TwoLookUps(self.data, self.parts[k])


# 04.3 partition_dataset(rank, world_size, dataset, batch_size, collate_fn, *, remainder)


def _shuffled(number):
    return random.Random(1234).sample(range(number), number)


def returns_nothing(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder)


def returns_the_share(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    return deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder).dataset


def share_without_collate(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    loader = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder)
    return loader if collate_fn else loader.dataset


def used_up(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    yield from deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder)


def global_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    share = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder).dataset
    return DataLoader(share, batch_size, collate_fn=collate_fn)


def one_sample_a_step(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    share = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder).dataset
    return DataLoader(share, collate_fn=collate_fn)


def uneven(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    mine = _shuffled(len(dataset))[rank::world_size]
    return DataLoader(Subset(dataset, mine), batch_size // world_size, collate_fn=collate_fn)


def shorter_last_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    """As many steps on every rank, by hand, but not the same batches."""
    per_rank = batch_size // world_size
    order = _shuffled(len(dataset))
    mine, steps = order[rank::world_size], -(-len(dataset) // batch_size)
    pieces = [mine[step * per_rank : (step + 1) * per_rank] or order[:1] for step in range(steps)]
    return DataLoader(dataset, batch_sampler=pieces, collate_fn=collate_fn)


def always_drops(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    return deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder="drop")


def always_pads(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    return deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder="pad")


def same_share_everywhere(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    return deals_cards(0, world_size, dataset, batch_size, collate_fn, remainder=remainder)


def shuffles_by_itself(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    """The whole data set, shuffled on every rank: w ranks do the work of one."""
    return DataLoader(dataset, batch_size // world_size, shuffle=len(dataset) > 0, collate_fn=collate_fn)


def drops_the_last_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    share = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder).dataset
    return DataLoader(share, batch_size // world_size, collate_fn=collate_fn, drop_last=True)


def pads_whole_batches(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    order = _shuffled(len(dataset))
    if remainder == "drop":
        order = order[: len(order) - len(order) % world_size]
    elif order:
        order += [order[i % len(dataset)] for i in range(-len(dataset) % batch_size)]
    return DataLoader(Subset(dataset, order[rank::world_size]), batch_size // world_size, collate_fn=collate_fn)


def fails_when_empty(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    loader = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder)
    return DataLoader(loader.dataset, batch_size // world_size, shuffle=True, collate_fn=collate_fn)


def one_step_when_empty(rank, world_size, dataset, batch_size=128, collate_fn=None, *, remainder="pad"):
    loader = deals_cards(rank, world_size, dataset, batch_size, collate_fn, remainder=remainder)
    return loader if len(dataset) else [[]]


# 04.4 EpochShare(data, rank, world_size, seed) with set_epoch(epoch)


class ForgottenEpoch(SeedPlusEpoch):
    def set_epoch(self, epoch):
        super().set_epoch(0)


class NeverDealsAgain(SeedPlusEpoch):
    """Notes the epoch and uses it nowhere."""

    def __init__(self, data, rank, world_size, seed=1234):
        super().__init__(data, rank, world_size, seed)
        self.set_epoch = lambda epoch: None


class SeedPlusRank(SeedPlusEpoch):
    def __init__(self, data, rank, world_size, seed=1234):
        super().__init__(data, rank, world_size, seed + 100 * rank)


class Unseeded(SeedPlusEpoch):
    def set_epoch(self, epoch):
        order = random.sample(range(len(self.data)), len(self.data))
        self.index = order[self.rank :: self.world_size]


class SameShare(SeedPlusEpoch):
    def __init__(self, data, rank, world_size, seed=1234):
        super().__init__(data, 0, world_size, seed)


class DropsTheRemainder(SeedPlusEpoch):
    def set_epoch(self, epoch):
        super().set_epoch(epoch)
        del self.index[len(self.data) // self.world_size :]


class PadsHere(SeedPlusEpoch):
    def set_epoch(self, epoch):
        super().set_epoch(epoch)
        self.index += self.index[:1]


class LastTakesTheRest(SeedPlusEpoch):
    def set_epoch(self, epoch):
        order = random.Random(self.seed + epoch).sample(range(len(self.data)), len(self.data))
        size = len(order) // self.world_size
        end = len(order) if self.rank == self.world_size - 1 else (self.rank + 1) * size
        self.index = order[self.rank * size : end]


class StaysAtHome(SeedPlusEpoch):
    def set_epoch(self, epoch):
        super().set_epoch(0)
        random.Random(self.seed + epoch).shuffle(self.index)


class ShufflesOn(SeedPlusEpoch):
    """The order of an epoch is the shuffled order of the one before."""

    def set_epoch(self, epoch):
        if not hasattr(self, "order"):
            self.order = list(range(len(self.data)))
        random.Random(self.seed + epoch).shuffle(self.order)
        self.index = self.order[self.rank :: self.world_size]


class StartsInOrder(SeedPlusEpoch):
    def __init__(self, data, rank, world_size, seed=1234):
        super().__init__(data, rank, world_size, seed)
        self.index = list(range(rank, len(data), world_size))


class EpochAlone(SeedPlusEpoch):
    def set_epoch(self, epoch):
        seed, self.seed = self.seed, 0
        super().set_epoch(epoch)
        self.seed = seed


class SeedTimesEpoch(SeedPlusEpoch):
    def set_epoch(self, epoch):
        seed = self.seed
        self.seed = seed * epoch - epoch
        super().set_epoch(epoch)
        self.seed = seed


class Numbers(SeedPlusEpoch):
    def __getitem__(self, position):
        return self.index[position]


WRONG = [
    ("04.1", "length_of_data", LengthOfData),
    ("04.1", "length", LastPosition),
    ("04.1", "ignores_the_index", IgnoresTheIndex),
    ("04.1", "returns_the_index", ReturnsTheIndex),
    ("04.1", "sorted", SortsTheIndex),
    ("04.1", "index_is_a_list", AsksForAllAtOnce),
    ("04.1", "wrong_sample", LooksUpBackwards),
    ("04.1", "shared_index", SharedByAll),
    ("04.1", "never_stops", GoesRound),
    ("04.1", "loop", LoopsOverTheIndex),
    ("04.1", "reads_all", CopiesTheSamples),
    ("04.1", "reads_all", ReadsAllEachTime),
    ("04.2", "dropped_remainder", DroppedRemainder),
    ("04.2", "float_sum", CumulativeFloats),
    ("04.2", "lost", RoundedLengths),
    ("04.2", "summed_twice", CumulativeSumTwice),
    ("04.2", "unbalanced", RestToTheLast),
    ("04.2", "ignores_the_sizes", EqualWhateverIsAsked),
    ("04.2", "doubled", FromTheBeginning),
    ("04.2", "same_share", AllTheSameShare),
    ("04.2", "not_shuffled", NotShuffled),
    ("04.2", "not_shuffled", ShuffledWithin),
    ("04.2", "not_repeatable", NoSeed),
    ("04.2", "ignores_the_seed", OneSeedForAll),
    ("04.2", "numbers_for_samples", UseReturnsNumbers),
    ("04.2", "no_share", UseReturnsNothing),
    ("04.3", "no_loader", returns_nothing),
    ("04.3", "dataset_for_loader", returns_the_share),
    ("04.3", "dataset_for_loader", share_without_collate),
    ("04.3", "only_one_epoch", used_up),
    ("04.3", "global_batch", global_batch),
    ("04.3", "rank_batch", one_sample_a_step),
    ("04.3", "uneven_steps", uneven),
    ("04.3", "uneven_batches", shorter_last_batch),
    ("04.3", "dropped_remainder", always_drops),
    ("04.3", "repeats_under_drop", always_pads),
    ("04.3", "same_share", same_share_everywhere),
    ("04.3", "same_share", shuffles_by_itself),
    ("04.3", "lost", drops_the_last_batch),
    ("04.3", "doubled", pads_whole_batches),
    ("04.3", "empty", fails_when_empty),
    ("04.3", "empty", one_step_when_empty),
    ("04.4", "forgotten_epoch", ForgottenEpoch),
    ("04.4", "forgotten_epoch", NeverDealsAgain),
    ("04.4", "own_order", SeedPlusRank),
    ("04.4", "own_order", Unseeded),
    ("04.4", "same_share", SameShare),
    ("04.4", "dropped_remainder", DropsTheRemainder),
    ("04.4", "doubled", PadsHere),
    ("04.4", "unbalanced", LastTakesTheRest),
    ("04.4", "stays_at_home", StaysAtHome),
    ("04.4", "depends_on_the_past", ShufflesOn),
    ("04.4", "no_epoch_0", StartsInOrder),
    ("04.4", "ignores_the_seed", EpochAlone),
    ("04.4", "ignores_the_seed", SeedTimesEpoch),
    ("04.4", "numbers_for_samples", Numbers),
]
