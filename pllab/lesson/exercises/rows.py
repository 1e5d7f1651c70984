"""Read the rows that a solution of lesson 10, 11 or 17 returns: their actions are the right ones, and they can run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.lesson.mistakes import whole
from pllab.schedule import Action, Kind, Schedule, problems


def read_schedule(answer: Any, *, row_is_stage: bool = False) -> Schedule:
    """The answer as a schedule: it may be one, its CSV, a dictionary of rows, or rows of actions or of their texts.

    row_is_stage: an action may leave its stage out, as in `"F0"`; then it belongs to the stage of its row.

    Raises:
        Wrong: there are no rows, or something in them is no action.
    """
    if isinstance(answer, Schedule):
        return answer
    if isinstance(answer, str):
        answer = answer.splitlines()
    if isinstance(answer, dict):
        answer = [answer[rank] for rank in sorted(answer)]
    if not isinstance(answer, Iterable):
        raise Wrong("no_action", f"Your function returned {answer!r}; return one row of actions for each rank.")
    return Schedule(tuple(_row(rank, row, row_is_stage) for rank, row in enumerate(answer)), "yours")


def _row(rank: int, row: Any, row_is_stage: bool) -> tuple[Action, ...]:
    if isinstance(row, str):
        row = row.replace(",", " ").split()
    if isinstance(row, Action) or not isinstance(row, Iterable):
        raise Wrong("no_action", f"Row {rank} is {row!r}; a row is a list of the actions of one rank, in order.")
    return tuple(read_action(item, rank if row_is_stage else None) for item in row)


def read_action(item: Any, stage: int | None = None) -> Action:
    """One action, from `"2F0"` or `(2, "F", 0)`; with a stage given also from `"F0"` or `("F", 0)`.

    Raises:
        Wrong: it is none of them.
    """
    try:
        if isinstance(item, str):
            text = item.strip()
            return Action.parse(text if stage is None or text[:1].isdigit() else f"{stage}{text}")
        *stages, kind, microbatch = item
        (own,) = stages or [stage]
        return Action(whole(own), Kind(str(kind)), whole(microbatch))
    except (TypeError, ValueError):
        example = "for example '2F0'" if stage is None else "for example 'F0' or '2F0'"
        raise Wrong("no_action", f"Your function gave {item!r} for an action; write a string, {example}.") from None


def judge_actions(rows: Sequence[Sequence[Action]], right: Sequence[Sequence[Action]], asked: str) -> None:
    """Compare which actions stand in which row, in any order.

    Raises:
        Wrong: a row is missing or extra, or has an action too often or not often enough.
    """
    if len(rows) != len(right):
        raise Wrong("wrong_actions", f"{asked} your function gave {len(rows)} rows; right is {len(right)}.")
    for number, (row, right_row) in enumerate(zip(rows, right, strict=True)):
        mine, wanted = Counter(row), Counter(right_row)
        off = [*sorted(wanted - mine)[:1], *sorted(mine - wanted)[:1]]
        if off:
            told = " and ".join(f"{one} {_times(mine[one])} instead of {_times(wanted[one])}" for one in off)
            raise Wrong("wrong_actions", f"{asked} row {number} has {told}.")


def judge_order(schedule: Schedule, asked: str) -> None:
    """Refuse rows that cannot run: an action comes before what it needs, or ranks wait for each other in a circle.

    Raises:
        Wrong: they cannot.
    """
    for problem in problems(schedule):
        raise Wrong("deadlock", f"{asked} {problem.sentence}.")


def _times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")
