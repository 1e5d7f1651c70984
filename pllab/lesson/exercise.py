"""An exercise: a few named cases that a right solution passes; and the list of all exercises.

The wrong solutions it must refuse are in the tests, its statement and three hints in the notebook. Its cases are in a
file of `pllab.lesson.exercises`, which is imported when they are asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from pllab.arguments import require


class Wrong(Exception):
    """A case raises it for a wrong solution: the class of the bug, and a sentence that teaches.

    Example: `raise Wrong("late_binding", "All tasks computed the last pair.")`
    """

    def __init__(self, hint_id: str, sentence: str) -> None:
        super().__init__(hint_id, sentence)
        self.hint_id, self.sentence = hint_id, sentence


class Refused(BaseException):
    """The whole solution is refused, whatever it answers: it cannot be made, or called what the exercise asks for.

    Without a hint it was not attempted.
    """

    def __init__(self, hint_id: str = "", sentence: str = "") -> None:
        super().__init__(hint_id, sentence)
        self.hint_id, self.sentence = hint_id, sentence


class Undecided(BaseException):
    """The time ran out while other programs had the machine."""


Function = Callable[..., Any]
"""The learner's function, as its notebook declares it."""


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


@dataclass(frozen=True)
class Exercise:
    """An exercise of a lesson.

    `id` is "09.1", `difficulty` goes from 1 to 3, and `file` has the cases: "tasks" is `lesson_09_tasks.py`.
    `package` names the package's own version within `pllab`, such as "parallel.average_gradients": that is refused as
    a solution, and the first one is what lessons use as long as the learner has none, unless `lends` says that it is
    called in another way. `deadline_s` is how long all cases together may take; an exercise that starts ranks needs
    more than the default.
    """

    id: str
    title: str
    difficulty: int
    file: str
    package: tuple[str, ...] = ()
    lends: bool = True
    deadline_s: float = 20.0

    @property
    def lesson(self) -> str:
        """The number of its lesson, "09" of "09.1"."""
        return self.id.partition(".")[0]

    @property
    def module(self) -> str:
        """The name of the module of its file."""
        return f"pllab.lesson.exercises.lesson_{self.lesson}_{self.file}"

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that its file defines, in order; the file is imported when they are asked for."""
        return tuple(each for each in vars(import_module(self.module)).values() if isinstance(each, Case))

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of the cases, in order."""
        return tuple(case.claim for case in self.cases)


EXERCISES = (
    Exercise("00.1", "My share of the work", 1, "share", ("data.DataPartitioner",), lends=False),
    Exercise("01.1", "A rate over uneven batches", 1, "rate"),
    Exercise("01.2", "A clock for any device", 2, "timed", ("bench.compare",), lends=False),
    Exercise("01.3", "Which limit bounds it", 2, "limit", ("bench.roofline.bound_of",)),
    Exercise("02.1", "Pass it on", 2, "ring", ("comm.ring_pass",), deadline_s=120.0),
    Exercise("02.2", "Enter with a deadline", 1, "enter", ("comm.setup",), lends=False, deadline_s=120.0),
    Exercise("02.3", "Groups inside the world", 2, "subgroups", ("comm.make_groups",), deadline_s=120.0),
    Exercise("03.1", "Down the tree", 2, "tree", ("comm.tree_broadcast", "comm.run_transfers"), deadline_s=120.0),
    Exercise("03.2", "Around the ring", 3, "ring", ("comm.ring_all_reduce", "comm.run_transfers"), deadline_s=120.0),
    Exercise("03.3", "Alpha and beta", 2, "fit", ("bench.message_costs.fit_cost",), lends=False),
    Exercise("04.1", "Shares that lose nothing", 2, "shares", ("data.DataPartitioner",)),
    Exercise("04.2", "Loaders in step, epoch after epoch", 3, "loader", ("data.partition_dataset",), deadline_s=60.0),
    Exercise(
        "05.1",
        "The same start",
        1,
        "start",
        ("parallel.broadcast_parameters", "parallel.DataParallel"),
        deadline_s=60.0,
    ),
    Exercise("05.2", "The same gradient", 1, "average", ("parallel.average_gradients",), deadline_s=60.0),
    Exercise("05.3", "The same weight for every target", 3, "tokens", ("parallel.token_weighted",), deadline_s=60.0),
    Exercise("05.4", "Your own training", 3, "train", ("train.train_data_parallel",), deadline_s=90.0),
    Exercise("06.1", "One flat message", 2, "flat", deadline_s=60.0),
    Exercise("06.2", "Messages while backward runs", 3, "overlap", deadline_s=60.0),
    Exercise("06.3", "Several backwards, one set of messages", 1, "accumulate", deadline_s=60.0),
    Exercise("07.1", "Cut where the device changes", 1, "split", ("pipeline.split_module",)),
    Exercise("07.2", "The cut that balances", 3, "balance", ("pipeline.balance",)),
    Exercise("07.3", "One weight on two stages", 1, "tied", ("pipeline.tie_gradients",)),
    Exercise("08.1", "Clock cycles", 2, "clock", ("pipeline.clock_cycles",)),
    Exercise("08.2", "One bubble, two numbers", 1, "bubble"),
    Exercise("08.3", "How many micro-batches are enough", 2, "enough"),
    Exercise("09.1", "Tasks that remember their pair", 1, "tasks"),
    Exercise("09.2", "One clock cycle on the workers", 2, "compute", ("pipeline.compute",), lends=False),
    Exercise("09.3", "A whole batch through the pipe", 2, "forward"),
    Exercise("09.4", "Cut the graph", 1, "cut"),
    Exercise("09.5", "Forward and backward on the workers", 3, "step"),
    Exercise("10.1", "One forward, one backward", 2, "order", ("schedule.one_f_one_b",)),
    Exercise("10.2", "Let go of what is not needed", 2, "free"),
    Exercise("10.3", "A stage that keeps only its input", 3, "checkpoint"),
    Exercise("11.1", "A backward in halves", 2, "halves"),
    Exercise("11.2", "Interleaved rows", 3, "interleaved", ("schedule.interleaved",)),
    Exercise("11.3", "W fills the hole", 3, "late", ("schedule.zb_h1", "schedule.zero_bubble", "schedule.optimal")),
    Exercise("12.1", "Columns, then rows", 2, "mlp", deadline_s=120.0),
    Exercise(
        "12.2",
        "The conjugate pair",
        2,
        "pair",
        ("parallel.tensor.copy_in", "parallel.tensor.reduce_out"),
        deadline_s=120.0,
    ),
    Exercise("12.3", "The heads of a rank", 2, "heads"),
    Exercise(
        "12.4", "The loss on split words", 3, "loss", ("parallel.vocab_parallel_cross_entropy",), deadline_s=120.0
    ),
    Exercise("13.1", "An optimizer in parts", 2, "adam", deadline_s=120.0),
    Exercise("13.2", "A sum in parts", 2, "scatter", deadline_s=120.0),
    Exercise("13.3", "Gather, use, free", 3, "units", deadline_s=120.0),
    Exercise("13.4", "A checkpoint of all parts", 2, "gather", deadline_s=120.0),
    Exercise("14.1", "Coordinates and groups", 2, "arrange"),
    Exercise("14.2", "The order of two reductions", 2, "tied", deadline_s=60.0),
    Exercise("14.3", "Count every number once", 2, "norm"),
    Exercise("14.4", "A plan", 2, "plan"),
    Exercise("15.1", "Where the ranks part", 1, "parting", ("autopsy.diagnose",)),
    Exercise("15.2", "Who waits for whom", 2, "waits", ("autopsy.wait_for_graph", "autopsy.diagnose")),
    Exercise("15.3", "The diagnosis", 3, "causes", ("autopsy.diagnose",)),
    Exercise("16.1", "A speed-up you can defend", 2, "speedup", ("bench.measure.speedup",)),
    Exercise(
        "16.2",
        "Name the winner, or nobody",
        2,
        "winner",
        ("bench.measure.check_same_losses", "bench.racing.RaceResult"),
        lends=False,
    ),
    Exercise("17.1", "The price tag of a schedule", 1, "price"),
    Exercise("17.2", "Find the circle", 3, "circle", ("schedule.problems",)),
    Exercise("17.3", "Bubble golf", 3, "golf", ("schedule.zero_bubble", "schedule.optimal")),
)


def find(exercise_id: str) -> Exercise:
    """Look an exercise up: `find("09.1")`.

    Raises:
        ValueError: there is no such exercise.
    """
    lesson = str(exercise_id).partition(".")[0]
    exercises = {exercise.id: exercise for exercise in exercises_of(lesson)}
    names = ", ".join(exercises) or "none"
    require(exercise_id in exercises, f"there is no exercise {exercise_id!r}; lesson {lesson!r} has {names}")
    return exercises[exercise_id]


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """All exercises of a lesson, in order: `exercises_of("09")`; empty when it has none."""
    return tuple(exercise for exercise in EXERCISES if exercise.lesson == lesson)
