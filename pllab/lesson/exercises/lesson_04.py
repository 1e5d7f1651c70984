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
        package=("pllab.data.DataPartitioner",),
    ),
    Exercise(
        id="04.2",
        title="Loaders in step, epoch after epoch",
        difficulty=3,
        cases=cases_of(loader),
        package=("pllab.data.partition_dataset",),
        deadline_s=60.0,
    ),
)
