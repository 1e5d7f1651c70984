"""The process that makes a solution from a notebook's cells, in a sandbox: it runs foreign code and is not trusted.

It takes what the function needs (`slicing`), runs it as a notebook would, and packs the function as `check` does. What
it writes is the packed function or a sentence; another process finds out whether the function is right.
"""

import ast
import base64
import json
import linecache
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pllab.lesson.exercise import find
from pllab.lesson.packing import Packed, pack
from pllab.lesson.slicing import Statement, needed, statements
from pllab.lesson.verdict import Outcome

_NAME = "__solution__"
_RAISED = "Cell {cell} of the notebook raised {error}, so there is no function to check; run the cells above the check."


def run() -> None:
    """The entry point of the process: the order and the number of an open file for the answer are its arguments.

    The order has the exercise, the expression that `check` is given, and the cells above it.
    """
    order, answer = json.loads(sys.argv[1]), int(sys.argv[2])
    told = _told(order["exercise"], order["expression"], order["cells"])
    with os.fdopen(answer, "wb") as file:
        file.write(json.dumps(told).encode())


def _told(exercise_id: str, expression: str, cells: Sequence[tuple[int, str]]) -> dict[str, Any]:
    module = sys.modules["__main__"] = ModuleType("__main__")  # an empty notebook, whose functions travel by value
    names, at = vars(module), 0
    try:
        for at, code in _pieces(expression, cells):  # noqa: B007 - the error names the cell
            exec(code, names)
    except BaseException as error:  # SystemExit too: a cell that ends the process has made no function
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        return {"outcome": Outcome.NOT_YET, "hint_id": "raised", "hint": _RAISED.format(cell=at, error=text)}
    packed = pack(find(exercise_id), names[_NAME])
    if isinstance(packed, Packed):
        function = base64.b64encode(packed.function).decode()
        return {"function": function, "source": packed.source}
    return {"outcome": packed.outcome, "hint_id": packed.hint_id, "hint": packed.first.hint}


def _pieces(expression: str, cells: Sequence[tuple[int, str]]) -> list[tuple[int, Any]]:
    """The code to run, by cell, and at last the expression; lines keep their numbers for tracebacks."""
    parts = [part for number, source in cells for part in statements(number, source)]
    by_cell: dict[int, list[Statement]] = {}
    for part in needed(parts, expression):
        by_cell.setdefault(part.cell, []).append(part)
    pieces = []
    for number, source in cells:
        name = f"<cell {number}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        if number in by_cell:
            body = [part.node for part in by_cell[number]]
            pieces.append((number, compile(ast.Module(body, []), name, "exec")))
    last = cells[-1][0] if cells else 0
    return [*pieces, (last, compile(f"{_NAME} = ({expression})", "<cell of the check>", "exec"))]
