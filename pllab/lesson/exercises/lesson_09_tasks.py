"""The cases of exercise 09.1: `make_tasks(batches, schedule, partitions)` returns one task per pair."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from pllab.lesson.exercise import Asked, Wrong, case

MakeTasks = Callable[[list[str], list[tuple[int, int]], list[Callable[[str], str]]], Any]

# Cycles of a clock, sorted by stage or not, with one pair, with many, with none.
_CHANCE = Random(9)
_SCHEDULE = [(3, 0), (2, 1), (1, 2)]
_SCHEDULES = [_SCHEDULE, [(0, 1), (1, 0)], [(4, 0)], []]
_SCHEDULES += [[(7 - j, j) for j in _CHANCE.sample(range(7), size)] for size in (4, 6)]


@case("there is one task for every pair of the schedule")
def one_per_pair(make_tasks: Asked) -> None:
    for schedule in _SCHEDULES:
        number = make_tasks.inside(number_of_tasks, schedule)
        if number != len(schedule):
            raise Wrong("wrong_number", f"The schedule has {len(schedule)} pairs and you made {number} tasks.")


def number_of_tasks(make_tasks: MakeTasks, schedule: list[tuple[int, int]]) -> int:
    """In the process of the function: how many tasks it made, if they are tasks."""
    tasks = make_tasks(_batches(), list(schedule), _stages([]))
    if tasks is None or not hasattr(tasks, "__len__"):
        raise Wrong("no_list", f"make_tasks should return a list of tasks, and it returned {tasks!r}.")
    for task in tasks:
        if not hasattr(task, "compute"):
            raise Wrong("no_task", f"A worker runs a Task, and cannot run {task!r}: put the function into one.")
    return len(tasks)


@case("nothing is computed before a worker runs the task")
def nothing_early(make_tasks: Asked) -> None:
    if log := make_tasks.inside(computed_early, _SCHEDULE):
        raise Wrong(
            "too_early",
            f"make_tasks itself computed {log[0]}; a task holds a function for a worker to call, not its result.",
        )


def computed_early(make_tasks: MakeTasks, schedule: list[tuple[int, int]]) -> list[str]:
    """In the process of the function: what was computed before any task ran."""
    log: list[str] = []
    make_tasks(_batches(), list(schedule), _stages(log))
    return log


@case("task k computes pair k, even when the workers are late")
def late_workers(make_tasks: Asked) -> None:
    """All tasks exist before the first one runs, and they run in the opposite order."""
    for schedule in _SCHEDULES:
        _judge_late(make_tasks.inside(computed_late, schedule), schedule)


def computed_late(make_tasks: MakeTasks, schedule: list[tuple[int, int]]) -> list[str]:
    """In the process of the function: what each task computes, once all are made."""
    tasks = list(make_tasks(_batches(), list(schedule), _stages([])))
    return [str(task.compute()) for task in reversed(tasks)][::-1]


def _judge_late(got: list[str], schedule: list[tuple[int, int]]) -> None:
    right = [f"stage{j}(batch{i})" for i, j in schedule]
    told, wanted = ", ".join(got), ", ".join(right)
    if got == right:
        return
    if len({text.partition("(")[0] for text in got}) == 1 or len({text.partition("(")[2] for text in got}) == 1:
        raise Wrong(
            "late_binding",
            f"The {len(got)} tasks computed {told} instead of {wanted}: they look i and j up when they run, and by "
            "then the loop is over.",
        )
    if sorted(got) == sorted(right):
        raise Wrong("wrong_order", f"The tasks are in the order {told}, the schedule says {wanted}.")
    swapped = [f"stage{i}(batch{j})" for i, j in schedule]
    if got == swapped:
        raise Wrong("swapped_pair", "A pair is (micro-batch, stage); your tasks read it as (stage, micro-batch).")
    raise Wrong("wrong_result", f"The tasks computed {told} instead of {wanted}.")


def _batches() -> list[str]:
    return [f"batch{i}" for i in range(8)]


def _stages(log: list[str]) -> list[Callable[[str], str]]:
    """Stages that only say what they did: stage 1 of batch 2 is the text `stage1(batch2)`."""

    def stage(number: int, batch: str) -> str:
        log.append(f"stage{number}({batch})")
        return log[-1]

    return [partial(stage, number) for number in range(8)]
