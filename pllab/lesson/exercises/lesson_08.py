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
            "Draw the grid of the lesson for 3 micro-batches and 2 stages, and write the pairs of each column down.",
            "In which tick is micro-batch i on stage j? Turn that around: in tick k, stage j works on one micro-batch, "
            "if it exists.",
            "for k in range(m + p - 1): the pairs are (k - j, j) for every stage j with 0 <= k - j < m.",
        ),
    ),
    Exercise(
        id="08.2",
        title="The bubble fraction",
        minutes=5,
        difficulty=1,
        cases=(bubble.fraction_everywhere, bubble.no_bubble),
        hints=(
            "Take one row of the grid: in how many ticks does this stage work, and in how many is it idle?",
            "Every stage works in m ticks of m + p - 1. The rest is idle, and every row has the same rest.",
            "Idle are p - 1 ticks. Divide by all ticks, m + p - 1.",
        ),
    ),
    Exercise(
        id="08.3",
        title="The bubble overhead",
        minutes=4,
        difficulty=1,
        cases=(bubble.overhead_everywhere, bubble.no_bubble),
        hints=(
            "The idle time is the one of 08.2. Only what it is divided by changes.",
            "How many ticks does a stage work? That is the time an ideal pipeline would take.",
            "Idle are p - 1 ticks. Divide by the busy ones, m.",
        ),
    ),
    Exercise(
        id="08.4",
        title="How many micro-batches are enough",
        minutes=8,
        difficulty=2,
        cases=(bubble.enough, bubble.no_more_than_enough, bubble.one_stage_needs_one),
        hints=(
            "Try it by hand for 3 stages and a fraction of 0.5: what is the fraction for m = 1, 2, 3?",
            "The fraction falls when m grows. Start at m = 1 and go up until it is small enough.",
            "m = 1; while (p - 1) / (m + p - 1) > fraction: m += 1. Or solve for m, round up, and take at least 1.",
        ),
    ),
)
