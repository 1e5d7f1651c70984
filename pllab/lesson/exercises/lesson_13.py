"""The exercises of lesson 13: an optimizer and a sum in parts, a unit at a time, a checkpoint of all parts."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_13_adam as adam
from pllab.lesson.exercises import lesson_13_gather as gather
from pllab.lesson.exercises import lesson_13_scatter as scatter
from pllab.lesson.exercises import lesson_13_units as units

EXERCISES = (
    Exercise(
        id="13.1",
        title="An optimizer in parts",
        difficulty=2,
        cases=cases_of(adam),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.2",
        title="A sum in parts",
        difficulty=2,
        cases=cases_of(scatter),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.3",
        title="Gather, use, free",
        difficulty=3,
        cases=cases_of(units),
        deadline_s=120.0,
    ),
    Exercise(
        id="13.4",
        title="A checkpoint of all parts",
        difficulty=2,
        cases=cases_of(gather),
        deadline_s=120.0,
    ),
)
