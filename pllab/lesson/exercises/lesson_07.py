"""The exercises of lesson 07: cut where the device changes, cut where it balances, tie what the cut has torn."""

from pllab.lesson.exercise import Exercise, cases_of
from pllab.lesson.exercises import lesson_07_balance as balancing
from pllab.lesson.exercises import lesson_07_split as splitting
from pllab.lesson.exercises import lesson_07_tied as tied

EXERCISES = (
    Exercise(
        id="07.1",
        title="Cut where the device changes",
        difficulty=1,
        cases=cases_of(splitting),
        package=("pllab.pipeline.split_module",),
    ),
    Exercise(
        id="07.2",
        title="The cut that balances",
        difficulty=3,
        cases=cases_of(balancing),
        package=("pllab.pipeline.balance",),
    ),
    Exercise(
        id="07.3",
        title="One weight on two stages",
        difficulty=2,
        cases=cases_of(tied),
        package=("pllab.pipeline.tie_gradients",),
    ),
)
