"""The CSV that torch.distributed.pipelining reads and writes: one line per rank, one cell per action.

Only its compute-only form: sends and receives follow from the actions, so they are not written down.
"""

import csv
import io
import re
from collections.abc import Iterable

from pllab.schedule.action import Action

_OVERLAPPED = re.compile(r"\((?P<parts>[^()]*)\)OVERLAP_F_B")


def write_csv(rows: Iterable[Iterable[Action]]) -> str:
    """One line per rank: `0F0,0F1,0B0,0B1`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([str(action) for action in row] for row in rows)
    return out.getvalue()


def read_csv(text: str) -> tuple[tuple[Action, ...], ...]:
    """The rows of a CSV; a blank cell is an idle slot, and `(0F1;3B0)OVERLAP_F_B` is its two actions in order.

    Raises:
        ValueError: a cell is no action.
    """
    return tuple(
        tuple(action for column, cell in enumerate(row, 1) for action in _read_cell(cell, line, column))
        for line, row in enumerate(csv.reader(io.StringIO(text)), 1)
    )


def _read_cell(cell: str, line: int, column: int) -> list[Action]:
    overlapped = _OVERLAPPED.fullmatch(cell.strip())
    parts = overlapped["parts"].split(";") if overlapped else [cell]
    try:
        return [Action.parse(part) for part in parts if part.strip()]
    except ValueError as error:
        raise ValueError(f"line {line}, column {column} of the schedule: {error}") from None
