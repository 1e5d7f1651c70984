"""The exercises of lesson 09: tasks that remember, a cycle on workers, a whole batch, a cut graph, a whole step."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_09_compute as on_workers
from pllab.lesson.exercises import lesson_09_cut as two_graphs
from pllab.lesson.exercises import lesson_09_forward as whole_batch
from pllab.lesson.exercises import lesson_09_step as whole_step
from pllab.lesson.exercises import lesson_09_tasks as tasks

EXERCISES = (
    Exercise(
        id="09.1",
        title="Tasks that remember their pair",
        difficulty=1,
        cases=cases_of(tasks),
        hints=(
            "When the workers run late, all tasks compute the same pair. Which pair is it?",
            "A function looks i and j up when you call it, not when you make it. What are they by then?",
            "Give each task its values inside the loop: bind them with partial or as default arguments, or pass them "
            "to a function that returns the task.",
        ),
    ),
    Exercise(
        id="09.2",
        title="One clock cycle on the workers",
        difficulty=3,
        cases=cases_of(on_workers),
        hints=(
            "If your loop waits for a result before it gives out the next task, two stages never work at the same "
            "time.",
            "Write two loops over the pairs of the cycle: the first gives tasks out, the second takes answers back. "
            "Each task goes into the in-queue of its stage; its answer, a pair, comes out of that stage's out-queue.",
            "In the second loop take every answer, even after a failure. Store a good result in its place and "
            "remember the first bad one; raise its exception, with its traceback, after the loop.",
        ),
        package=("pllab.pipeline.compute",),
        lends=False,
    ),
    Exercise(
        id="09.3",
        title="A whole batch through the pipe",
        difficulty=2,
        cases=cases_of(whole_batch),
        hints=(
            "Take three steps: cut the batch by rows, run the clock cycles, and join the rows in their old order.",
            "Torch has two ways to cut: split takes the number of rows in a piece, chunk the number of pieces. The "
            "clock takes the number of micro-batches first.",
            "Make a list of the micro-batches. Call compute once for each cycle of the clock, always with that list, "
            "and join it along the rows at the end.",
        ),
    ),
    Exercise(
        id="09.4",
        title="Cut the graph",
        difficulty=2,
        cases=cases_of(two_graphs),
        hints=(
            "With one graph, backward of the loss runs through both stages. Where must it stop, so that you can call "
            "the first stage's backward somewhere else?",
            "A detached tensor has the values without their history. Autograd keeps a gradient for it only if you say "
            "that it requires one.",
            "Give the second stage a detached copy that requires a gradient. Backward of the loss leaves its gradient "
            "there; use it to start the first stage's backward from that stage's own output.",
        ),
    ),
    Exercise(
        id="09.5",
        title="Forward and backward on the workers",
        difficulty=3,
        cases=cases_of(whole_step),
        hints=(
            "Make it right with one stage and one micro-batch first, then with several. If the check says that "
            "backward ran on the caller's own thread, look for the line that calls it.",
            "Forward is exercise 09.2 in every cycle, with the cut of 09.4 inside the task; keep the input and the "
            "output of each pair. For backward run the clock again, starting from the last stage.",
            "The forward task of the last stage also computes the loss, and weighs it by its share of the rows. The "
            "backward task of a pair calls backward on that pair's output with the gradient that the stage behind it "
            "left, and leaves the gradient of the pair's input for the stage before.",
        ),
    ),
)
