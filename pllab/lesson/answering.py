"""The process of the learner's function: it answers the questions of a check with data, and knows nothing else.

    the check: asking                       this process: run
    job          the packed function,  ->   what the exercise asks for is taken out of the package,
                 or a notebook's cells      then the function is read, or made of the cells
    question     the arguments         ->   call it
                                       <-   a call of a function that the check gave, if there was one
    answer                             ->
                                       <-   the value with the arguments as they are now, or what was raised

It is made for one check and ends with it. The rules of the exercise are in the other process: nothing that the
function changes here changes them. Only a program of the check, which looks at what cannot be sent, runs beside it.
"""

import base64
import builtins
import faulthandler
import json
import linecache
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from types import CodeType
from typing import Any

import cloudpickle
import torch

from pllab import comm
from pllab.comm.processes import answer_with_stack
from pllab.lesson.encoding import decode, encode, write_back
from pllab.lesson.exercise import Refused, Wrong
from pllab.lesson.extraction import pack_cells
from pllab.lesson.own_code import copied, functions_of, is_stub, their_line

_CHECKS = "pllab.lesson.exercises"
_PACKAGED = (
    "This is {name} of the package, which is what the exercise asks for; write it yourself. Its helpers may be called."
)
_CANNOT_BE_READ = "The process of the check could not read your function; define it, and all it uses, in the notebook."
Find = Callable[[str], Any]
_enter_group = copied(comm.setup)  # an exercise asks for it


class Stopped(BaseException):
    """The check has seen enough; no `except Exception` in the learner's code catches it."""


class Line:
    """The connection to the check: one JSON value in each direction at a time."""

    def __init__(self, descriptor: int) -> None:
        self._file = socket.socket(fileno=descriptor).makefile("rwb")
        self.one_at_a_time = threading.Lock()  # the function may ask from several threads

    def read(self) -> Any:
        """The next value; None when the check has ended."""
        text = self._file.readline()
        return json.loads(text) if text else None

    def send(self, **words: Any) -> None:
        """Send one value."""
        self._file.write(json.dumps(words).encode() + b"\n")
        self._file.flush()


def run() -> None:
    """The entry point, with its folder and the number of its end of the connection on the command line."""
    folder, line = Path(sys.argv[1]), Line(int(sys.argv[2]))
    job = line.read()
    answer_with_stack(folder / "asked")
    faulthandler.enable((folder / "stack").open("w"))
    for name, lines in job["source"]:
        linecache.cache[name] = (len("".join(lines)), None, lines, name)
    find = _close_the_room(job["file"])
    take_out(job["package"])
    solution = cache(partial(_solution_of, job))
    line.send(ready=True)  # from here on the learner's code runs
    if "ranks" in job:
        return line.send(**_answer(lambda: _on_rank(find, job["ranks"], solution())))
    line.send(**_answer(lambda: {"made": callable(solution())}))
    while (question := line.read()) is not None:
        line.send(**_answer(partial(_called, line, find, solution(), question)))
    sys.stdout.flush()


def _solution_of(job: dict[str, Any]) -> Callable[..., Any]:
    """The learner's function, as it was packed; one that is in the cells of a notebook is packed first."""
    function = job["function"] or pack_cells(job["exercise_id"], job["source"]).function
    try:
        solution: Callable[..., Any] = cloudpickle.loads(base64.b64decode(function))
    except Exception:
        raise Refused("cannot_travel", _CANNOT_BE_READ) from None
    return solution


def _close_the_room(file: str) -> Find:
    """Import an exercise, then let nobody import anything from the room of the checks.

    Returns how to find a function or a class by its module and name, even one of this room.
    """
    import_module(file)
    kept = {name: module for name, module in sys.modules.items() if name.startswith(_CHECKS)}
    sys.modules.update(dict.fromkeys(kept))  # type: ignore[arg-type] # importing it is an ImportError
    delattr(sys.modules["pllab.lesson"], "exercises")  # an import has made it an attribute too

    def find(name: str) -> Any:
        module, _, path = name.partition(":")
        return attrgetter(path)(kept[module]) if module in kept else resolve_name(name)

    return find


def _answer(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is answered, or why nothing is."""
    try:
        return ask()
    except Refused as refused:
        return {"refused": [refused.hint_id, refused.sentence]}
    except Wrong as wrong:  # of a program of the check
        return {"wrong": [wrong.hint_id, wrong.sentence]}
    except BaseException as error:  # SystemExit too: the learner's code does not end the check
        return {"refused": ["", ""]} if is_stub(error) else {"raised": _told(error)}


def _called(line: Line, find: Find, solution: Callable[..., Any], question: dict[str, Any]) -> dict[str, Any]:
    """Call the function, or a program of the check with it."""

    def stand_in(number: int) -> Callable[..., Any]:
        return lambda *args, **kwargs: _ask_back(line, number, args, kwargs)

    called = partial(find(question["program"]), solution) if "program" in question else solution
    args, kwargs = (decode(question[each], find, stand_in) for each in ("args", "kwargs"))
    with torch.inference_mode(False), torch.enable_grad():  # whatever the question before has left
        value = encode(called(*args, **kwargs))  # what is lazy is computed now
    after = encode(args)
    is_unchanged = json.dumps(after) == json.dumps(question["args"])  # the texts of 1 and True differ
    return {"value": value, "after": None if is_unchanged else after}


def _on_rank(find: Find, asked: dict[str, Any], solution: Callable[..., Any]) -> dict[str, Any]:
    """Run a program of the check on this rank of a world."""
    _enter_group(asked["rank"], asked["size"], "gloo", init_file=asked["meet"], timeout_s=asked["timeout_s"])
    program, args = find(asked["program"]), decode(asked["args"], find)
    return {"value": encode(program(asked["rank"], asked["size"], solution, *args))}


def _ask_back(line: Line, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of the check; what it writes into its arguments is written here too."""
    with line.one_at_a_time:
        line.send(call=number, args=encode(list(args)), kwargs=encode(kwargs))
        answer = line.read()
    if answer is None or "stopped" in answer:
        raise Stopped
    if "raised" in answer:
        name, text = answer["raised"]
        raise getattr(builtins, name)(text)
    for mine, theirs in zip([*args, *kwargs.values()], decode(answer["after"], resolve_name), strict=True):
        write_back(mine, theirs)
    return decode(answer["value"], resolve_name)


def _told(error: BaseException) -> dict[str, Any]:
    """An exception as data: its classes, its text, how Python shows it, and the learner's line that it came from."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    shown = traceback.format_exception_only(error)[0].strip()
    return {"kinds": kinds, "text": str(error), "shown": shown, "where": their_line(error)}


def take_out(paths: Sequence[str]) -> None:
    """Give functions and classes of the package another body, for all code in this process and under every name.

    Example: after `take_out(["pllab.pipeline.clock_cycles"])` every call of it raises `Refused`.
    """
    for path in paths:
        for function in functions_of(resolve_name(path)):
            if not function.__code__.co_freevars:
                function.__code__ = _refusing(path)


def _refusing(path: str) -> CodeType:
    """The code of a function that raises; it runs with the globals of the function whose body it replaces."""
    names: dict[str, Any] = {}
    why = _PACKAGED.format(name=path)
    text = f"def no(*_, **__):\n    from {__name__} import Refused\n    raise Refused('packaged', {why!r})\n"
    exec(compile(text, os.devnull, "exec"), names)
    code: CodeType = names["no"].__code__
    return code
