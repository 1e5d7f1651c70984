"""The exercises of lesson 03: a broadcast down a tree, an all-reduce around a ring, and what a message costs."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_03_fit as fit
from pllab.lesson.exercises import lesson_03_ring as ring
from pllab.lesson.exercises import lesson_03_tree as tree

EXERCISES = (
    Exercise(
        id="03.1",
        title="Down the tree",
        difficulty=2,
        cases=cases_of(tree),
        hints=(
            "Write a table for five ranks and root 0: who has the numbers before each round, and to whom does each of "
            "them send?",
            "Before a round, the ranks below a power of two have the numbers. Each of them sends to the rank that "
            "lies that power above it. For another root, number the ranks from the root on.",
            "Number each rank from the root: its rank minus the root, modulo the world size. Let have be 1, 2, 4 and "
            "so on, as long as it is below the world size. In that round a number below have sends to its number plus "
            "have, if there is such a rank. A number from have up to twice have receives from its number minus have. "
            "Only the peers of send and receive must be turned back into ranks.",
        ),
        package=("pllab.comm.tree_broadcast", "pllab.comm.run_transfers"),
        deadline_s=120.0,
    ),
    Exercise(
        id="03.2",
        title="Around the ring",
        difficulty=3,
        cases=cases_of(ring),
        hints=(
            "Play three ranks with three chunks on paper. Which chunk does each rank send in round 1? Which one, with "
            "two summands in it, can it send in round 2?",
            "Write two loops of w - 1 rounds. In both, a rank sends in one round what it received in the round "
            "before. The first loop adds what comes, and the second one copies it. torch.tensor_split makes w chunks, "
            "even of few numbers, and a chunk of a flat tensor is a view of it.",
            "Count the rounds of the first loop by k, from 0. In round k, send the chunk number rank minus k, receive "
            "the one before it into a new tensor, both modulo w, and add what came. Then the chunk after the rank's "
            "own number is done: start the second loop with that one. Start the send, receive, wait for the send, as "
            "in exercise 02.1. All this goes to the next rank; the picture of the ring goes the other way, which "
            "works as well. Flattening a transpose makes a copy, so copy the sum back at the end.",
        ),
        package=("pllab.comm.ring_all_reduce", "pllab.comm.run_transfers"),
        deadline_s=120.0,
    ),
    Exercise(
        id="03.3",
        title="Alpha and beta",
        difficulty=2,
        cases=cases_of(fit),
        hints=(
            "Which of your measurements decide where the line goes: all of them, or the one with the largest time?",
            "Two steps: first one number for each entry of the two lists, its median; then a fit in which each error "
            "is divided by its time. A weighted fit does that; read whether its weights are squared.",
            "statistics.median gives the middle of an even number of rounds too. numpy.polyfit of degree 1 with the "
            "weights one over the median minimises the squares of the relative errors, and returns beta before alpha. "
            "Count the different sizes before, and refuse fewer than two.",
        ),
        package=("pllab.bench.message_costs.fit_cost",),
        lends=False,
    ),
)
