"""The exercises of lesson 04: a view of some samples, equal shares, loaders in step, a new order each epoch."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_04_epochs as epochs
from pllab.lesson.exercises import lesson_04_loader as loader
from pllab.lesson.exercises import lesson_04_partition as partition
from pllab.lesson.exercises import lesson_04_shares as shares

EXERCISES = (
    Exercise(
        id="04.1",
        title="A view of some samples",
        minutes=5,
        difficulty=1,
        cases=(partition.length, partition.samples, partition.apart, partition.looped, partition.lazy),
        hints=(
            "A partition has two lists before it: the data, and where its own samples are. Which one has its length?",
            "Position k is looked up twice: first in index, which gives the place in data, then in data.",
            "Keep both in __init__. Then: return len(self.index), and return self.data[self.index[position]].",
        ),
    ),
    Exercise(
        id="04.2",
        title="Shares that lose nothing",
        minutes=10,
        difficulty=2,
        cases=(shares.everything_once, shares.balanced, shares.unequal, shares.shuffled, shares.seeded),
        hints=(
            "Take 65 samples and 8 shares of 1/8 on paper. Write down the 8 lengths; what do they add up to?",
            "The lengths decide. Whole parts first; then count what is left over and give it out, one sample each. "
            "Start and end follow from the lengths alone, with integers.",
            "lengths = [int(size * n) for size in sizes], then add 1 to as many of them as n - sum(lengths) says, "
            "those with the largest fractions first; round(size * n, 9) keeps 0.29 * 100 from being 28. Shuffle "
            "range(n) with random.Random(seed) and cut it by the lengths.",
        ),
    ),
    Exercise(
        id="04.3",
        title="Loaders in step",
        minutes=12,
        difficulty=3,
        cases=(loader.gives_batches, loader.batch_of_a_rank, loader.in_step, loader.nothing_lost, loader.empty),
        hints=(
            "Count the steps of every rank for 145 samples, 3 ranks and 4 samples a step. Who is alone at the end?",
            "Make the number of samples a multiple of world_size before you share it: repeat some, or leave the last "
            "ones out. Then all shares are equally long, and so are all steps.",
            "order = list(range(n)), shuffled; left = n % world_size. drop: order[: n - left]. pad, if left: add "
            "order[i % n] for i in range(world_size - left). DataLoader(Partition(dataset, order[rank::world_size]), "
            "batch_size // world_size, collate_fn=collate_fn).",
        ),
    ),
    Exercise(
        id="04.4",
        title="A new order in every epoch",
        minutes=8,
        difficulty=2,
        cases=(epochs.everything_once, epochs.another_order, epochs.same_again, epochs.seeded),
        hints=(
            "Print the samples of rank 0 in epoch 0 and in epoch 1. Then those of rank 0 and rank 1 in one epoch.",
            "Two things decide the order: the seed and the epoch. Nothing else may, neither the rank nor the order "
            "of the epoch before.",
            "In set_epoch: order = list(range(len(data))), random.Random(seed + epoch).shuffle(order), and "
            "self.index = order[rank::world_size]. Call set_epoch(0) at the end of __init__.",
        ),
    ),
)
