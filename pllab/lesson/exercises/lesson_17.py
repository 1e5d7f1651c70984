"""The exercises of lesson 17: read a schedule, find the circle in an illegal one, and bubble golf."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_17_circle as circle
from pllab.lesson.exercises import lesson_17_golf as golf
from pllab.lesson.exercises import lesson_17_price as price

EXERCISES = (
    Exercise(
        id="17.1",
        title="The price tag of a schedule",
        difficulty=2,
        cases=cases_of(price),
        hints=(
            "Take the rows of 1F1B on two ranks with three micro-batches and a pencil. How many does rank 0 hold after"
            " each action? Which results leave a rank?",
            "Memory: go through one row and keep a running sum; what counts is its highest value. Messages: for each "
            "action, ask which results it needs, and which rank made each of them.",
            "In the running sum, an F adds one, a B takes one away, and an I and a W take half each. A result is a "
            "message if its stage and the stage of the action that needs it are on different ranks. The schedule knows"
            " the rank of each stage, which is not always the stage modulo the number of ranks.",
        ),
    ),
    Exercise(
        id="17.2",
        title="Find the circle",
        difficulty=3,
        cases=cases_of(circle),
        hints=(
            "Let every rank go on as far as it can. Where does each one stop, and what is it waiting for?",
            "A stuck action waits for one that has not run. That one waits too, or stands behind an action that does. "
            "Follow this from any stuck rank until you meet an action again.",
            "Walk from the head of a stuck row to one of its needs that has not run, and from there to the head of the"
            " row in which this need stands, unless it is that head itself. When you meet an action again, your walk "
            "from its first visit on is the circle; what came before is only the way in.",
        ),
        package=("pllab.schedule.problems",),
    ),
    Exercise(
        id="17.3",
        title="Bubble golf",
        difficulty=3,
        cases=cases_of(golf),
        hints=(
            "Split every backward. Play in the editor and look at the rank that waits: what does it wait for?",
            "An I that another rank waits for comes first, then an F that fits. A W goes where the rank would wait, or"
            " where you need the room. For the first round this is ZB-H1.",
            "With room for 6, rank 0 runs all four forwards at once, rank 1 three of them before its first I, and rank"
            " 2 one; then F and I take turns. Rank 2 leaves all its W's for the end, and the others put one into every"
            " wait.",
        ),
        package=("pllab.schedule.zero_bubble", "pllab.schedule.optimal"),
    ),
)
