"""The exercises of lesson 04: shares that lose nothing, and loaders that stay in step, epoch after epoch."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_04_epochs as epochs
from pllab.lesson.exercises import lesson_04_loader as loader
from pllab.lesson.exercises import lesson_04_shares as shares

EXERCISES = (
    Exercise(
        id="04.1",
        title="Shares that lose nothing",
        minutes=12,
        difficulty=2,
        cases=(shares.everything_once, shares.balanced, shares.unequal, shares.seeded, shares.view),
        hints=(
            "Take 65 samples and 8 shares of 1/8 on paper. Write down the 8 lengths; what do they add up to?",
            "The lengths decide. Whole parts first; then count what is left over and give it out, one sample each, to "
            "those that lack most. Start and end follow from the lengths alone, with integers. A share keeps two "
            "things: the data, and the positions of its samples.",
            "Multiply each size by the number of samples and round that to some nine digits, so that 0.29 of 100 does "
            "not become 28.99999. The whole parts are the lengths; as many of them as samples are missing get one "
            "more, those with the largest fractions first. Shuffle the positions with a generator made from the seed, "
            "and cut them by the lengths. A sample of a share is found by two look-ups: first its position, then the "
            "data at that position.",
        ),
        package=("pllab.data.DataPartitioner",),
    ),
    Exercise(
        id="04.2",
        title="Loaders in step, epoch after epoch",
        minutes=18,
        difficulty=3,
        cases=(
            loader.gives_batches,
            loader.batch_of_a_rank,
            loader.in_step,
            loader.nothing_lost,
            loader.empty,
            epochs.another_order,
            epochs.others_left_out,
            epochs.same_again,
        ),
        hints=(
            "Count the steps of every rank for 145 samples, 3 ranks and 4 samples on each rank in a step. Who is "
            "alone at the end? And print the samples of ranks 0 and 1 in epochs 0 and 1.",
            "Make the number of samples a multiple of the number of ranks before you share them: repeat some, or leave "
            "the last ones out. Two things decide the order, the seed and the epoch. Nothing else may, neither the "
            "rank nor the order of the epoch before.",
            "For an epoch: take all positions in order, shuffle them with a new generator seeded with seed plus epoch, "
            "then cut off or append what the remainder asks for, and give every world_size-th position to this rank, "
            "beginning at its own number. Let a DataLoader read from an object that holds these positions, and let "
            "set_epoch put new positions into it. Call it once for epoch 0 before you return the loader.",
        ),
        package=("pllab.data.partition_dataset",),
        deadline_s=60.0,
    ),
)
