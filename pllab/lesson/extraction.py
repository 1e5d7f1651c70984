"""How the process of `answering` makes a solution from a notebook's cells.

It takes from the cells what the function needs and leaves out the lesson's runs:

    wanted   the names that the second argument of its last `check` reads
    taken    the last statement that binds each of them, then what that one reads, and so on
    run      what was taken, in the notebook's order, up to the check

A function reads names when it is called, so its helper may come after it; other statements read only what is above.
The function is packed as `check` does it, so what cannot travel in a notebook is refused here, too.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType

from pllab.lesson.exercise import Refused
from pllab.lesson.own_code import names_bound, names_read
from pllab.lesson.packing import Packed, Source, pack

_RUN_HERE = ("%%time", "%%capture")  # magics whose cell runs like any other
_NO_CHECK = 'No cell of the notebook that Python can read has a check("{id}", ...) with your function; put it back.'
_RAISED = "{cell} of the notebook raised {error}, so there is no function to check; run the cells above the check."
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def pack_cells(exercise_id: str, source: Source) -> Packed:
    """Run what the last check of an exercise needs of the cells, and pack what it is given as `check` does it.

    Raises:
        Refused: a cell raised, there is no such check, or as `pack` does.
    """
    parts = [part for name, lines in source for part in statements(name, "".join(lines))]
    checks = [(at, given) for at, part in enumerate(parts) for given in _given_to_check(part.node, exercise_id)]
    if not checks:
        raise Refused("raised", _NO_CHECK.format(id=exercise_id))
    at, given = checks[-1]
    module = sys.modules["__main__"] = ModuleType("__main__")  # an empty notebook, whose functions travel by value
    cell = ""
    try:
        for part in needed(parts[:at], ast.unparse(given)):
            cell = part.cell
            exec(compile(ast.Module([part.node], []), cell, "exec"), vars(module))
        cell = parts[at].cell
        solution = eval(compile(ast.Expression(given), "<cell of the check>", "eval"), vars(module))
    except Refused:
        raise
    except BaseException as error:  # SystemExit too: a cell that ends the process has made no function
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        unread = [name for name, lines in source if isinstance(error, NameError) and body_of("".join(lines)) is None]
        text += f", and Python cannot read {' and '.join(unread)}" if unread else ""
        raise Refused("raised", _RAISED.format(cell=cell.capitalize(), error=text)) from None
    return pack(solution)


@dataclass(frozen=True)
class Statement:
    """One statement of a cell.

    binds: names that it makes anew; changes: those whose object it changes, or that it may leave as they were.
    """

    cell: str
    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]
    reads: frozenset[str]
    is_import: bool

    @property
    def defines(self) -> bool:
        """Whether it contains a function, which reads its names later."""
        return any(isinstance(node, _SCOPES) for node in ast.walk(self.node))


def statements(cell: str, source: str) -> Iterator[Statement]:
    """The statements of one cell, with its magics as calls; none if it is not Python, or runs on ranks."""
    for node in body_of(source) or ():
        try:
            reads, bound = frozenset(names_read(ast.unparse(node))), names_bound(ast.unparse(node))
        except (SyntaxError, RecursionError):  # an await outside of a function
            continue
        is_plain = isinstance(node, (*_SCOPES, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign))
        binds = bound - reads if is_plain else frozenset[str]()
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        yield Statement(cell, node, binds, bound.union(_changed(node)), reads, is_import)


def body_of(source: str) -> list[ast.stmt] | None:
    """The statements of a cell that runs here; None where Python cannot read it."""
    lines = source.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        if lines[first].split()[0] not in _RUN_HERE:
            return []
        lines[first] = ""
    for read in (str, _as_python):
        with suppress(SyntaxError, ValueError):
            return ast.parse(read("\n".join(lines))).body
    return None


def _as_python(source: str) -> str:
    """IPython's own syntax, such as `%pwd` and `f?`, as calls, which few cells need: half a second of imports."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def _given_to_check(node: ast.stmt, exercise_id: str) -> Iterator[ast.expr]:
    """What the checks of an exercise in a statement are given: `f` of `print(check("00.1", f))`."""
    for call in ast.walk(node):
        match call:
            case ast.Call(ast.Name("check") | ast.Attribute(attr="check"), args, keywords):
                given = dict(zip(("exercise_id", "solution"), args, strict=False))
                match given | {keyword.arg: keyword.value for keyword in keywords}:
                    case {"exercise_id": ast.Constant(named), "solution": solution} if named == exercise_id:
                        yield solution


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
        binds_any = isinstance(part.node, ast.ImportFrom) and part.node.names[0].name == "*"
        if touched & wanted or binds_any:
            taken.append(part)
            wanted = (wanted - part.binds) | part.reads
    return taken[::-1]


def _changed(node: ast.AST) -> Iterator[str]:
    """The names whose objects a statement changes: `table["a"] = 1`, `table.a += 1` and `table.append(1)`."""
    if isinstance(node, _SCOPES):
        return
    for child in ast.iter_child_nodes(node):  # of a loop or a condition
        yield from _changed(child)
    match node:
        case (
            ast.Attribute(thing, ctx=ast.Store() | ast.Del())
            | ast.Subscript(thing, ctx=ast.Store() | ast.Del())
            | ast.Expr(ast.Call(ast.Attribute(thing)))
        ):
            while isinstance(thing, ast.Attribute | ast.Subscript):
                thing = thing.value
            if isinstance(thing, ast.Name):
                yield thing.id
