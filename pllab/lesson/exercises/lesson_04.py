"""The exercises of lesson 04: a view of some samples, equal shares, loaders in step, a new order each epoch."""

from pllab.lesson.exercise import Case, Exercise
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
        cases=(
            Case("its length is the number of positions it holds, which may be 0", partition.length),
            Case("part[k] is the sample at the k-th position", partition.samples),
            Case("two partitions of one data set do not disturb each other", partition.apart),
            Case("a for loop gives every sample once and stops", partition.looped),
            Case("no sample is read before it is asked for", partition.lazy),
        ),
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
        cases=(
            Case(
                "every sample is in exactly one share: 0, 1, 6, 64, 65 samples, 1 to 8 shares", shares.everything_once
            ),
            Case("equal sizes give shares that differ by one sample at most", shares.balanced),
            Case("sizes that differ are kept, to less than one sample", shares.unequal),
            Case("a share is a mixture of the whole data set", shares.shuffled),
            Case("the same seed gives the same shares on every rank, another seed others", shares.seeded),
        ),
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
        cases=(
            Case("it returns a loader of batches, also without a collate_fn", loader.gives_batches),
            Case("batch_size is the batch of all ranks together", loader.batch_of_a_rank),
            Case("every rank makes the same steps with the same number of samples", loader.in_step),
            Case("pad loses nothing, drop doubles nothing: 1 to 145 samples, 1 to 8 ranks", loader.nothing_lost),
            Case("an empty data set gives every rank no step", loader.empty),
        ),
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
        cases=(
            Case(
                "in every epoch the ranks share all samples: 0, 1, 64, 65 samples, 1 to 8 ranks", epochs.everything_once
            ),
            Case("the next epoch has another order, and samples move between ranks", epochs.another_order),
            Case("an epoch's order does not depend on the epochs before it", epochs.same_again),
            Case("another seed is another order, in epoch 0 too", epochs.seeded),
        ),
        hints=(
            "Print the samples of rank 0 in epoch 0 and in epoch 1. Then those of rank 0 and rank 1 in one epoch.",
            "Two things decide the order: the seed and the epoch. Nothing else may, neither the rank nor the order "
            "of the epoch before.",
            "In set_epoch: order = list(range(len(data))), random.Random(seed + epoch).shuffle(order), and "
            "self.index = order[rank::world_size]. Call set_epoch(0) at the end of __init__.",
        ),
    ),
)
