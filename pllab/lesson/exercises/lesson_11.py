"""The exercises of lesson 11: interleaved rows and their price, a backward in halves, bubble golf, and the circle."""

from pllab.lesson.exercise import Case, Exercise
from pllab.lesson.exercises import lesson_11_circle as circle
from pllab.lesson.exercises import lesson_11_golf as golf
from pllab.lesson.exercises import lesson_11_halves as halves
from pllab.lesson.exercises import lesson_11_interleaved as interleaved
from pllab.lesson.exercises import lesson_11_price as price

EXERCISES = (
    Exercise(
        id="11.1",
        title="Interleaved rows",
        minutes=15,
        difficulty=3,
        cases=(
            Case("there is a row of actions for every rank", interleaved.rows_of_actions),
            Case("rank r has the stages r, p + r, 2p + r, ...", interleaved.places),
            Case("every stage runs every micro-batch forward and back, once", interleaved.complete),
            Case("a rank's backwards begin with its last stage", interleaved.chunks_in_reverse),
            Case("no ranks wait for each other in a circle", interleaved.no_circle),
            Case("the bubble overhead is (p - 1) / (v m), simulated", interleaved.short_bubble),
            Case("no rank holds more than (v + 1) p - 1 micro-batches of a stage", interleaved.little_memory),
        ),
        hints=(
            "Write the forwards of one rank down, in order, for p = 2, m = 4, v = 2. Which stage has the third one?",
            "A rank takes p micro-batches through its first stage, the same p through its next one, and so on; then "
            "the next p. Its backwards go the same way with the stages from the last to the first.",
            "Lists F and B of one rank in that order, and w = 2 (p - r - 1) + (v - 1) p forwards to warm up (at most "
            "all): the row is F[:w], then F and B in turn while there are F's, then the B's that are left.",
        ),
    ),
    Exercise(
        id="11.2",
        title="What interleaving costs",
        minutes=5,
        difficulty=1,
        cases=(
            Case("the bubble overhead is the one simulated on seven schedules", price.right_overhead),
            Case("the messages are those counted on seven schedules, and none for one rank", price.right_messages),
        ),
        hints=(
            "Overhead: how long is a tick when a stage is 1/v of what it was? Messages: how many boundaries are there?",
            "A rank idles p - 1 ticks of 1/v each, and works m. Between v p stages there are v p - 1 boundaries.",
            "(p - 1) / (v m), and 2 m (v p - 1): activation and gradient of every micro-batch at every boundary. One "
            "rank sends nothing.",
        ),
    ),
    Exercise(
        id="11.3",
        title="A backward in halves",
        minutes=10,
        difficulty=2,
        cases=(
            Case("it returns the gradient of the input and a function", halves.two_halves),
            Case("the gradient of the input is autograd's, for one layer and for chains", halves.right_input),
            Case("the first half computes no gradient of a weight", halves.input_first),
            Case("the gradients of the weights are autograd's, in order", halves.right_weights),
            Case("nothing is computed twice (matrix products are counted)", halves.nothing_twice),
            Case("the second halves of two micro-batches may come in any order", halves.in_any_order),
        ),
        hints=(
            "One layer first: y = x @ weight.T. Which of the two products of its backward does the layer before it "
            "wait for?",
            "Go from the last layer to the first with grad = grad @ weight. A weight needs the gradient that arrived "
            "at its layer: keep those in a list.",
            "arrived = [grad] at the end; in front of it, for each layer from the last to the second, what came out of "
            "it. Return the gradient of the first input and lambda: [g.T @ x for g, x in zip(arrived, inputs)].",
        ),
    ),
    Exercise(
        id="11.4",
        title="Bubble golf",
        minutes=12,
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
    ),
    Exercise(
        id="11.5",
        title="Find the circle",
        minutes=10,
        difficulty=3,
        cases=(
            Case("two ranks that wait for each other", circle.two_ranks, circle.ENDLESS),
            Case("an action that waits for one behind it in its own row", circle.own_row, circle.ENDLESS),
            Case("an empty list for a schedule that is legal", circle.legal, circle.ENDLESS),
            Case("schedules with a few actions in the wrong place", circle.long_ones, circle.ENDLESS),
            Case("rows in any order", circle.random_ones, circle.ENDLESS),
        ),
        hints=(
            "Let every rank go on as far as it can. Where does each one stop, and what is it waiting for?",
            "A stuck action waits for one that has not run. That one waits too, or stands behind an action that does. "
            "Follow this from any stuck rank until an action comes again.",
            "Walk: from the head of a stuck row to a need that has not run, from there to the head of the row where it "
            "stands, unless it is the head itself. When an action comes again, the list from its first visit on is the "
            "circle.",
        ),
    ),
)
