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
        package=("pllab.comm.tree_broadcast", "pllab.comm.run_transfers"),
        deadline_s=120.0,
    ),
    Exercise(
        id="03.2",
        title="Around the ring",
        difficulty=3,
        cases=cases_of(ring),
        package=("pllab.comm.ring_all_reduce", "pllab.comm.run_transfers"),
        deadline_s=120.0,
    ),
    Exercise(
        id="03.3",
        title="Alpha and beta",
        difficulty=2,
        cases=cases_of(fit),
        package=("pllab.bench.message_costs.fit_cost",),
        lends=False,
    ),
)
