"""A row of a V-shaped schedule in letters, as its papers describe it: `ffFfFIFI`.

Rank `r` of `p` has the stages `r` and `2p - 1 - r`. Small letters are the first of them, where a micro-batch comes
down the V, capitals the second, where it goes up; the n-th of a letter is micro-batch n.
"""

from collections import deque
from itertools import count

from pllab.schedule.action import Action, Kind


def stages_in_v(rank: int, num_ranks: int) -> tuple[int, int]:
    """The stage on the way down and the one on the way up: `(0, 5)` for rank 0 of 3, `(2, 3)` for the last."""
    return rank, 2 * num_ranks - 1 - rank


def read_letters(letters: str, rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """The actions of a row, without those of micro-batches from `num_microbatches` on.

    f F b B i I are kinds; b and i count together, as a micro-batch goes back either whole or split. `w` is the oldest
    weight gradient owed by any i or I, and nothing if there is none.

    Example: `read_letters("fFIwb", 0, 1, 2)` is `0F0 1F0 1I0 1W0 0B0`.
    """
    down, up = stages_in_v(rank, num_ranks)
    numbers = {letter: count() for letter in "fF"} | dict.fromkeys("bi", count()) | dict.fromkeys("BI", count())
    owed: deque[Action] = deque()
    row = []
    for letter in letters:
        if letter != "w":
            action = Action(up if letter.isupper() else down, Kind(letter.upper()), next(numbers[letter]))
            row.append(action)
            if action.kind is Kind.I:
                owed.append(action._replace(kind=Kind.W))
        elif owed:
            row.append(owed.popleft())
    return [action for action in row if action.microbatch < num_microbatches]
