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
    ),
    Exercise(
        id="09.2",
        title="One clock cycle on the workers",
        difficulty=3,
        cases=cases_of(on_workers),
        package=("pllab.pipeline.compute",),
        lends=False,
    ),
    Exercise(
        id="09.3",
        title="A whole batch through the pipe",
        difficulty=2,
        cases=cases_of(whole_batch),
    ),
    Exercise(
        id="09.4",
        title="Cut the graph",
        difficulty=2,
        cases=cases_of(two_graphs),
    ),
    Exercise(
        id="09.5",
        title="Forward and backward on the workers",
        difficulty=3,
        cases=cases_of(whole_step),
    ),
)
