"""The exercises of lesson 10: the rows of 1F1B, a row that lets go, and a stage that computes twice to keep less."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_10_checkpoint as twice
from pllab.lesson.exercises import lesson_10_free as free
from pllab.lesson.exercises import lesson_10_order as order

EXERCISES = (
    Exercise(
        id="10.1",
        title="One forward, one backward",
        difficulty=2,
        cases=cases_of(order),
        package=("pllab.schedule.one_f_one_b",),
    ),
    Exercise(
        id="10.2",
        title="Let go of what is not needed",
        difficulty=2,
        cases=cases_of(free),
    ),
    Exercise(
        id="10.3",
        title="A stage that keeps only its input",
        difficulty=3,
        cases=cases_of(twice),
    ),
)
