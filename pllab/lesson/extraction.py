"""The process that makes a solution from a notebook's cells, in a sandbox: it runs foreign code and is not trusted.

It takes from the cells what the function needs and leaves out the lesson's runs:

    wanted   the names that the expression of `check` reads
    taken    the last statement that binds each of them, then what that one reads, and so on
    run      what was taken, in the notebook's order

A function reads names when it is called, so its helper may come after it; other statements read only what is above.
The function is packed as `check` does it. What is written is the packed function or a sentence; another process finds
out whether the function is right.
"""

import ast
import base64
import json
import linecache
import os
import symtable
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pllab.lesson.exercise import find
from pllab.lesson.keeping import names_read
from pllab.lesson.packing import Packed, pack

_NAME = "__solution__"
_RAISED = "Cell {cell} of the notebook raised {error}, so there is no function to check; run the cells above the check."
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


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
        return {"hint_id": "raised", "hint": _RAISED.format(cell=at, error=text)}
    packed = pack(find(exercise_id), names[_NAME])
    if isinstance(packed, Packed):
        function = base64.b64encode(packed.function).decode()
        return {"function": function, "source": packed.source}
    return {"hint_id": packed.hint_id, "hint": packed.first.hint}  # both are empty if nothing was attempted


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


@dataclass(frozen=True)
class Statement:
    """One statement of a cell.

    binds: names that it makes anew; changes: those whose object it changes, or that it may leave as they were.
    """

    cell: int
    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]
    reads: frozenset[str]
    is_import: bool

    @property
    def imports_all(self) -> bool:
        """Whether it may bind any name: `from math import *`."""
        return isinstance(self.node, ast.ImportFrom) and self.node.names[0].name == "*"

    @property
    def defines(self) -> bool:
        """Whether it contains a function, which reads its names later."""
        return any(isinstance(node, _SCOPES) for node in ast.walk(self.node))


def statements(cell: int, source: str) -> Iterator[Statement]:
    """The statements of one cell, without its magics; none if it is not Python."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n")]
    if source.lstrip().startswith("%%"):
        return
    try:
        body = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError):
        return
    for node in body:
        try:
            reads, bound = frozenset(names_read(ast.unparse(node))), _bound(ast.unparse(node))
        except (SyntaxError, RecursionError):  # an await outside of a function
            continue
        is_plain = isinstance(node, (*_SCOPES, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign))
        binds = bound - reads if is_plain else frozenset[str]()
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        yield Statement(cell, node, binds, bound.union(_changed(node)), reads, is_import)


def needed(parts: Sequence[Statement], expression: str) -> list[Statement]:
    """The statements that an expression needs, in order."""
    imported = frozenset[str]().union(*(part.binds for part in parts if part.is_import))
    wanted = frozenset(names_read(expression))
    while True:
        taken = _pass(parts, wanted, imported)
        more = wanted.union(*(part.reads for part in taken if part.defines))
        if more == wanted:
            return taken
        wanted = more


def _pass(parts: Sequence[Statement], wanted: frozenset[str], imported: frozenset[str]) -> list[Statement]:
    """From the last statement to the first: once found, a name is not wanted further up."""
    taken = list[Statement]()
    for part in reversed(parts):
        is_call = isinstance(part.node, ast.Expr)
        touched = part.changes - imported if is_call else part.changes  # a call of a module changes no module
        if touched & wanted or part.imports_all:
            taken.append(part)
            wanted = (wanted - part.binds) | part.reads
    return taken[::-1]


def _bound(source: str) -> frozenset[str]:
    """The names that a statement binds in its own scope."""
    symbols = symtable.symtable(source, "<statement>", "exec").get_symbols()
    return frozenset(symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported())


def _changed(node: ast.stmt) -> Iterator[str]:
    """The names whose objects a statement changes: `table["a"] = 1`, `table.a += 1` and `table.append(1)`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        targets = [node.value.func] if isinstance(node.value.func, ast.Attribute) else []
    for target in targets:
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id
