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
        hints=(
            "Draw the grid for 3 micro-batches and 2 stages, one column for each tick, and write down the pairs in "
            "each column. Which pairs does your function leave out, or give too early?",
            "In which tick is micro-batch i on stage j? Turn that around: on which micro-batch does stage j work in "
            "tick k? At the start and at the end there may be no such micro-batch.",
            "Loop over the m + p - 1 ticks, and in tick k over the stages: stage j works on micro-batch k minus j, if "
            "that number is between 0 and m - 1.",
        ),
        package=("pllab.pipeline.clock_cycles",),
    ),
    Exercise(
        id="08.2",
        title="One bubble, two numbers",
        difficulty=1,
        cases=(bubble.fraction_everywhere, bubble.overhead_everywhere, bubble.no_bubble),
        hints=(
            "Take one row of the grid: in how many ticks does this stage work, and in how many is it idle?",
            "Every stage works in m of the m + p - 1 ticks and is idle in the others. All rows are alike in this, so "
            "one row gives you both numbers.",
            "A stage is idle in p - 1 ticks. The fraction divides them by all ticks of the row, the overhead by the "
            "ticks in which the stage works.",
        ),
    ),
    Exercise(
        id="08.3",
        title="How many micro-batches are enough",
        difficulty=2,
        cases=(bubble.fewest_that_are_enough, bubble.one_is_enough),
        hints=(
            "Work it out by hand for 3 stages: what is the bubble fraction with 1, 2 and 3 micro-batches?",
            "The fraction falls as m grows, so the first number of micro-batches that is enough is the smallest.",
            "Start at 1 and go up until the fraction is small enough. Or solve the formula for m, round up, and "
            "return at least 1.",
        ),
    ),
)
