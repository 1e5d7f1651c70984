"""The habit of a rank: the calls that a training makes again in every step, and so the call that would come next."""

from collections.abc import Sequence

from pllab.autopsy.records import Call

Kind = tuple[object, ...]


def habit(kinds: Sequence[Kind]) -> int | None:
    """After how many calls a sequence repeats itself: 2 for A B A B A; None if it has not repeated itself in full.

    A start that comes once, such as the broadcast of the weights, is left out: only the end has to repeat.
    """
    for period in range(1, len(kinds) // 2 + 1):
        if all(kinds[-1 - back] == kinds[-1 - back - period] for back in range(period)):
            return period
    return None


def expected(calls: Sequence[Call], ahead: int = 1) -> list[Kind]:
    """The kinds of the next calls by habit, `ahead` of them; none without a habit."""
    kinds = [call.kind for call in calls]
    period = habit(kinds)
    return [] if period is None else [kinds[len(kinds) - period + step % period] for step in range(ahead)]
