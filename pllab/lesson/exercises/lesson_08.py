"""The exercises of lesson 08: the clock, its bubble in two numbers, and how many micro-batches are enough."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_08_bubble as bubble
from pllab.lesson.exercises import lesson_08_clock as clock

EXERCISES = (
    Exercise(
        id="08.1",
        title="Clock cycles",
        minutes=10,
        difficulty=2,
        cases=(*clock.RULES, clock.fewer_than_stages, clock.one_stage),
        hints=(
            "Draw the grid for 3 micro-batches and 2 stages, one column for each tick, and write the pairs of each "
            "column down. Which pairs does your function leave out, or give too early?",
            "In which tick is micro-batch i on stage j? Turn that around: in tick k, on which micro-batch does stage j "
            "work? At the start and at the end such a micro-batch may not exist.",
            "Go through the m + p - 1 ticks. In tick k go through the stages: stage j works on micro-batch k minus j, "
            "and only if that number is one of 0 to m - 1.",
        ),
        package=("pllab.pipeline.clock_cycles",),
    ),
    Exercise(
        id="08.2",
        title="One bubble, two numbers",
        minutes=6,
        difficulty=1,
        cases=(bubble.fraction_everywhere, bubble.overhead_everywhere, bubble.no_bubble),
        hints=(
            "Take one row of the grid: in how many ticks does this stage work, and in how many is it idle?",
            "Every stage works in m ticks of m + p - 1. The rest is idle, and every row has the same rest, so one row "
            "is enough for both numbers.",
            "Idle are p - 1 ticks. The fraction divides them by all ticks of the row, the overhead by those in which "
            "the stage works.",
        ),
    ),
    Exercise(
        id="08.3",
        title="How many micro-batches are enough",
        minutes=7,
        difficulty=2,
        cases=(bubble.fewest_that_are_enough, bubble.one_is_enough),
        hints=(
            "Try it by hand for 3 stages and a fraction of 0.5: what is it with 1, 2 and 3 micro-batches?",
            "The fraction falls when m grows. So the first number of micro-batches that is enough is the smallest one.",
            "Start at 1 and go up until the fraction is small enough. Or solve the formula for m, round up, and give "
            "at least 1.",
        ),
    ),
)
