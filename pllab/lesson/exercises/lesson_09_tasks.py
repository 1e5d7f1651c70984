"""The cases of exercise 09.1: `make_tasks(batches, schedule, partitions)` returns one task per pair."""

from functools import partial
from random import Random

from pllab.lesson.exercise import Asked, Function, Wrong, case
from pllab.lesson.mistakes import Mistake, compare

Schedule = list[tuple[int, int]]

# Cycles of a clock, sorted by stage or not, with one pair, with many, with none.
_CHANCE = Random(9)
_SCHEDULES: list[Schedule] = [[(3, 0), (2, 1), (1, 2)], [(0, 1), (1, 0)], [(4, 0)], []]
_SCHEDULES += [[(7 - j, j) for j in _CHANCE.sample(range(7), size)] for size in (4, 6)]


def _results(schedule: Schedule) -> list[str]:
    return [f"stage{j}(batch{i})" for i, j in schedule]


def _late_bindings(schedule: Schedule) -> list[list[str]]:
    """What late workers compute if the tasks look up i, j or both when they run."""
    last_i, last_j = schedule[-1]
    pairs = [(last_i, last_j)] * len(schedule), [(last_i, j) for _, j in schedule], [(i, last_j) for i, _ in schedule]
    return [_results(late) for late in pairs]


_MISTAKES = [
    Mistake(
        "late_binding",
        "The tasks look i and j up when they run, and by then the loop is over.",
        when=lambda computed, schedule: computed in _late_bindings(schedule),
    ),
    Mistake(
        "swapped_pair",
        "A pair is (micro-batch, stage); your tasks read it as (stage, micro-batch).",
        like=lambda schedule: _results([(j, i) for i, j in schedule]),
    ),
]


@case("there is one task for each pair; task k computes pair k when a worker runs it, however late, and not before")
def late_workers(make_tasks: Asked) -> None:
    compare(
        partial(make_tasks.inside, computed_late),
        [(schedule,) for schedule in _SCHEDULES],
        _results,
        _MISTAKES,
        asked="the schedule {}",
        show=lambda computed: f"[{', '.join(computed)}]",
    )


def computed_late(make_tasks: Function, schedule: Schedule) -> list[str]:
    """In the process of the function: what each task computes, once all are made; the last one runs first.

    The stages only say what they did: stage 1 of batch 2 is the text `stage1(batch2)`.
    """
    computed: list[str] = []

    def stage(number: int, batch: str) -> str:
        computed.append(f"stage{number}({batch})")
        return computed[-1]

    tasks = make_tasks([f"batch{i}" for i in range(8)], list(schedule), [partial(stage, j) for j in range(8)])
    no_tasks = [task for task in tasks if not hasattr(task, "compute")] if hasattr(tasks, "__len__") else [tasks]
    if no_tasks:
        raise Wrong("no_task", f"A worker cannot run {no_tasks[0]!r}; return a list with one Task for each pair.")
    if computed:
        told = f"Your function itself computed {computed[0]}"
        raise Wrong("too_early", f"{told}; a task holds a function for a worker to call, not a result.")
    return [str(task.compute()) for task in reversed(tasks)][::-1]
