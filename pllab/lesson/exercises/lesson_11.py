"""The exercises of lesson 11: a backward in halves, interleaved rows, and a schedule whose W's fill the holes."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_11_halves as halves
from pllab.lesson.exercises import lesson_11_interleaved as interleaved
from pllab.lesson.exercises import lesson_11_late as late

EXERCISES = (
    Exercise(
        id="11.1",
        title="A backward in halves",
        difficulty=2,
        cases=cases_of(halves),
    ),
    Exercise(
        id="11.2",
        title="Interleaved rows",
        difficulty=3,
        cases=cases_of(interleaved),
        package=("pllab.schedule.interleaved",),
    ),
    Exercise(
        id="11.3",
        title="W fills the hole",
        difficulty=3,
        cases=cases_of(late),
        package=("pllab.schedule.zb_h1", "pllab.schedule.zero_bubble", "pllab.schedule.optimal"),
    ),
)
