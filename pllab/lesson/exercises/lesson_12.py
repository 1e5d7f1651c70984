"""The exercises of lesson 12: a split MLP, the two steps around it, the heads of a rank, the loss on split words."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_12_heads as heads
from pllab.lesson.exercises import lesson_12_loss as loss
from pllab.lesson.exercises import lesson_12_mlp as mlp
from pllab.lesson.exercises import lesson_12_pair as pair

EXERCISES = (
    Exercise(
        id="12.1",
        title="Columns, then rows",
        difficulty=2,
        deadline_s=120.0,
        cases=cases_of(mlp),
    ),
    Exercise(
        id="12.2",
        title="The conjugate pair",
        difficulty=2,
        deadline_s=120.0,
        cases=cases_of(pair),
        package=("pllab.parallel.tensor.copy_in", "pllab.parallel.tensor.reduce_out"),
    ),
    Exercise(
        id="12.3",
        title="The heads of a rank",
        difficulty=2,
        cases=cases_of(heads),
    ),
    Exercise(
        id="12.4",
        title="The loss on split words",
        difficulty=3,
        deadline_s=120.0,
        cases=cases_of(loss),
        package=("pllab.parallel.vocab_parallel_cross_entropy",),
    ),
)
