"""Read what a solution of lesson 11 or 17 returns: a `Schedule`, its CSV, or rows of actions or of their texts."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from pllab.lesson.exercise import Wrong
from pllab.schedule import Action, Kind, Schedule

_MOST = 5000  # actions of a row
ENDLESS = ("endless", "A row never ends: it has as many actions as the sizes say, and every loop needs an end.")


def read_schedule(answer: Any, most: int = _MOST) -> Schedule:
    """The answer as a schedule, whatever its form; a row has at most so many actions.

    Raises:
        Wrong: there is nothing, or something in it is no action.
    """
    if isinstance(answer, Schedule):
        return answer
    if answer is None:
        raise Wrong("nothing", "Your function returned None; return the rows, one for each rank.")
    if isinstance(answer, str):
        return _from_csv(answer)
    if isinstance(answer, dict):
        answer = [answer[rank] for rank in sorted(answer)]
    if not isinstance(answer, Iterable):
        raise Wrong("no_rows", f"Your function returned {answer!r}; return the rows, one for each rank.")
    return Schedule(tuple(_row(rank, row, most) for rank, row in enumerate(islice(answer, 200))), "yours")


def _from_csv(text: str) -> Schedule:
    try:
        return Schedule.from_csv(text, "yours")
    except ValueError as error:
        raise Wrong("no_action", f"Your function returned a text that is no schedule: {error}.") from None


def _row(rank: int, row: Any, most: int) -> tuple[Action, ...]:
    if isinstance(row, str):
        row = row.replace(",", " ").split()
    if isinstance(row, Action) or not isinstance(row, Iterable):
        raise Wrong("no_rows", f"Row {rank} is {row!r}; a row is a list of the actions of one rank, in order.")
    actions = tuple(read_action(item) for item in islice(row, most))
    if len(actions) == most:
        raise Wrong(*ENDLESS)
    return actions


def read_action(item: Any) -> Action:
    """One action, from `"2F0"` or `(2, "F", 0)`.

    Raises:
        Wrong: it is neither.
    """
    try:
        if isinstance(item, str):
            return Action.parse(item)
        stage, kind, microbatch = item
        return Action(int(stage), Kind(str(kind)), int(microbatch))
    except (TypeError, ValueError):
        raise Wrong(
            "no_action", f"{item!r} is no action: write stage, kind and micro-batch, for example '2F0'."
        ) from None
