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
        hints=(
            "Draw eight ranks as two blocks of two rows and two columns. Which ranks does rank 5 share a row with, a "
            "column, a place in the block?",
            "A coordinate is a digit: the last axis is the units, the axis before it counts how often the last one was "
            "used up. A group along an axis is known by the coordinates along all other axes.",
            "Go through all combinations of coordinates in order, the last one fastest; the number of the combination "
            "is the rank. Then, for each axis, leave that coordinate out of each rank's, and collect the ranks for "
            "which what is left is the same.",
        ),
    ),
    Exercise(
        id="14.2",
        title="The order of two reductions",
        difficulty=2,
        deadline_s=60.0,
        cases=cases_of(tied),
        hints=(
            "After a reduce-scatter, which places of a rank's buffer hold a sum, and what do the others hold?",
            "The two ends own different shares, so after the reduce-scatter one of them may hold the finished sum of "
            "the tied weight and the other only its own gradients. When do both hold gradients of the same kind?",
            "First let the two ends sum what they have of the tied weight, and only that part of the buffer. Then all "
            "gradients in the buffer are of one kind, and one reduce-scatter over dp finishes them, into this rank's "
            "share of the buffer itself.",
        ),
    ),
    Exercise(
        id="14.3",
        title="Count every number once",
        difficulty=2,
        cases=cases_of(norm),
        hints=(
            "Four ranks have the same gradient of a bias. How often does the sum of squares over all ranks count it?",
            "Within a stage, how many ranks have the same numbers of a gradient? Only the sizes of dp and tp matter, "
            "and of these only the axes that do not split it. What must happen to its squares before the ranks add "
            "up?",
            "On each rank add the squares, in a wide type, each divided by the number of ranks that have the same "
            "numbers: the sizes of dp and tp where they do not split it, times the stages that have a copy. Sum that "
            "one number over all ranks, and take the root at the end.",
        ),
    ),
    Exercise(
        id="14.4",
        title="A plan",
        difficulty=2,
        cases=cases_of(plan),
        hints=(
            "List all layouts of 12 ranks on paper. How many are there, and does your function try each of them?",
            "Three things rule a layout out: its product, a ValueError from price, too many bytes. Compare what is "
            "left by seconds alone.",
            "Go through dp and tp from 1 to the number of ranks and skip those whose product does not divide it; pp "
            "follows. Ask for the price once, and go on if it raises. Keep seconds and layout of all that fit, and "
            "take the smallest pair, or None if there is none.",
        ),
    ),
)
