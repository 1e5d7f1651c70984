"""Wrong solutions of lesson 04, each with the hint that must refuse it.

Most of them were seen in public solutions of the course this lesson descends from.
"""

import random
from itertools import accumulate

from torch.utils.data import DataLoader, Subset

from tests.lesson import strangers_04 as strangers
from tests.lesson.variants_04 import LargestRemainders, TwoLookUps, deals_cards, with_epochs

# 04.1 DataPartitioner(data, sizes, seed).use(k)


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


class IgnoresTheIndex(CutBy):
    class View(TwoLookUps):
        def __getitem__(self, position):
            return self.data[position]

    def use(self, k):
        return self.View(self.data, self.parts[k])


class ReturnsTheIndex(IgnoresTheIndex):
    class View(TwoLookUps):
        def __getitem__(self, position):
            return self.index[position]


class AsksForAllAtOnce(IgnoresTheIndex):
    class View(TwoLookUps):
        def __getitem__(self, position):
            return self.data[self.index][position]


class SharedByAll(IgnoresTheIndex):
    class View(TwoLookUps):
        def __init__(self, data, index):
            type(self).data, type(self).index = data, index


class GoesRound(IgnoresTheIndex):
    class View(TwoLookUps):
        def __getitem__(self, position):
            return self.data[self.index[position % len(self.index)]]


class LoopsOverTheIndex(IgnoresTheIndex):
    class View(TwoLookUps):
        def __iter__(self):
            return iter(self.index)


class CopiesTheSamples(CutBy):
    def use(self, k):
        return [self.data[place] for place in self.parts[k]]


class ReadsAllEachTime(IgnoresTheIndex):
    class View(TwoLookUps):
        def __getitem__(self, position):
            return [self.data[place] for place in self.index][position]


# 04.2 partition_dataset(rank, world_size, dataset, batch_size, collate_fn, *, seed, remainder)


def changed(part):
    """A right loader whose positions are replaced, in every epoch, by those that `part` makes of the call."""

    def loader_of(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
        share = Subset(dataset, [])

        def set_epoch(epoch):
            share.indices = part(rank, world_size, len(dataset), batch_size, seed, epoch, remainder)

        return with_epochs(DataLoader(share, batch_size // world_size, collate_fn=collate_fn), set_epoch)

    loader_of.__name__ = part.__name__
    return loader_of


def shuffled(number, seed):
    return random.Random(seed).sample(range(number), number)


def dealt(rank, world_size, order, remainder):
    """This rank's part of any order, padded or cut as it should be."""
    left = len(order) % world_size
    if remainder == "drop":
        order = order[: len(order) - left]
    elif left:
        order = order + [order[i % len(order)] for i in range(world_size - left)]
    return order[rank::world_size]


def returns_nothing(*arguments, **options):
    deals_cards(*arguments, **options)


def returns_the_share(*arguments, **options):
    return deals_cards(*arguments, **options).dataset


def share_without_collate(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    loader = deals_cards(rank, world_size, dataset, batch_size, collate_fn, **options)
    return loader if collate_fn else loader.dataset


def forgets_collate(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    return deals_cards(rank, world_size, dataset, batch_size, **options)


class UsedUp:
    def __init__(self, loader):
        self.set_epoch, self.batches = loader.set_epoch, iter(loader)

    def __iter__(self):
        return self.batches


def used_up(*arguments, **options):
    return UsedUp(deals_cards(*arguments, **options))


def global_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    loader = deals_cards(rank, world_size, dataset, batch_size, **options)
    return with_epochs(DataLoader(loader.dataset, batch_size, collate_fn=collate_fn), loader.set_epoch)


def one_sample_a_step(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    loader = deals_cards(rank, world_size, dataset, batch_size, **options)
    return with_epochs(DataLoader(loader.dataset, collate_fn=collate_fn), loader.set_epoch)


@changed
def uneven(rank, world_size, number, batch_size, seed, epoch, remainder):
    return shuffled(number, seed + epoch)[rank::world_size]


def shorter_last_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """As many steps on every rank, by hand, but not the same batches."""
    per_rank = batch_size // world_size
    order = shuffled(len(dataset), seed)
    mine, steps = order[rank::world_size], -(-len(dataset) // batch_size)
    pieces = [mine[step * per_rank : (step + 1) * per_rank] or order[:1] for step in range(steps)]
    return DataLoader(dataset, batch_sampler=pieces, collate_fn=collate_fn)


def always_drops(*arguments, remainder="pad", **options):
    return deals_cards(*arguments, remainder="drop", **options)


def always_pads(*arguments, remainder="pad", **options):
    return deals_cards(*arguments, remainder="pad", **options)


def same_share_everywhere(rank, *arguments, **options):
    return deals_cards(0, *arguments, **options)


def shuffles_by_itself(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    """The whole data set, shuffled on every rank: w ranks do the work of one."""
    return DataLoader(dataset, batch_size // world_size, shuffle=len(dataset) > 0, collate_fn=collate_fn)


def drops_the_last_batch(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    loader = deals_cards(rank, world_size, dataset, batch_size, **options)
    fewer = DataLoader(loader.dataset, batch_size // world_size, collate_fn=collate_fn, drop_last=True)
    return with_epochs(fewer, loader.set_epoch)


@changed
def pads_whole_batches(rank, world_size, number, batch_size, seed, epoch, remainder):
    order = shuffled(number, seed + epoch)
    if remainder == "drop":
        order = order[: number - number % world_size]
    elif order:
        order += [order[i % number] for i in range(-number % batch_size)]
    return order[rank::world_size]


@changed
def rank_in_the_seed(rank, world_size, number, batch_size, seed, epoch, remainder):
    return dealt(rank, world_size, shuffled(number, seed + epoch + 100 * rank), remainder)


@changed
def no_seed(rank, world_size, number, batch_size, seed, epoch, remainder):
    return dealt(rank, world_size, random.sample(range(number), number), remainder)


@changed
def forgotten_epoch(rank, world_size, number, batch_size, seed, epoch, remainder):
    return dealt(rank, world_size, shuffled(number, seed), remainder)


@changed
def stays_at_home(rank, world_size, number, batch_size, seed, epoch, remainder):
    mine = dealt(rank, world_size, shuffled(number, seed), remainder)
    return random.Random(seed + epoch).sample(mine, len(mine))


@changed
def epoch_alone(rank, world_size, number, batch_size, seed, epoch, remainder):
    return dealt(rank, world_size, shuffled(number, epoch), remainder)


@changed
def seed_times_epoch(rank, world_size, number, batch_size, seed, epoch, remainder):
    return dealt(rank, world_size, shuffled(number, seed * epoch), remainder)


def shuffles_on(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """One generator for ever: each call of set_epoch shuffles on, whatever its number."""
    share, order, generator = Subset(dataset, []), list(range(len(dataset))), random.Random(seed)

    def set_epoch(epoch):
        generator.shuffle(order)
        share.indices = dealt(rank, world_size, order, remainder)

    return with_epochs(DataLoader(share, batch_size // world_size, collate_fn=collate_fn), set_epoch)


def shuffles_the_shuffled(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """The order of an epoch is the shuffled order of the one before, with the right seed."""
    share, order = Subset(dataset, []), list(range(len(dataset)))

    def set_epoch(epoch):
        random.Random(seed + epoch).shuffle(order)
        share.indices = dealt(rank, world_size, order, remainder)

    return with_epochs(DataLoader(share, batch_size // world_size, collate_fn=collate_fn), set_epoch)


def starts_in_order(rank, world_size, dataset, *arguments, **options):
    loader = deals_cards(rank, world_size, dataset, *arguments, **options)
    loader.dataset.indices = dealt(rank, world_size, list(range(len(dataset))), options.get("remainder", "pad"))
    return loader


class Plain(DataLoader):
    """A loader that knows no epochs."""


def no_epochs(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    share = deals_cards(rank, world_size, dataset, batch_size, **options).dataset
    return Plain(share, batch_size // world_size, collate_fn=collate_fn)


def shuffled_by_torch(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    """The right share, in an order that torch draws anew for each loop."""
    loader = deals_cards(rank, world_size, dataset, batch_size, **options)
    drawn = DataLoader(loader.dataset, batch_size // world_size, shuffle=len(dataset) > 8, collate_fn=collate_fn)
    return with_epochs(drawn, loader.set_epoch)


def fails_when_empty(rank, world_size, dataset, batch_size=128, collate_fn=None, **options):
    loader = deals_cards(rank, world_size, dataset, batch_size, collate_fn, **options)
    loader.first = dataset[0]
    return loader


def one_step_when_empty(rank, world_size, dataset, *arguments, **options):
    return deals_cards(rank, world_size, dataset, *arguments, **options) if len(dataset) else [[]]


@changed
def pads_the_same(rank, world_size, number, batch_size, seed, epoch, remainder):
    """Padded in order of the data set, and shuffled then."""
    order = shuffled(number, seed + epoch)
    if remainder == "drop":
        return dealt(rank, world_size, order, remainder)
    padded = order and [i % number for i in range(number + -number % world_size)]
    return random.Random(seed + epoch).sample(padded, len(padded))[rank::world_size]


WRONG = [
    ("04.1", "dropped_remainder", DroppedRemainder),
    ("04.1", "float_sum", CumulativeFloats),
    ("04.1", "lost", RoundedLengths),
    ("04.1", "summed_twice", CumulativeSumTwice),
    ("04.1", "unbalanced", RestToTheLast),
    ("04.1", "ignores_the_sizes", EqualWhateverIsAsked),
    ("04.1", "doubled", FromTheBeginning),
    ("04.1", "same_share", AllTheSameShare),
    ("04.1", "not_shuffled", NotShuffled),
    ("04.1", "not_shuffled", ShuffledWithin),
    ("04.1", "not_repeatable", NoSeed),
    ("04.1", "ignores_the_seed", OneSeedForAll),
    ("04.1", "numbers_for_samples", UseReturnsNumbers),
    ("04.1", "no_share", UseReturnsNothing),
    ("04.1", "same_share", IgnoresTheIndex),
    ("04.1", "numbers_for_samples", ReturnsTheIndex),
    ("04.1", "index_is_a_list", AsksForAllAtOnce),
    ("04.1", "shared_index", SharedByAll),
    ("04.1", "never_stops", GoesRound),
    ("04.1", "loop", LoopsOverTheIndex),
    ("04.1", "reads_all", CopiesTheSamples),
    ("04.1", "reads_all", ReadsAllEachTime),
    ("04.2", "no_loader", returns_nothing),
    ("04.2", "dataset_for_loader", returns_the_share),
    ("04.2", "dataset_for_loader", share_without_collate),
    ("04.2", "ignores_collate", forgets_collate),
    ("04.2", "only_one_epoch", used_up),
    ("04.2", "global_batch", global_batch),
    ("04.2", "rank_batch", one_sample_a_step),
    ("04.2", "uneven_steps", uneven),
    ("04.2", "uneven_batches", shorter_last_batch),
    ("04.2", "dropped_remainder", always_drops),
    ("04.2", "repeats_under_drop", always_pads),
    ("04.2", "same_share", same_share_everywhere),
    ("04.2", "same_share", shuffles_by_itself),
    ("04.2", "lost", drops_the_last_batch),
    ("04.2", "doubled", pads_whole_batches),
    ("04.2", "own_order", rank_in_the_seed),
    ("04.2", "own_order", no_seed),
    ("04.2", "empty", fails_when_empty),
    ("04.2", "empty", one_step_when_empty),
    ("04.2", "no_set_epoch", no_epochs),
    ("04.2", "not_repeatable", shuffled_by_torch),
    ("04.2", "forgotten_epoch", forgotten_epoch),
    ("04.2", "stays_at_home", stays_at_home),
    ("04.2", "depends_on_the_past", shuffles_on),
    ("04.2", "depends_on_the_past", shuffles_the_shuffled),
    ("04.2", "no_epoch_0", starts_in_order),
    ("04.2", "ignores_the_seed", epoch_alone),
    ("04.2", "forgotten_epoch", seed_times_epoch),
    ("04.1", "one_whole_sample", strangers.PartFirstGetOneMore),
    ("04.1", "one_whole_sample", strangers.PartRoundEnds),
    ("04.1", "float_product", strangers.PartIntEnds),
    ("04.1", "truth_of_data", strangers.PartTruth),
    ("04.1", "shuffles_the_data", strangers.PartShufflesData),
    ("04.2", "same_left_out", strangers.load_drops_same),
    ("04.2", "same_repeated", pads_the_same),
    ("04.2", "other_process", strangers.load_hash),
    ("04.2", "goes_around", strangers.load_rotates),
    ("04.2", "shared_epoch", strangers.load_shared_epoch),
    ("04.2", "own_collate", strangers.load_list_collate),
    ("04.2", "rank_batch", strangers.load_rounds_up),
    ("04.2", "drops_all", strangers.load_minus_zero),
]
