"""The exercises of lesson 15: where ranks part, who waits for whom, and a diagnosis from the records alone."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_15_causes as causes
from pllab.lesson.exercises import lesson_15_parting as parting
from pllab.lesson.exercises import lesson_15_waits as waits

EXERCISES = (
    Exercise(
        id="15.1",
        title="Where the ranks part",
        difficulty=1,
        cases=cases_of(parting),
        package=("pllab.autopsy.diagnose",),
    ),
    Exercise(
        id="15.2",
        title="Who waits for whom",
        difficulty=2,
        cases=cases_of(waits),
        package=("pllab.autopsy.wait_for_graph", "pllab.autopsy.diagnose"),
    ),
    Exercise(
        id="15.3",
        title="The diagnosis",
        difficulty=3,
        cases=cases_of(causes),
        package=("pllab.autopsy.diagnose",),
    ),
)
