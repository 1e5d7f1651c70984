"""The exercises of lesson 17: read a schedule, find the circle in an illegal one, and bubble golf."""

from pllab.lesson.exercise import Case, Exercise
from pllab.lesson.exercises import lesson_17_circle as circle
from pllab.lesson.exercises import lesson_17_golf as golf
from pllab.lesson.exercises import lesson_17_price as price

EXERCISES = (
    Exercise(
        id="17.1",
        title="The price tag of a schedule",
        minutes=10,
        difficulty=2,
        cases=(
            Case("it returns one number for each rank, and a number of messages", price.right_form),
            Case("each rank holds what the rows say, for whole and for split backwards", price.right_memory),
            Case("the messages are those between ranks, wherever the stages lie", price.right_messages),
        ),
        hints=(
            "Take the rows of 1F1B on two ranks with three micro-batches and a pencil. How many does rank 0 hold after "
            "each action? Which results leave a rank?",
            "Memory: go through one row and keep a running sum; what counts is its highest value. Messages: for each "
            "action, ask which results it needs, and on which rank each of them was made.",
            "In the running sum an F adds one, a B takes one away, and an I and a W take away a half each. A need is a "
            "message if the rank that has the stage of the action is another than the rank that has the stage of what "
            "it needs; the schedule knows the rank of each stage, which is not always the stage modulo the number of "
            "ranks.",
        ),
    ),
    Exercise(
        id="17.2",
        title="Find the circle",
        minutes=10,
        difficulty=3,
        cases=(
            Case("two ranks that wait for each other", circle.two_ranks, circle.ENDLESS),
            Case("an action that waits for one behind it in its own row", circle.own_row, circle.ENDLESS),
            Case("an empty list for a schedule that is legal", circle.legal, circle.ENDLESS),
            Case("schedules with a few actions in the wrong place", circle.long_ones, circle.ENDLESS),
            Case("rows in any order, and stages on any rank", circle.random_ones, circle.ENDLESS),
        ),
        hints=(
            "Let every rank go on as far as it can. Where does each one stop, and what is it waiting for?",
            "A stuck action waits for one that has not run. That one waits too, or stands behind an action that does. "
            "Follow this from any stuck rank until an action comes again.",
            "Walk from the head of a stuck row to a need of it that has not run, and from there to the head of the row "
            "in which this need stands, unless it is the head itself. When an action comes again, the walk from its "
            "first visit on is the circle; what came before is only the way in.",
        ),
        package=("pllab.schedule.problems",),
    ),
    Exercise(
        id="17.3",
        title="Bubble golf",
        minutes=15,
        difficulty=3,
        cases=(
            Case("the rows are those of three ranks and four micro-batches", golf.right_size),
            Case("every action comes once, and no W is left out", golf.complete),
            Case("no W comes before its I, and no ranks wait in a circle", golf.can_run),
            Case("no rank holds more than the limit, after any action", golf.fits),
            Case("par with room for p = 3 micro-batches (simulated)", golf.par_with_p),
            Case("par with room for 2p = 6 (simulated)", golf.par_with_2p),
        ),
        hints=(
            "Split every backward. Play in the editor, and look at the rank that waits: what does it wait for?",
            "An I that another rank waits for comes first, an F that fits comes next, and a W goes where the rank "
            "would wait, or where room is needed. For the first round this is ZB-H1.",
            "With room for 6, rank 0 runs all four forwards at once, rank 1 three of them before its first I, rank 2 "
            "one; then F and I in turn. Rank 2 leaves all its W's for the end, and the others put one into every wait.",
        ),
        package=("pllab.schedule.zero_bubble", "pllab.schedule.optimal"),
    ),
)
