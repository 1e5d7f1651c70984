"""The exercises of lesson 14: coordinates and groups, two reductions in order, a norm over the mesh, and a plan."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_14_arrange as arrange
from pllab.lesson.exercises import lesson_14_norm as norm
from pllab.lesson.exercises import lesson_14_plan as plan
from pllab.lesson.exercises import lesson_14_tied as tied

EXERCISES = (
    Exercise(
        id="14.1",
        title="Coordinates and groups",
        difficulty=2,
        cases=cases_of(arrange),
    ),
    Exercise(
        id="14.2",
        title="The order of two reductions",
        difficulty=2,
        deadline_s=60.0,
        cases=cases_of(tied),
    ),
    Exercise(
        id="14.3",
        title="Count every number once",
        difficulty=2,
        cases=cases_of(norm),
    ),
    Exercise(
        id="14.4",
        title="A plan",
        difficulty=2,
        cases=cases_of(plan),
    ),
)
