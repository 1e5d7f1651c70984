"""The CSV that torch.distributed.pipelining reads and writes: one line per rank, one cell per action.

Written in its compute-only form: sends and receives follow from the actions. Its other form, `compute_comms`, is read
too, and what its runtime has added (messages, and the parameters that FSDP gathers and lets go) is left out.
"""

import csv
import io
import re
from collections.abc import Iterable

from pllab.schedule.action import Action

_ADDED = re.compile(r"\d+((SEND|RECV)_[FB]\d+|UNSHARD|RESHARD|REDUCE_GRAD)")
_OVERLAPPED = re.compile(r"\((?P<parts>[^()]*)\)OVERLAP_F_B")


def write_csv(rows: Iterable[Iterable[Action]]) -> str:
    """One line per rank: `0F0,0F1,0B0,0B1`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([str(action) for action in row] for row in rows)
    return out.getvalue()


def read_csv(text: str) -> tuple[tuple[Action, ...], ...]:
    """The rows of a CSV; a blank cell is an idle slot, and `(0F1;3B0)OVERLAP_F_B` is its two actions in order.

    Example: `0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD` is the row `0F0 0B0`.

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
        return [Action.parse(part) for part in parts if part.strip() and not _ADDED.fullmatch(part.strip())]
    except ValueError as error:
        raise ValueError(f"line {line}, column {column} of the schedule: {error}") from None
