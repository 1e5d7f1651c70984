"""The exercises of lesson 06: one flat message, messages while backward runs, one set for several backwards."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_06_accumulate as accumulation
from pllab.lesson.exercises import lesson_06_flat as flat
from pllab.lesson.exercises import lesson_06_overlap as overlap

EXERCISES = (
    Exercise(
        id="06.1",
        title="One flat message",
        difficulty=2,
        deadline_s=60.0,
        cases=cases_of(flat),
    ),
    Exercise(
        id="06.2",
        title="Messages while backward runs",
        difficulty=3,
        deadline_s=60.0,
        cases=cases_of(overlap),
    ),
    Exercise(
        id="06.3",
        title="Several backwards, one set of messages",
        difficulty=1,
        deadline_s=60.0,
        cases=cases_of(accumulation),
    ),
)
