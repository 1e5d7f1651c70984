"""The exercises of lesson 09: tasks that remember, a clock cycle on workers, a whole batch, a clean end."""

from pllab.lesson.exercise import Exercise
from pllab.lesson.exercises import lesson_09_compute as on_workers
from pllab.lesson.exercises import lesson_09_forward as whole_batch
from pllab.lesson.exercises import lesson_09_shutdown as ending
from pllab.lesson.exercises import lesson_09_tasks as tasks

EXERCISES = (
    Exercise(
        id="09.1",
        title="Tasks that remember their pair",
        minutes=8,
        difficulty=1,
        cases=(tasks.one_per_pair, tasks.nothing_early, tasks.late_workers),
        hints=(
            "With late workers all tasks compute the same pair. Which pair is it?",
            "A lambda looks its variables up when it is called, not when it is made. Ask what `i` and `j` are by then.",
            "Bind the values while the loop is at them: functools.partial(work, i, j), a default argument "
            "`lambda i=i, j=j: ...`, or a function that takes (i, j) and returns the task.",
        ),
    ),
    Exercise(
        id="09.2",
        title="One clock cycle on the workers",
        minutes=15,
        difficulty=3,
        cases=(
            on_workers.results,
            on_workers.on_workers,
            on_workers.together,
            on_workers.exception,
            on_workers.after_exception,
        ),
        hints=(
            "Two loops, not one: a loop that waits for a result before it gives out the next task never has two stages "
            "at work.",
            "First loop: put a Task in in_queues[j] for each pair (i, j). Second loop: out_queues[j].get() gives "
            "(True, result) or (False, exc_info).",
            "In the second loop take every result, also after a failure: batches[i] = result, or remember the first "
            "exc_info. After the loop: raise exc_info[1].with_traceback(exc_info[2]).",
        ),
    ),
    Exercise(
        id="09.3",
        title="A whole batch through the pipe",
        minutes=12,
        difficulty=2,
        cases=(whole_batch.rows, whole_batch.ticks, whole_batch.outputs, whole_batch.gradients),
        hints=(
            "Three steps: cut the batch by rows, run the clock cycles, put the rows together in the old order.",
            "x.split(n) makes pieces of n rows, x.chunk(n) makes n pieces. clock_cycles(m, p) wants the number of "
            "micro-batches first.",
            "batches = list(x.split(split_size)); for schedule in clock_cycles(len(batches), len(partitions)): "
            "compute(batches, schedule); and then torch.cat(batches).",
        ),
    ),
    Exercise(
        id="09.4",
        title="Leave no thread behind",
        minutes=6,
        difficulty=1,
        cases=(ending.all_ended, ending.work_done, ending.twice),
        hints=(
            "A worker sits in in_queue.get(); nobody tells it that the lesson is over.",
            "This worker ends when it takes None from its queue. Ending takes a moment: wait for the thread.",
            "for queue in in_queues: queue.put(None); and then, in a second loop, thread.join() for every thread.",
        ),
    ),
)
