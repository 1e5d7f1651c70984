"""An exercise: a few named cases that a right solution passes.

The wrong solutions it must refuse are in the tests, its statement and three hints in the notebook. This file knows no
lesson; the exercises are in `pllab.lesson.exercises`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol


class Wrong(Exception):
    """A case raises it for a wrong solution: the class of the bug, and a sentence that teaches.

    Example: `raise Wrong("late_binding", "All tasks computed the last pair.")`
    """

    def __init__(self, hint_id: str, sentence: str) -> None:
        super().__init__(hint_id, sentence)
        self.hint_id = hint_id
        self.sentence = sentence


class Undecided(BaseException):
    """The time ran out while other programs had the machine."""


class Asked(Protocol):
    """The learner's function, as a case sees it: a call is a question to another process."""

    folder: Path
    """A folder in which both processes may write."""

    kept: dict[Any, Any]
    """What the cases of an exercise share, such as one run on ranks; it ends with the check."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it there; raises what it raised."""

    def inside(self, program: Callable[..., Any], *args: Any) -> Any:
        """What `program(function, *args)` returns there: data about what cannot be sent."""

    def on_ranks(self, program: Callable[..., Any], world_size: int, *args: Any, **options: Any) -> list[Any]:
        """What `program(rank, world_size, function, *args)` returns on each rank of a world."""


def once_a_check(run: Callable[..., Any]) -> Callable[..., Any]:
    """Let `run(program, solution, *rest)` run once for all cases of a check that ask for the same.

    Its result is stored on the solution, and ends with it.
    """

    @wraps(run)
    def remembered(program: Callable[..., Any], solution: Asked, *rest: Any) -> Any:
        if (run, program, rest) not in solution.kept:
            solution.kept[run, program, rest] = run(program, solution, *rest)
        return solution.kept[run, program, rest]

    return remembered


@once_a_check
def inside_once(program: Callable[..., Any], solution: Asked, *args: Any) -> Any:
    """`solution.inside(program, *args)`, asked once for all cases of a check."""
    return solution.inside(program, *args)


@dataclass(frozen=True)
class Case:
    """One thing a solution must do: the claim as a student reads it, and the test that raises `Wrong`.

    on_hang: the hint for a solution that never comes back in this case, for example `("hang", "It waits for
    ...")`.
    """

    claim: str
    test: Callable[[Any], None]
    on_hang: tuple[str, str] | None = None


def case(claim: str, *, on_hang: tuple[str, str] | None = None) -> Callable[[Callable[[Any], None]], Case]:
    """Turn a test function into a case, so that its claim is written once, above it.

    Example:
        @case("no item is done twice")
        def nothing_twice(my_share): ...   # nothing_twice is a Case
    """
    return lambda test: Case(claim, test, on_hang)


def cases_of(module: ModuleType) -> tuple[Case, ...]:
    """The cases that a file defines, in their order in the file."""
    return tuple(each for each in vars(module).values() if isinstance(each, Case))


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """An exercise of a lesson.

    `id` is "09.1", `difficulty` goes from 1 to 3.
    `package` names the package's own version, such as "pllab.parallel.average_gradients": that is refused as a
    solution, and the first one is what lessons use as long as the learner has none, unless `lends` says that it is
    called in another way. `deadline_s` is how long all cases together may take; an exercise that starts ranks needs
    more than the default.
    """

    id: str
    title: str
    difficulty: int
    cases: tuple[Case, ...]
    package: tuple[str, ...] = ()
    lends: bool = True
    deadline_s: float = 20.0

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of the cases, in order."""
        return tuple(case.claim for case in self.cases)


def find(exercise_id: str) -> Exercise:
    """Look an exercise up: `find("09.1")`; only the file of that lesson is imported.

    Raises:
        ValueError: there is no such exercise.
    """
    lesson = exercise_id.partition(".")[0]
    exercises = {exercise.id: exercise for exercise in exercises_of(lesson)}
    if exercise_id not in exercises:
        names = ", ".join(exercises) or "none"
        raise ValueError(f"there is no exercise {exercise_id!r}; lesson {lesson!r} has {names}")
    return exercises[exercise_id]


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """All exercises of a lesson, in order: `exercises_of("09")`; empty when it has none."""
    if not (lesson.isdecimal() and lesson.isascii()):
        return ()
    name = f"pllab.lesson.exercises.lesson_{lesson}"
    try:
        exercises: tuple[Exercise, ...] = import_module(name).EXERCISES
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return ()
    return exercises
