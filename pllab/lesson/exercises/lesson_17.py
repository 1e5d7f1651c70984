"""The exercises of lesson 17: read a schedule, find the circle in an illegal one, and bubble golf."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_17_circle as circle
from pllab.lesson.exercises import lesson_17_golf as golf
from pllab.lesson.exercises import lesson_17_price as price

EXERCISES = (
    Exercise(
        id="17.1",
        title="The price tag of a schedule",
        difficulty=2,
        cases=cases_of(price),
    ),
    Exercise(
        id="17.2",
        title="Find the circle",
        difficulty=3,
        cases=cases_of(circle),
        package=("pllab.schedule.problems",),
    ),
    Exercise(
        id="17.3",
        title="Bubble golf",
        difficulty=3,
        cases=cases_of(golf),
        package=("pllab.schedule.zero_bubble", "pllab.schedule.optimal"),
    ),
)
