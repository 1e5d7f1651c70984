"""The exercises of lesson 04: shares that lose nothing, and loaders that stay in step, epoch after epoch."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_04_loader as loader
from pllab.lesson.exercises import lesson_04_shares as shares

EXERCISES = (
    Exercise(
        id="04.1",
        title="Shares that lose nothing",
        difficulty=2,
        cases=cases_of(shares),
        hints=(
            "On paper, split 65 samples into 8 shares of 1/8 each. Write down the 8 lengths. What do they add up to?",
            "Get the lengths right first. Start with the whole parts, count how many samples are left over, and give "
            "one each to the shares that lack most. Then cut by these lengths, with integers alone. A share keeps two "
            "things: the data, and the positions of its samples.",
            "Multiply each size by the number of samples and round the product to nine digits, so that 0.29 of 100 "
            "does not become 28.99999. The whole parts are the lengths; what is still missing goes, one sample each, "
            "to the shares with the largest fractions. Shuffle the positions with a generator made from the seed, and "
            "cut them by the lengths. To read a sample of a share, look up its position first, and then the data at "
            "that position.",
        ),
        package=("pllab.data.DataPartitioner",),
    ),
    Exercise(
        id="04.2",
        title="Loaders in step, epoch after epoch",
        difficulty=3,
        cases=cases_of(loader),
        hints=(
            "Count the steps of every rank for 145 samples, 3 ranks, and 4 samples on each rank in a step. Who is "
            "alone at the end? Then print the samples of ranks 0 and 1 in epochs 0 and 1.",
            "Make the number of samples a multiple of the number of ranks before you share them: repeat some, or "
            "leave the last ones out. Two things decide the order, the seed and the epoch. Nothing else may, neither "
            "the rank nor the order of the epoch before.",
            "For an epoch, take all positions in order and shuffle them with a new generator, seeded with seed plus "
            "epoch. Cut off or append what the remainder asks for, and give this rank every world_size-th position, "
            "beginning at its own number. Let a DataLoader read from an object that holds these positions, and let "
            "set_epoch replace them. Call it for epoch 0 before you return the loader.",
        ),
        package=("pllab.data.partition_dataset",),
        deadline_s=60.0,
    ),
)
