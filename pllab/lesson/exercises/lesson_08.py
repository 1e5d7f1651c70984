"""The exercises of lesson 08: the clock, its bubble in two numbers, and how many micro-batches are enough."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_08_bubble as bubble
from pllab.lesson.exercises import lesson_08_clock as clock

EXERCISES = (
    Exercise(
        id="08.1",
        title="Clock cycles",
        difficulty=2,
        cases=clock.CASES,
        package=("pllab.pipeline.clock_cycles",),
    ),
    Exercise(
        id="08.2",
        title="One bubble, two numbers",
        difficulty=1,
        cases=(bubble.fraction_everywhere, bubble.overhead_everywhere, bubble.no_bubble),
    ),
    Exercise(
        id="08.3",
        title="How many micro-batches are enough",
        difficulty=2,
        cases=(bubble.fewest_that_are_enough, bubble.one_is_enough),
    ),
)
