"""The exercises of lesson 09: tasks that remember, a cycle on workers, a whole batch, a cut graph, a whole step."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_09_compute as on_workers
from pllab.lesson.exercises import lesson_09_cut as two_graphs
from pllab.lesson.exercises import lesson_09_forward as whole_batch
from pllab.lesson.exercises import lesson_09_step as whole_step
from pllab.lesson.exercises import lesson_09_tasks as tasks

EXERCISES = (
    Exercise(
        id="09.1",
        title="Tasks that remember their pair",
        minutes=5,
        difficulty=1,
        cases=(tasks.one_per_pair, tasks.nothing_early, tasks.late_workers),
        hints=(
            "With late workers all tasks compute the same pair. Which pair is it?",
            "A function looks i and j up when it is called, not when it is made. Ask what they are by then.",
            "Give the task its values while the loop is at them: bind them with partial, as default arguments, or as "
            "the arguments of a function that returns the task.",
        ),
    ),
    Exercise(
        id="09.2",
        title="One clock cycle on the workers",
        minutes=10,
        difficulty=3,
        cases=(
            on_workers.results,
            on_workers.on_workers,
            on_workers.together,
            on_workers.exception,
            on_workers.after_exception,
        ),
        hints=(
            "A loop that waits for a result before it gives out the next task never has two stages at work.",
            "Two loops over the pairs of the cycle: the first gives out, the second takes back. Each task goes into "
            "the in-queue of its stage, and its answer comes out of that stage's out-queue, as a pair.",
            "In the second loop take every answer, also after a failure. Store a good one in its place, remember the "
            "first bad one, and raise its exception with its traceback only after the loop.",
        ),
        package=("pllab.pipeline.compute",),
        lends=False,
    ),
    Exercise(
        id="09.3",
        title="A whole batch through the pipe",
        minutes=7,
        difficulty=2,
        cases=(whole_batch.rows, whole_batch.ticks, whole_batch.outputs, whole_batch.gradients),
        hints=(
            "Three steps: cut the batch by rows, run the clock cycles, put the rows together in the old order.",
            "Of torch's two ways to cut, split takes the number of rows of a piece and chunk the number of pieces. "
            "The clock wants the number of micro-batches first.",
            "Make a list of the micro-batches. Call compute once for each cycle of the clock, with that same list, and "
            "join the list along its rows at the end.",
        ),
    ),
    Exercise(
        id="09.4",
        title="Cut the graph",
        minutes=6,
        difficulty=2,
        cases=(two_graphs.cut, two_graphs.gradients, two_graphs.number),
        hints=(
            "With one graph, the backward of the loss runs through both stages. Where must it end, so that the first "
            "stage's backward can be called somewhere else?",
            "Detaching a tensor gives its values without their history. Autograd keeps a gradient for such a tensor "
            "only if it is told that the tensor requires one.",
            "Give the second stage a detached copy that requires a gradient. The backward of the loss leaves its "
            "gradient there; start the first stage's backward from its own output with that gradient.",
        ),
    ),
    Exercise(
        id="09.5",
        title="Forward and backward on the workers",
        minutes=20,
        difficulty=3,
        cases=(
            whole_step.loss,
            whole_step.gradients,
            whole_step.threads,
            whole_step.together,
            whole_step.grad_mode,
            whole_step.shared_weight,
            whole_step.exceptions,
            whole_step.after_exception,
        ),
        hints=(
            "First make it right with one stage and one micro-batch, then with several. If the check says that "
            "backward ran on the caller's own thread, look for the line that calls it.",
            "Forward is exercise 09.2 in every cycle, with the cut of 09.4 inside the task; keep the stage's input and "
            "output of each pair. For backward the clock runs again, with the last stage first.",
            "The forward task of the last stage also computes the loss, and weighs it by its share of the rows. The "
            "backward task of a pair takes that pair's input and output, calls backward on the output with the "
            "gradient that the stage behind it left, and leaves the gradient of its own input for the stage before.",
        ),
    ),
)
