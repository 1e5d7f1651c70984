"""Wrong solutions of lesson 04, each with the hint that must refuse it.

Most of them were seen in public solutions of the course this lesson descends from.
"""

import random
from itertools import accumulate

from torch.utils.data import DataLoader, Subset

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


class RestToTheLast(CutBy):
    def lengths(self, number, sizes):
        lengths = [int(size * number) for size in sizes[:-1]]
        return [*lengths, number - sum(lengths)]


class OneMoreForTheFirst(CutBy):
    """The left over go to the first shares, also to those that lack nothing."""

    def lengths(self, number, sizes):
        lengths = [int(round(size * number, 9)) for size in sizes]
        left_over = number - sum(lengths)
        return [length + (k < left_over) for k, length in enumerate(lengths)]


class EndsCutOff(CutBy):
    """int(end * n) with the last end mended: 0.29 of 100 is 28."""

    def lengths(self, number, sizes):
        ends = [*(int(end * number) for end in accumulate(sizes[:-1])), number]
        return [end - start for start, end in zip([0, *ends], ends, strict=False)]


class FromTheBeginning(CutBy):
    """The start does not move on: the shares overlap."""

    def use(self, k):
        return TwoLookUps(self.data, sum(self.parts, [])[k : k + len(self.parts[k])])


class NotShuffled(CutBy):
    def order(self, number, seed):
        return list(range(number))


class NoSeed(CutBy):
    def order(self, number, seed):
        return random.sample(range(number), number)


class NextShare(CutBy):
    """Each call deals the next share, so a rank that asks for its own alone gets the first one."""

    def use(self, k):
        return TwoLookUps(self.data, self.parts.pop(0))


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


class CopiesTheSamples(CutBy):
    def use(self, k):
        return [self.data[place] for place in self.parts[k]]


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


def filled(order, world_size, remainder):
    """Any order, padded or cut as it should be."""
    if remainder == "drop":
        return order[: len(order) - len(order) % world_size]
    return order + [order[i % len(order)] for i in range(-len(order) % world_size)]


def dealt(rank, world_size, order, remainder):
    return filled(order, world_size, remainder)[rank::world_size]


def returns_nothing(*arguments, **options):
    deals_cards(*arguments, **options)


def returns_the_share(*arguments, **options):
    return deals_cards(*arguments, **options).dataset


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


@changed
def uneven(rank, world_size, number, batch_size, seed, epoch, remainder):
    return shuffled(number, seed + epoch)[rank::world_size]


def always_drops(*arguments, remainder="pad", **options):
    return deals_cards(*arguments, remainder="drop", **options)


def same_share_everywhere(rank, *arguments, **options):
    return deals_cards(0, *arguments, **options)


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
def order_of_a_text(rank, world_size, number, batch_size, seed, epoch, remainder):
    """The hash of a text is another one in every process."""
    return dealt(rank, world_size, shuffled(number, hash(f"{seed}-{epoch}")), remainder)


@changed
def drops_none_or_all(rank, world_size, number, batch_size, seed, epoch, remainder):
    """order[:-0] is empty where nothing is left over."""
    order = shuffled(number, seed + epoch)
    return dealt(rank, world_size, order if remainder == "pad" else order[: -(number % world_size)], remainder)


@changed
def drops_the_same(rank, world_size, number, batch_size, seed, epoch, remainder):
    """Cut first, shuffled then."""
    order = filled(list(range(number)), world_size, remainder)
    return random.Random(seed + epoch).sample(order, len(order))[rank::world_size]


@changed
def repeats_the_same(rank, world_size, number, batch_size, seed, epoch, remainder):
    more = [place % number for place in range(-number % world_size)] * (remainder == "pad")
    return dealt(rank, world_size, shuffled(number, seed + epoch) + more, remainder)


def shuffles_on(rank, world_size, dataset, batch_size=128, collate_fn=None, *, seed=1234, remainder="pad"):
    """One generator for ever: each call of set_epoch shuffles on, whatever its number."""
    share, order, generator = Subset(dataset, []), list(range(len(dataset))), random.Random(seed)

    def set_epoch(epoch):
        generator.shuffle(order)
        share.indices = dealt(rank, world_size, order, remainder)

    return with_epochs(DataLoader(share, batch_size // world_size, collate_fn=collate_fn), set_epoch)


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


WRONG = [
    ("04.1", "dropped_remainder", DroppedRemainder),
    ("04.1", "wrong_lengths", RestToTheLast),
    ("04.1", "not_once", FromTheBeginning),
    ("04.1", "not_shuffled", NotShuffled),
    ("04.1", "wrong_seed", NoSeed),
    ("04.1", "numbers_for_samples", UseReturnsNumbers),
    ("04.1", "no_share", UseReturnsNothing),
    ("04.1", "raised", AsksForAllAtOnce),
    ("04.1", "no_view", SharedByAll),
    ("04.1", "never_stops", GoesRound),
    ("04.1", "wrong_seed", NextShare),
    ("04.1", "no_view", CopiesTheSamples),
    ("04.1", "one_whole_sample", OneMoreForTheFirst),
    ("04.1", "float_product", EndsCutOff),
    ("04.2", "no_loader", returns_nothing),
    ("04.2", "wrong_batch", returns_the_share),
    ("04.2", "only_one_epoch", used_up),
    ("04.2", "rank_batch", global_batch),
    ("04.2", "uneven_steps", uneven),
    ("04.2", "wrong_samples", always_drops),
    ("04.2", "own_order", same_share_everywhere),
    ("04.2", "raised", fails_when_empty),
    ("04.2", "wrong_samples", one_step_when_empty),
    ("04.2", "no_loader", no_epochs),
    ("04.2", "wrong_order", shuffled_by_torch),
    ("04.2", "forgotten_epoch", forgotten_epoch),
    ("04.2", "stays_at_home", stays_at_home),
    ("04.2", "depends_on_the_past", shuffles_on),
    ("04.2", "ignores_the_seed", epoch_alone),
    ("04.2", "same_left_out", drops_the_same),
    ("04.2", "other_process", order_of_a_text),
    ("04.2", "drops_all", drops_none_or_all),
]

LET_THROUGH = [("04.2", "same_left_out", repeats_the_same)]
