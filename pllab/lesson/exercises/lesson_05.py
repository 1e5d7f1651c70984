"""The exercises of lesson 05: the same start, the same gradient, the same weight for every target, and all of it."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_05_average as average
from pllab.lesson.exercises import lesson_05_start as start
from pllab.lesson.exercises import lesson_05_tokens as tokens
from pllab.lesson.exercises import lesson_05_train as train

EXERCISES = (
    Exercise(
        id="05.1",
        title="The same start",
        difficulty=1,
        deadline_s=60.0,
        cases=cases_of(start),
        package=("pllab.parallel.broadcast_parameters", "pllab.parallel.DataParallel"),
    ),
    Exercise(
        id="05.2",
        title="The same gradient",
        difficulty=2,
        deadline_s=60.0,
        cases=cases_of(average),
        package=("pllab.parallel.average_gradients",),
    ),
    Exercise(
        id="05.3",
        title="The same weight for every target",
        difficulty=3,
        deadline_s=60.0,
        cases=cases_of(tokens),
        package=("pllab.parallel.token_weighted",),
    ),
    Exercise(
        id="05.4",
        title="Your own training",
        difficulty=3,
        deadline_s=90.0,
        cases=cases_of(train),
        package=("pllab.train.train_data_parallel",),
    ),
)
