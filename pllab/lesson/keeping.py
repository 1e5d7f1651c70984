"""A learner's accepted solutions: kept in one readable file, and used by later lessons.

`my_pllab.py` is plain Python, one function after another with its lesson's number. `check` writes it; `mine` reads
it, and so do `import my_pllab` and `torchrun`. It lies in the folder that PLLAB_HOME names, by default
beside the notebooks.

Each solution stands there with all that it needs, except for other solutions, and a name has one meaning in the whole
file. So a solution works as before when another one is replaced.
"""

import ast
import builtins
import functools
import importlib
import linecache
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any

from pllab.arguments import require
from pllab.files import write_whole
from pllab.lesson.exercise import Exercise, find
from pllab.lesson.extraction import body_of
from pllab.lesson.own_code import names_bound, names_read, namespace_of, their_functions
from pllab.lesson.verdict import Lines

_HEAD = '''"""The machine I build in the lessons of pllab: one accepted solution under the other.

`check` adds a solution when it is right, and replaces it when another one is. The file is yours: read it, import it.
What you write above the first solution stays.
"""
'''
_MARK = re.compile(r"^# ={4} (\d\d\.\d+) .*: (\w+) ={4}$", re.MULTILINE)


@functools.lru_cache(maxsize=1)
def _temporary() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="pllab-home-")


def home() -> Path:
    """The learner's folder: what PLLAB_HOME names; a temporary one under CI; by default the current folder."""
    if named_folder := os.environ.get("PLLAB_HOME"):
        return Path(os.path.expanduser(named_folder))  # noqa: PTH111 - Path's own raises for a user who is not there
    return Path(_temporary().name) if os.environ.get("CI") else Path.cwd()


def _file() -> Path:
    return home() / "my_pllab.py"


def keep(exercise: Exercise, solution: Any) -> str:
    """Write an accepted solution into `my_pllab.py`; return a sentence for the verdict."""
    try:
        name = getattr(solution, "__name__", "")
        require(name.isidentifier(), "it has no name; define it with def or class")
        sections, code = _read(), dict[str, str]()
        _collect(solution, code)
        before = "".join(sections.values())
        head = sections.pop("").rstrip()
        borrowed = re.compile(rf"^from pllab\.\S+ import {name}\n", re.MULTILINE)  # by other solutions, until now
        sections = {key: borrowed.sub("", body) for key, body in sections.items()}
        earlier, new = sections.get(exercise.id, ""), _section(exercise, name, code, sections)
        sections[exercise.id] = new
        after = "\n\n".join([head, *(sections[key].strip() for key in sorted(sections))]) + "\n"
        lost = _lost(before, after)
        require(not lost, f"the file would use {lost} where it has none; define it in the cell of the solution too")
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_whole(_file(), after)
    except (ValueError, OSError) as error:
        return f"not in my_pllab.py, because {error}"
    return "in my_pllab.py, in place of your earlier one" if earlier.strip() not in ("", new) else "in my_pllab.py"


def mine(exercise_id: str) -> Any:
    """The learner's accepted solution of an exercise or, if there is none, the package's.

    Example: `average_gradients = mine("05.2")`.

    Raises:
        ValueError: there is neither, or `my_pllab.py` cannot be read or imported.
    """
    if (name := _names().get(exercise_id)) is not None:
        kept = _imported()
        require(hasattr(kept, name), f"my_pllab.py has no {name} any more; run the check of {exercise_id} again")
        return getattr(kept, name)
    exercise = find(exercise_id)
    if not (exercise.package and exercise.lends):
        raise ValueError(f"my_pllab.py has no {exercise_id} ({exercise.title}) yet, and pllab has none to lend")
    return resolve_name(f"pllab.{exercise.package[0]}")


def parts(*exercise_ids: str) -> Lines:
    """Say of each exercise whether its part is the learner's, borrowed from the package, or not there yet.

    Example:

        05.1 The same start      yours: broadcast_parameters
        05.2 The same gradient   borrowed from the package: pllab.parallel.average_gradients
    """
    names, rows = _names(), dict[str, str]()
    for exercise in map(find, exercise_ids):
        whose = f"yours: {names[exercise.id]}" if exercise.id in names else "not there yet"
        if exercise.id not in names and exercise.package and exercise.lends:
            whose = f"borrowed from the package: pllab.{exercise.package[0]}"
        rows[f"{exercise.id} {exercise.title}"] = whose
    width = max(map(len, rows), default=0)
    return Lines("\n".join(f"{what:{width}}   {whose}" for what, whose in rows.items()))


_APART = "\n\n"  # begins the text of each definition; imports and constants stand above them


def _collect(thing: Any, code: dict[str, str]) -> None:
    """Add a definition to the code by name, after all that it needs from its notebook."""
    source, names = source_of(thing), namespace_of(thing)
    code.setdefault(thing.__name__, "")  # it may use itself
    for name in names_read(source):
        if name in names and name not in code and not _is_pythons(name, names[name]):
            _need(name, names[name], thing, code)
    del code[thing.__name__]
    code[thing.__name__] = _APART + source


def _is_pythons(name: str, value: Any) -> bool:
    """Whether it is there without a definition; a helper may be called `slice`."""
    return name.startswith("__") or value is getattr(builtins, name, _is_pythons)


def _need(name: str, value: Any, by: Any, code: dict[str, str]) -> None:
    """Add what one name stands for: a module, something from another module, a definition beside it, or a constant."""
    original = getattr(value, "__name__", name)
    alias = "" if original == name else f" as {name}"
    if isinstance(value, ModuleType):
        code[name] = f"import {original}{alias}"
    elif _is_definition(value) and value.__module__ in ("my_pllab", "__main__", by.__module__):
        if value.__module__ != "my_pllab" and original not in code:  # that is in the file already
            _collect(value, code)
        if alias:
            code[name] = f"{_APART}{name} = {original}"
    elif module := _home_of(value, name):
        code[name] = f"from {module} import {original}{alias}"
    else:
        code[name] = f"{name} = {_literal(name, value)}"


def _is_definition(value: Any) -> bool:
    """Whether def or class made it, also under a decorator such as `functools.cache`."""
    return isinstance(getattr(value, "__wrapped__", value), FunctionType | type)


def _home_of(value: Any, name: str) -> str:
    """The module that a value can be imported from, empty if there is none."""
    module = str(getattr(value, "__module__", ""))
    found = getattr(sys.modules.get(module), getattr(value, "__name__", name), _literal)
    if found is value and module != "__main__":
        return module
    rooms = [key for key in sys.modules if key.startswith("pllab.") and key.count(".") == 1]
    return next((room for room in sorted(rooms) if vars(sys.modules[room]).get(name, _literal) is value), "")


def _literal(name: str, value: Any) -> str:
    text = repr(value)
    with suppress(ValueError, SyntaxError):
        if ast.literal_eval(text) == value:
            return text
    raise ValueError(f"it uses {name}, which is no plain constant; make it inside the function or pass it in")


def source_of(thing: Any) -> str:
    """The source of a function or class at the top of a file or a notebook cell, where `inspect` finds no class.

    A class without methods does not say where it is from: it is the last one that was run.

    Raises:
        ValueError: it cannot be found.
    """
    files = {function.__code__.co_filename for function in their_functions(thing)}
    texts = ["".join(linecache.getlines(name)) for name in files]
    if not any(texts):  # of a class without methods, and of a cell under %%time
        texts = [*("".join(linecache.getlines(name)) for name in list(linecache.cache)), *_cells_run()][::-1]
    for text in texts:
        for node in reversed(body_of(text) or []):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == thing.__name__:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                return "\n".join(text.split("\n")[first - 1 : node.end_lineno])
    raise ValueError(f"the source of {thing.__name__} was not found; write it with def or class, at the top of a cell")


def _cells_run() -> list[str]:
    """The cells of this notebook in the order in which they were run; none outside of a notebook."""
    shell = vars(sys.modules["__main__"]).get("get_ipython", lambda: None)()
    return list(shell.history_manager.input_hist_raw) if shell else []


def _section(exercise: Exercise, solution: str, code: dict[str, str], sections: dict[str, str]) -> str:
    """The text of one exercise in the file; another one's solution is not repeated, nor imported from the package."""
    others = {key: body for key, body in sections.items() if key != exercise.id}
    elsewhere = {name: (key, made) for key, body in others.items() for name, made in _meanings(body)}
    solutions = {name for body in others.values() for _, name in _MARK.findall(body)} & set(elsewhere) - {solution}
    own = {name: text for name, text in code.items() if name not in solutions or not text.startswith("from pllab.")}
    for name, made in _meanings("\n".join(own.values())):
        key, other = elsewhere.get(name, ("", made))
        if made != other:
            raise ValueError(f"{key} has another {name}; give one of them another name")
    mark = f"# ==== {exercise.id} {exercise.title}: {solution} ===="
    new = [text for name, text in own.items() if name not in solutions or not text.startswith(_APART)]
    return "\n".join([mark, *sorted(new, key=lambda text: text.startswith(_APART))])


def _meanings(text: str) -> Iterator[tuple[str, str]]:
    """Each name that a text binds, and the statement that does."""
    for node in ast.parse(text).body:
        for name in names_bound(ast.unparse(node)):
            yield name, ast.dump(node)


def _lost(before: str, after: str) -> str:
    """A name of the file that its new text uses and does not have, or has only further down; empty if there is none."""
    everywhere, above = names_bound(after), frozenset[str]()
    known = everywhere | names_bound(before)
    for node in ast.parse(after).body:
        source = ast.unparse(node)
        missing = {*names_read(source)} - everywhere | {*names_read(source, at_once=True)} - above
        if missing & known:
            return min(missing & known)
        above |= names_bound(source)
    return ""


def _read() -> dict[str, str]:
    """The sections of the file by exercise, each with its mark, after the text above them, which has no key.

    Raises:
        ValueError: the file cannot be read; or it, or one of them by itself, is not Python.
    """
    try:
        text = _file().read_text(encoding="utf-8-sig") if _file().exists() else _HEAD  # editors of Windows write a BOM
        marks = [*_MARK.finditer(text)]
        places = pairwise([0, *(mark.start() for mark in marks), len(text)])
        keys = ["", *(mark[1] for mark in marks)]
        sections = {key: text[start:end] for key, (start, end) in zip(keys, places, strict=True)}
        for name, part in {"my_pllab.py": text, **sections}.items():
            compile(part, name, "exec", dont_inherit=True)
        return sections
    except (OSError, ValueError, SyntaxError) as error:
        way_out = "repair it, or set PLLAB_HOME to another folder"
        raise ValueError(f"my_pllab.py cannot be read ({error}); {way_out}") from None


def _names() -> dict[str, str]:
    """The name of each kept solution by its exercise."""
    return dict(_MARK.findall("".join(_read().values())))


def _imported() -> ModuleType:
    """`my_pllab` as it is now, in a way that ranks can import it too."""
    folder = str(home().resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    linecache.checkcache()
    text, module = _file().read_text(encoding="utf-8"), sys.modules.get("my_pllab")
    try:
        if module is None or vars(module).get("__text__") != text:  # another object of a function cannot be pickled
            module = importlib.reload(module) if module else importlib.import_module("my_pllab")
            vars(module)["__text__"] = text
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}"
        raise ValueError(f"my_pllab.py cannot be imported ({told}); repair that line") from None
    return module
